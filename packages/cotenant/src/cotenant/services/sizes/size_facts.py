"""What stands in a cluster, as far as sizes go: pods with their programs, who owns them, nodes, and what is in the way.

Lists only. Kinds that a server does not have are none; what may not be read is a sentence, and the rest goes on. A copy
of `cotenant assess dump` has neither programs nor the namespaces' bounds, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import UNREADABLE, Forbidden, NotFound, Unavailable
from cotenant.drivers.kube.kinds.kind import AnyKind, ApiStruct, Kind
from cotenant.drivers.kube.kinds.namespace_limits import (
    AUTOSCALERS,
    LIMIT_RANGES,
    RESOURCE_QUOTAS,
    AutoscalerObject,
    LimitRangeObject,
    ResourceQuotaObject,
)
from cotenant.drivers.kube.kinds.node import NODES, NodeObject
from cotenant.drivers.kube.kinds.pod.sized import SIZED_PODS, SizedPodObject, read_sized_pod
from cotenant.drivers.kube.kinds.workloads import JOBS, REPLICA_SETS, WorkloadObject
from cotenant.drivers.kube.snapshot.kinds import key_of
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot
from cotenant.model.assess.prices import PricedNode
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.quantities import milli, whole
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.model.sizes.container import SizedPod
from cotenant.services.options import Kubeconfig

_PAGE = 500
_MIB = 1 << 20
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SizedCluster:
    """All of it. `above`: what controls a controller, by namespace, kind and name."""

    pods: tuple[SizedPod, ...]
    above: Mapping[tuple[str, str, str], tuple[str, str]]
    nodes: Mapping[str, PricedNode]
    limit_ranges: tuple[LimitRangeObject, ...] = ()
    quotas: tuple[ResourceQuotaObject, ...] = ()
    autoscalers: tuple[AutoscalerObject, ...] = ()
    faults: tuple[str, ...] = field(default=())  # what could not be read, a sentence each

    def workload_of(self, pod: SizedPod) -> str:
        """NAMESPACE/KIND/NAME of the highest controller that is known, as histories name it."""
        kind, name = pod.owner_kind or "Pod", pod.owner_name or pod.name
        kind, name = self.above.get((pod.namespace, kind, name), (kind, name))
        return f"{pod.namespace}/{kind}/{name}"


class _Meta(ApiStruct, frozen=True):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(ApiStruct, frozen=True):
    metadata: _Meta = _Meta()
    items: tuple[msgspec.Raw, ...] = ()


def read_sized_cluster(kubeconfig: Kubeconfig, context: str, qps: float, timeout_s: float) -> SizedCluster:
    """Read it. Raises `CotenantError` where pods or nodes cannot be read."""
    access = load_access(kubeconfig, context)

    async def read() -> SizedCluster:
        async with Client(
            access, qps=qps, burst=1, in_flight=1, timeout_s=timeout_s, user_agent="cotenant-sizes"
        ) as client:
            faults: list[str] = []
            pods = [line async for line in _listed(client, SIZED_PODS)]
            nodes = [line async for line in _listed(client, NODES)]
            rest = {
                kind.plural: await _optional(client, kind, faults)
                for kind in (REPLICA_SETS, JOBS, LIMIT_RANGES, RESOURCE_QUOTAS, AUTOSCALERS)
            }
            return SizedCluster(
                _pods(pods, True, faults),
                _above({"ReplicaSet": rest["replicasets"], "Job": rest["jobs"]}, faults),
                _nodes(nodes, faults),
                _decoded(LimitRangeObject, rest["limitranges"], "LimitRanges", faults),
                _decoded(ResourceQuotaObject, rest["resourcequotas"], "ResourceQuotas", faults),
                _decoded(AutoscalerObject, rest["horizontalpodautoscalers"], "autoscalers", faults),
                tuple(faults),
            )

    try:
        return asyncio.run(read())
    except Unavailable as error:
        why = str(error).partition(": ")[2] or str(error)
        raise Transient(f"the API server {access.server} does not answer: {why}") from error


def sized_copy(snapshot: ClusterSnapshot) -> SizedCluster:
    """What a copy knows."""
    faults = ["the copy has no LimitRanges, ResourceQuotas and autoscalers: none of them was considered"]
    objects = snapshot.objects
    return SizedCluster(
        _pods(objects.get(key_of(SIZED_PODS), ()), False, faults),
        _above({"ReplicaSet": objects.get(key_of(REPLICA_SETS), ()), "Job": objects.get(key_of(JOBS), ())}, faults),
        _nodes(objects.get(key_of(NODES), ()), faults),
        faults=tuple(faults),
    )


async def _listed(client: Client, kind: Kind[T]) -> AsyncIterator[bytes]:
    token = ""
    while True:
        query = {"limit": str(_PAGE), **({"continue": token} if token else {})}
        page = msgspec.json.decode(await client.request("GET", kind.path(), query=query), type=_Page)
        for raw in page.items:
            yield bytes(raw)
        token = page.metadata.continue_
        if not token:
            return


async def _optional(client: Client, kind: AnyKind, faults: list[str]) -> list[bytes]:
    try:
        return [line async for line in _listed(client, kind)]
    except NotFound:
        return []
    except Forbidden:
        faults.append(f"{kind.plural} may not be read here, so they were not considered")
        return []


def _decoded(form: type[T], lines: Iterable[bytes], what: str, faults: list[str]) -> tuple[T, ...]:
    return tuple(_decodable(form, lines, what, faults))


def _decodable(form: type[T], lines: Iterable[bytes], what: str, faults: list[str]) -> Iterator[T]:
    decoder, wrong = msgspec.json.Decoder(form), 0
    for line in lines:
        try:
            yield decoder.decode(line)
        except UNREADABLE:
            wrong += 1
    if wrong:
        faults.append(f"{wrong} {what} could not be read")


def _pods(lines: Iterable[bytes], has_programs: bool, faults: list[str]) -> tuple[SizedPod, ...]:
    found = []
    for obj in _decodable(SizedPodObject, lines, "pods", faults):
        try:
            found.append(read_sized_pod(obj, has_programs=has_programs))
        except InvalidInput as error:
            faults.append(f"pod {obj.metadata.namespace}/{obj.metadata.name} is left out: {error}")
    return tuple(found)


def _above(kinds: Mapping[str, Sequence[bytes]], faults: list[str]) -> dict[tuple[str, str, str], tuple[str, str]]:
    found = {}
    for kind, lines in kinds.items():
        for obj in _decodable(WorkloadObject, lines, f"objects of {kind}", faults):
            for reference in obj.metadata.owner_references or ():
                if reference.controller:
                    key = (obj.metadata.namespace or "default", kind, obj.metadata.name or "")
                    found[key] = (reference.kind, reference.name)
    return found


def _nodes(lines: Iterable[bytes], faults: list[str]) -> dict[str, PricedNode]:
    found = {}
    for obj in _decodable(NodeObject, lines, "nodes", faults):
        name = obj.metadata.name or ""
        has = (obj.status.capacity or obj.status.allocatable or {}) if obj.status is not None else {}
        try:
            cpu_m = milli(has.get(CPU_NAME, 0), f"node {name}: cpu")
            memory_mib = whole(has.get(MEMORY_NAME, 0), f"node {name}: memory") // _MIB
        except InvalidInput as error:
            faults.append(str(error))
            continue
        found[name] = PricedNode(name, cpu_m, memory_mib, labels=obj.metadata.labels or {})
    return found
