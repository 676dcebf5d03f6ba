"""What the API server, or kubelet's own list, says of the pods of a node.

Problem: requests, priorities and who is being deleted stand in manifests only, written in Kubernetes' quantities. Choice: a typed reader of just those
fields, from a PodList's JSON to `DeclaredPod`s; batch and mid resources count as CPU and memory, since on the node a CPU is a CPU. A static pod's
mirror has a UID of its own in the API and is known to the node by its hash, so that one counts.
Limits: a quantity that cannot be read counts as not said; ephemeral containers are left out.

Source: Kubernetes API reference (Pod); Koordinator's protocol (batch and mid resources; CPU in thousandths as plain integers).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cotenant.drivers.kubelet.declared import DeclaredContainer, DeclaredPod
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import Phase
from cotenant.model.quantities import milli, whole
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, CPU_NAME, MEMORY_NAME, MID_CPU, MID_MEMORY

MIRROR = "kubernetes.io/config.mirror"  # annotation: the hash by which the node knows a static pod
_WHOLE_CPU, _MEMORY = (BATCH_CPU, MID_CPU), (MEMORY_NAME, BATCH_MEMORY, MID_MEMORY)

Quantities = Mapping[str, str | int | float]


class _Read(msgspec.Struct, frozen=True, rename="camel"):
    """Unknown fields are passed over."""


class _Meta(_Read, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Resources(_Read, frozen=True):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class _Container(_Read, frozen=True):
    name: str = ""
    resources: _Resources | None = None
    restart_policy: str | None = None


class _Spec(_Read, frozen=True):
    priority: int | None = None
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None


class _ContainerStatus(_Read, frozen=True):
    name: str = ""
    container_id: str | None = msgspec.field(default=None, name="containerID")


class _Status(_Read, frozen=True):
    phase: str | None = None
    qos_class: str | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None


class _Pod(_Read, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _PodList(_Read, frozen=True):
    items: tuple[_Pod, ...] | None = None


_PODS = msgspec.json.Decoder(_PodList)
_QOS = {qos.value: qos for qos in KubernetesQoS}


def read_pods(body: bytes) -> tuple[DeclaredPod, ...]:
    """The pods of a PodList as JSON. Raises `InvalidInput` where it is none."""
    try:
        items = _PODS.decode(body).items or ()
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInput("list of pods", body[:40].decode("utf-8", "replace"), f"a PodList ({error})") from error
    return tuple(_declared(pod) for pod in items if pod.metadata.uid)


def _declared(pod: _Pod) -> DeclaredPod:
    meta, status = pod.metadata, pod.status
    annotations = meta.annotations or {}
    ids = {
        each.name: each.container_id.rpartition("/")[2]
        for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        if each.container_id
    }
    sidecars = (each for each in pod.spec.init_containers or () if each.restart_policy == "Always")
    return DeclaredPod(
        uid=annotations.get(MIRROR) or meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        labels=Labels.of(meta.labels or {}),
        annotations=Labels.of(annotations),
        priority=pod.spec.priority,
        kubernetes_qos=_QOS.get(status.qos_class or ""),
        containers=tuple(_container(each, ids) for each in (*(pod.spec.containers or ()), *sidecars)),
        phase=_phase(meta, status),
    )


def _phase(meta: _Meta, status: _Status) -> Phase:
    if status.phase in ("Succeeded", "Failed"):
        return Phase.OVER
    return Phase.TERMINATING if meta.deletion_timestamp else Phase.RUNNING


def _container(one: _Container, ids: Mapping[str, str]) -> DeclaredContainer:
    resources = one.resources or _Resources()
    requests, limits = resources.requests or {}, resources.limits or {}
    # As Kubernetes defaults it: who only limits has requested that much.
    return DeclaredContainer(
        name=one.name,
        container_id=ids.get(one.name, ""),
        cpu_request_m=_cpu_m(requests) or _cpu_m(limits),
        cpu_limit_m=_cpu_m(limits),
        memory_request_bytes=_bytes(requests) or _bytes(limits),
        memory_limit_bytes=_bytes(limits),
    )


def _cpu_m(amounts: Quantities) -> int | None:
    """Milli-CPU; 0 where none is named, None where one cannot be read."""
    try:
        usual = milli(amounts[CPU_NAME]) if CPU_NAME in amounts else 0
        return usual + sum(whole(amounts[name]) for name in _WHOLE_CPU if name in amounts)
    except InvalidInput:
        return None


def _bytes(amounts: Quantities) -> int | None:
    try:
        return sum(whole(amounts[name]) for name in _MEMORY if name in amounts)
    except InvalidInput:
        return None
