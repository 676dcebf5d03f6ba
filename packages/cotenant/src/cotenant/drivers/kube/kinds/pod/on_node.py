"""The pods of one node as the API server declares them, for the node's agent.

Requests, priorities, labels and annotations of a pod are known to the API server only, and an agent wants those of its
own node, all annotations among them. Structs of their own beside the scheduler's, read into `DeclaredPod`, which is
laid over the groups that are found. Amounts of batch and mid resources are the node's CPU and memory as well, and are
marked: no kubelet enforces them.

Native CPU and memory are what the kubelet says is in place, not what the specification wishes for: a resize that is
deferred, infeasible or under way must not move a limit, a protection or CPUs of its own before the kubelet has.
Limits: what cannot be read counts as absent; amounts of a pod as a whole (`spec.resources`) are not read.
Source: Kubernetes API reference; mirror pods carry their UID on the node in `kubernetes.io/config.hash`; Koordinator's
batch and mid resources (batch-cpu and mid-cpu are in milli-CPU); KEP-1287 (resizes in place).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import nan

from msgspec import field

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Quantities, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta, Resources
from cotenant.drivers.kubelet.declared import DeclaredContainer, DeclaredPod
from cotenant.drivers.kubelet.extended import (
    PodInfoAmounts,
    Role,
    cpu_limit,
    is_extended,
    max_at_once,
    pod_amounts,
)
from cotenant.model.cluster.annotations import MIRROR
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NodePodPhase
from cotenant.model.quantities import milli, whole
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, CPU_NAME, MEMORY_NAME, MID_CPU, MID_MEMORY

CONFIG_HASH = "kubernetes.io/config.hash"


_CPU: tuple[tuple[str, Callable[[str | int | float], int]], ...] = (
    ("cpu", milli),
    (BATCH_CPU, whole),
    (MID_CPU, whole),
)


_MEMORY: tuple[tuple[str, Callable[[str | int | float], int]], ...] = (
    ("memory", whole),
    (BATCH_MEMORY, whole),
    (MID_MEMORY, whole),
)


class NodeContainerSpec(ApiStruct, frozen=True):
    """A container, the part that a node's agent uses."""

    name: str = ""
    resources: Resources | None = None
    restart_policy: Text = None  # of an init container: "Always" makes it a sidecar


class NodePodSpec(ApiStruct, frozen=True):
    """What a pod asks for."""

    priority: int | None = None
    scheduler_name: Text = None
    host_network: bool | None = None
    termination_grace_period_seconds: int | None = None
    containers: tuple[NodeContainerSpec, ...] | None = None
    init_containers: tuple[NodeContainerSpec, ...] | None = None
    overhead: Quantities = None


class NodeContainerState(ApiStruct, frozen=True):
    """What a container does: it waits where neither is there."""

    running: dict[str, object] | None = None
    terminated: dict[str, object] | None = None


class NodeContainerStatus(ApiStruct, frozen=True):
    """A container as it runs, with the amounts that its kubelet has put in place."""

    name: str = ""
    container_id: Text = field(default=None, name="containerID")
    state: NodeContainerState | None = None
    resources: Resources | None = None


class PodAddress(ApiStruct, frozen=True):
    """One of a pod's."""

    ip: str = ""


class NodePodStatus(ApiStruct, frozen=True):
    """The status of a pod."""

    phase: Text = None
    pod_ips: tuple[PodAddress, ...] | None = field(default=None, name="podIPs")
    qos_class: Text = None
    container_statuses: tuple[NodeContainerStatus, ...] | None = None
    init_container_statuses: tuple[NodeContainerStatus, ...] | None = None


class NodePodObject(ApiStruct, frozen=True):
    """v1 Pod, with all its annotations."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodePodSpec | None = None
    status: NodePodStatus | None = None


NODE_PODS = Kind("Pod", "", "v1", "pods", True, NodePodObject)


def declared(obj: NodePodObject) -> DeclaredPod:
    """A pod as the API server declares it."""
    meta, spec, status = obj.metadata, obj.spec or NodePodSpec(), obj.status or NodePodStatus()
    annotations = meta.annotations or {}
    statuses = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    ids = {entry.name: (entry.container_id or "").rpartition("//")[2] for entry in statuses}
    there = {entry.name: entry.resources for entry in statuses}
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    overhead = _container(NodeContainerSpec(resources=Resources(spec.overhead, spec.overhead)), "")
    roles = [_role(container) for container in spec.init_containers or ()] + [Role.CONTAINER] * len(
        spec.containers or ()
    )
    asked = tuple(_container(container, ids.get(container.name, "")) for container in containers)
    read = tuple(
        found if (has := there.get(one.name)) is None else _container(_in_place(one, has), found.container_id)
        for one, found in zip(containers, asked, strict=True)
    )
    amounts = tuple(_amounts(container, role) for container, role in zip(read, roles, strict=True))
    return DeclaredPod(
        uid=meta.uid or "",
        namespace=meta.namespace or "",
        name=meta.name or "",
        labels=Labels.of(meta.labels or {}),
        annotations=Labels.of(annotations),
        priority=spec.priority,
        scheduler=spec.scheduler_name or "default-scheduler",
        kubernetes_qos=_KUBERNETES_QOS.get(status.qos_class or ""),
        containers=read,
        phase=_phase(obj),
        has_started=_has_started(spec, status),
        # in the host's network its address is the node's
        addresses=()
        if spec.host_network
        else tuple(pod_address.ip for pod_address in status.pod_ips or () if pod_address.ip),
        owner=next(
            (f"{reference.kind} {reference.name}" for reference in meta.owner_references or () if reference.controller),
            "",
        ),
        extended=pod_amounts(amounts, _amounts(overhead)),
        # native CPU alone: lent CPU gives nobody CPUs of their own
        cpu_request_m=max_at_once(roles, [0 if amount.extended_cpu else amount.cpu_request_m for amount in amounts])
        + (overhead.cpu_request_m or 0),
        grace_s=spec.termination_grace_period_seconds,
        created_s=nan if meta.creation_timestamp is None else meta.creation_timestamp.timestamp(),
    )


def declared_pods(objects: Iterable[NodePodObject]) -> list[DeclaredPod]:
    """The pods of a node, static ones under the UID that they have on the node.

    Anybody who may create pods can write that UID as an annotation: it counts on a mirror pod of a node only, never
    where it is another pod's own, and of two that name it the older one stands.
    """
    found, static = [], dict[str, DeclaredPod]()
    for obj in objects:
        one = declared(obj)
        found.append(one)
        named = one.annotations.get(CONFIG_HASH)
        owners = obj.metadata.owner_references or ()
        if named and MIRROR in (obj.metadata.annotations or {}) and any(owner.kind == "Node" for owner in owners):
            other = static.get(named)
            if other is None or one.created_s < other.created_s:
                static[named] = replace(one, uid=named)
    uids = {one.uid for one in found}
    return [*found, *(one for uid, one in static.items() if uid not in uids)]


_KUBERNETES_QOS = {qos.value: qos for qos in KubernetesQoS}


def _phase(obj: NodePodObject) -> NodePodPhase:
    if obj.status is not None and obj.status.phase in ("Succeeded", "Failed"):
        return NodePodPhase.OVER
    return NodePodPhase.RUNNING if obj.metadata.deletion_timestamp is None else NodePodPhase.TERMINATING


def _has_started(spec: NodePodSpec, status: NodePodStatus) -> bool:
    """Whether each container runs, or ran; sidecars and init containers were before these."""
    began = {
        entry.name
        for entry in status.container_statuses or ()
        if entry.state is not None and (entry.state.running is not None or entry.state.terminated is not None)
    }
    containers = spec.containers or ()
    return bool(containers) and all(container.name in began for container in containers)


def _container(spec: NodeContainerSpec, container_id: str) -> DeclaredContainer:
    resources = spec.resources or Resources()
    limits = resources.limits or {}
    requests = {**limits, **(resources.requests or {})}  # a limit without a request is the request
    return DeclaredContainer(
        name=spec.name,
        container_id=container_id,
        cpu_request_m=_amount(requests, _CPU) or 0,
        cpu_limit_m=cpu_limit(_amount(limits, _CPU) or 0),
        memory_request_bytes=_amount(requests, _MEMORY) or 0,
        memory_limit_bytes=_amount(limits, _MEMORY) or 0,
        extended_cpu=is_extended(requests, "cpu"),
        extended_memory=is_extended(requests, "memory"),
    )


def _in_place(written: NodeContainerSpec, there: Resources) -> NodeContainerSpec:
    """The container with the native CPU and memory that it has, of those that it asks for: a runtime also reports what
    nobody asked a kubelet for.
    """
    resources = written.resources or Resources()
    return NodeContainerSpec(
        written.name,
        Resources(_resized(resources.requests, there.requests), _resized(resources.limits, there.limits)),
        written.restart_policy,
    )


def _resized(written: Quantities, there: Quantities) -> Quantities:
    there = there or {}
    return {
        name: there.get(name, amount)
        for name, amount in (written or {}).items()
        if name not in (CPU_NAME, MEMORY_NAME) or name in there
    }


def _role(init: NodeContainerSpec) -> Role:
    return Role.SIDECAR if init.restart_policy == "Always" else Role.INIT


def _amounts(container: DeclaredContainer, role: Role = Role.CONTAINER) -> PodInfoAmounts:
    return PodInfoAmounts(
        role,
        container.cpu_request_m or 0,
        container.cpu_limit_m or 0,
        container.memory_limit_bytes or 0,
        container.extended_cpu,
        container.extended_memory,
    )


def _amount(given: Quantities, names: tuple[tuple[str, Callable[[str | int | float], int]], ...]) -> int | None:
    for name, read in names:
        value = (given or {}).get(name)
        if value is not None:
            try:
                return max(0, read(value))
            except InvalidInput:
                return None
    return None
