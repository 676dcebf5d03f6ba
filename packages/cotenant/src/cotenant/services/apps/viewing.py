"""What a release has, on one page: objects, pods by guid with their nodes, objectives, quotas, and what it asks for
costs.

Limits: an objective is found by its own name in the release, or by a Service or workload of the release that it is
about; what is priced is what running pods request, not what they use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cotenant.drivers.kube.client.errors import Forbidden, NotFound
from cotenant.drivers.kube.client.objects import Objects, ServedKind
from cotenant.engine.apps.readiness import standing_of
from cotenant.engine.apps.stopping import is_stopped
from cotenant.model.apps.objects import ref_of
from cotenant.model.assess.prices import PricedNode, PriceTable
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import NAME as QUOTA_OF_POD
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.model.quantities import milli, whole
from cotenant.services.apps.carrying import Carrier
from cotenant.services.apps.classes import has_class
from cotenant.services.apps.workloads import WORKLOADS, guid_of, pods_of

_NODES = ServedKind("v1", "nodes", False)
_QUOTAS = ServedKind("v1", "resourcequotas", True)
_GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class ObjectView:
    """An object. `ready` of `wanted`: of what has pods."""

    kind: str
    namespace: str
    name: str
    ready: int
    wanted: int
    is_stopped: bool
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod."""

    guid: str
    namespace: str
    name: str
    node: str
    phase: str
    qos: str
    of: str  # its workload


@dataclass(frozen=True, slots=True)
class QuotaView:
    """A quota that the release's pods count against."""

    kind: str
    name: str
    used: Mapping[str, str]
    maximum: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AppObjectiveView:
    """An objective and how it stands."""

    name: str
    service: str
    target: str
    state: str


@dataclass(frozen=True, slots=True)
class CostView:
    """What running pods request, and its price an hour; None where no price is known of a node."""

    cpu_m: int
    memory_mib: int
    per_hour: float | None = None
    currency: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseView:
    """The page."""

    name: str
    namespace: str
    source: str
    revision: int
    state: str
    message: str
    objects: tuple[ObjectView, ...]
    pods: tuple[PodView, ...]
    objectives: tuple[AppObjectiveView, ...] = ()
    quotas: tuple[QuotaView, ...] = ()
    cost: CostView = field(default_factory=lambda: CostView(0, 0))
    class_name: str = ""
    without_class: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownRelease:
    """What the record says of a release."""

    source: str
    revision: int
    state: str
    message: str = ""
    class_name: str = ""


async def view(
    carrier: Carrier, documents: Sequence[JsonObject], known: KnownRelease, prices: PriceTable | None
) -> ReleaseView:
    """The page of a release with these documents."""
    found: list[ObjectView] = []
    lives: list[JsonObject] = []
    for document in documents:
        ref = ref_of(document)
        live = await carrier.live(ref, str(document["apiVersion"]))
        standing = standing_of(live)
        if live is not None:
            lives.append(live)
        stopped = live is not None and is_stopped(live)
        why = (standing.failed,) if standing.failed else standing.reasons
        found.append(ObjectView(ref.kind, ref.namespace, ref.name, standing.ready, standing.wanted, stopped, why))
    owned = await pods_of(carrier.objects, lives)
    raw = [pod for one in owned for pod in one.pods]
    pods = tuple(_pod(pod, f"{one.ref.kind} {one.ref.name}") for one in owned for pod in one.pods)
    is_stopped_whole = any(one.is_stopped for one in found)
    lacking = [pod["metadata"]["name"] for pod in raw if known.class_name and not has_class(pod, known.class_name)]
    return ReleaseView(
        carrier.release.name,
        carrier.release.namespace,
        known.source,
        known.revision,
        "stopped" if is_stopped_whole and known.state == "deployed" else known.state,
        known.message,
        tuple(found),
        pods,
        await _objectives(carrier, lives),
        await _quotas(carrier, raw),
        await _cost(carrier.objects, raw, prices),
        known.class_name,
        tuple(lacking),
    )


def _pod(pod: JsonMapping, of: str) -> PodView:
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    qos = (metadata.get("labels") or {}).get("koordinator.sh/qosClass") or ""
    phase = "Terminating" if metadata.get("deletionTimestamp") else str(status.get("phase") or "")
    node = str(spec.get("nodeName") or "")
    return PodView(guid_of(pod), metadata["namespace"], metadata["name"], node, phase, qos, of)


async def _objectives(carrier: Carrier, lives: Sequence[JsonMapping]) -> tuple[AppObjectiveView, ...]:
    place = await carrier.objects.served_in_group("slo.cotenant.io", "ServiceObjective")
    if place is None:
        return ()
    names = {live["metadata"]["name"] for live in lives if live["kind"] in (WORKLOADS | {"Service"})}
    own = {live["metadata"]["name"] for live in lives if live["kind"] == "ServiceObjective"}
    found = []
    for one in await _listed(carrier.objects, place, carrier.release.namespace):
        spec = one.get("spec") or {}
        service = str((spec.get("service") or {}).get("name") or "")
        if one["metadata"]["name"] in own or service in names:
            state = str((one.get("status") or {}).get("state") or "not measured")
            found.append(AppObjectiveView(one["metadata"]["name"], service, str(spec.get("target") or ""), state))
    return tuple(found)


async def _quotas(carrier: Carrier, pods: Sequence[JsonMapping]) -> tuple[QuotaView, ...]:
    found = []
    for namespace in sorted({pod["metadata"]["namespace"] for pod in pods} | {carrier.release.namespace}):
        for one in await _listed(carrier.objects, _QUOTAS, namespace):
            status = one.get("status") or {}
            found.append(_quota(one, "ResourceQuota", status.get("used"), status.get("hard")))
    wanted = {(pod["metadata"].get("labels") or {}).get(QUOTA_OF_POD) for pod in pods} - {None}
    place = await carrier.objects.served_in_group("scheduling.sigs.k8s.io", "ElasticQuota") if wanted else None
    for one in await _listed(carrier.objects, place, "") if place is not None else ():
        if one["metadata"]["name"] in wanted:
            used, maximum = (one.get("status") or {}).get("used"), (one.get("spec") or {}).get("max")
            found.append(_quota(one, "ElasticQuota", used, maximum))
    return tuple(found)


def _quota(obj: JsonMapping, kind: str, used: JsonMapping | None, maximum: JsonMapping | None) -> QuotaView:
    metadata = obj["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    return QuotaView(
        kind,
        name,
        {key: str(value) for key, value in (used or {}).items()},
        {key: str(value) for key, value in (maximum or {}).items()},
    )


async def _listed(objects: Objects, place: ServedKind, namespace: str) -> list[JsonObject]:
    """All of a kind, none where that is not permitted."""
    try:
        return await objects.every(place, namespace)
    except (Forbidden, NotFound):
        return []


async def _cost(objects: Objects, pods: Sequence[JsonMapping], prices: PriceTable | None) -> CostView:
    cpu_m = memory_mib = 0
    per_hour: float | None = 0.0 if prices is not None else None
    nodes: dict[str, PricedNode] = {}
    if prices is not None:
        nodes = {one["metadata"]["name"]: _priced(one) for one in await _listed(objects, _NODES, "")}
    for pod in pods:
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        if not node or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        cpu, memory, gpus = _requests(pod)
        cpu_m, memory_mib = cpu_m + cpu, memory_mib + memory
        price = prices.of(nodes[node]) if prices is not None and node in nodes else None
        if price is None or per_hour is None:
            per_hour = None
            continue
        per_hour += cpu / 1000 * price.core_per_hour + memory / 1024 * price.gib_per_hour + gpus * price.gpu_per_hour
    return CostView(cpu_m, memory_mib, per_hour, prices.currency if prices is not None else "")


def _requests(pod: JsonMapping) -> tuple[int, int, int]:
    """CPU in millicores, memory in MiB and cards of a pod's containers."""
    cpu = memory = gpus = 0
    for container in (pod.get("spec") or {}).get("containers") or ():
        requests = (container.get("resources") or {}).get("requests") or {}
        try:
            cpu += milli(requests.get("cpu", 0)) + whole(requests.get("kubernetes.io/batch-cpu", 0))
            memory += (whole(requests.get("memory", 0)) + whole(requests.get("kubernetes.io/batch-memory", 0))) >> 20
            gpus += whole(requests.get(_GPU, 0))
        except InvalidInput:
            continue
    return cpu, memory, gpus


def _priced(node: JsonMapping) -> PricedNode:
    capacity, metadata = (node.get("status") or {}).get("capacity") or {}, node["metadata"]
    return PricedNode(
        metadata["name"],
        milli(capacity.get("cpu", 0)),
        whole(capacity.get("memory", 0)) >> 20,
        whole(capacity.get(_GPU, 0)),
        metadata.get("labels") or {},
        str((node.get("spec") or {}).get("providerID") or ""),
    )
