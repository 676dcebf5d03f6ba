"""NodeResourceTopology: a node's CPUs, read for a scheduler and written for an agent or a simulated node.

Schedulers of co-location users read CPUs from this object's annotations, JSON that an agent writes, and one bad text
must not be read as other CPUs. Structs with only the annotations that are used; equal topology texts are read once and
share a value; anything that cannot be true (a CPU twice, a core on two NUMA nodes) is an `InvalidInput` that names the
annotation, and the node counts as having no topology.
Limits: the shared pools are written and not read; zones are read for CPU and memory.

Source: Koordinator, apis/extension/{numa_aware,node_reservation,system_qos,node_resource_amplification}.go;
NodeResourceTopology v1alpha1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import msgspec
from msgspec import field

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Text
from cotenant.model.cluster.annotations import AMPLIFICATION_RATIO
from cotenant.model.cpus.amplification import NOT_AMPLIFIED, Ratios
from cotenant.model.cpus.basic_info import CPU_BASIC_INFO
from cotenant.model.cpus.cpulist import format_cpus, parse_cpus
from cotenant.model.cpus.reported import (
    CPU_SHARED_POOLS,
    CPU_TOPOLOGY,
    KUBELET_CPU_MANAGER_POLICY,
    NODE_RESERVATION,
    POD_CPU_ALLOCS,
    SYSTEM_QOS_RESOURCE,
    NodeTopology,
    NumaZone,
    ReservedCpus,
)
from cotenant.model.cpus.spec import NodeBindPolicy, NumaStrategy, TopologyPolicy
from cotenant.model.cpus.topology import CpuTopology, mask_of
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.quantities import milli, whole

ZONE_TYPE = "Node"
_FULL_CORES_ONLY, _ACROSS_NUMA = "full-pcpus-only", "distribute-cpus-across-numa"
_POLICIES = {
    "BestEffort": TopologyPolicy.BEST_EFFORT,
    "Restricted": TopologyPolicy.RESTRICTED,
    "SingleNUMANodePodLevel": TopologyPolicy.SINGLE_NUMA_NODE,
}

T = TypeVar("T")


class TopologyAnnotations(ApiStruct, frozen=True):
    """The annotations that are used, each JSON."""

    cpu_topology: Text = field(default=None, name=CPU_TOPOLOGY)
    pod_cpu_allocs: Text = field(default=None, name=POD_CPU_ALLOCS)
    shared_pools: Text = field(default=None, name=CPU_SHARED_POOLS)
    kubelet_policy: Text = field(default=None, name=KUBELET_CPU_MANAGER_POLICY)
    reservation: Text = field(default=None, name=NODE_RESERVATION)
    system_qos: Text = field(default=None, name=SYSTEM_QOS_RESOURCE)
    amplification: Text = field(default=None, name=AMPLIFICATION_RATIO)
    basic_info: Text = field(default=None, name=CPU_BASIC_INFO)


class TopologyMeta(ApiStruct, frozen=True):
    """ObjectMeta."""

    name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    annotations: TopologyAnnotations | None = None


class ZoneResource(ApiStruct, frozen=True):
    """One resource of a zone."""

    name: str
    capacity: str | int | float = 0
    allocatable: str | int | float = 0
    available: str | int | float = 0


class TopologyZone(ApiStruct, frozen=True):
    """A NUMA node is a zone of type Node, named node-0 and so on."""

    name: str
    type: str
    resources: tuple[ZoneResource, ...] | None = None


class NodeResourceTopology(ApiStruct, frozen=True):
    """topology.node.k8s.io/v1alpha1 NodeResourceTopology. It has no spec and no status."""

    api_version: str = field(default="topology.node.k8s.io/v1alpha1")
    kind: str = "NodeResourceTopology"
    metadata: TopologyMeta = TopologyMeta()
    topology_policies: tuple[str, ...] | None = None
    zones: tuple[TopologyZone, ...] | None = None


NODE_TOPOLOGIES = Kind(
    "NodeResourceTopology",
    "topology.node.k8s.io",
    "v1alpha1",
    "noderesourcetopologies",
    False,
    NodeResourceTopology,
)


class TopologyCpu(ApiStruct, frozen=True, omit_defaults=False):
    """One CPU."""

    id: int
    core: int
    socket: int
    node: int


class Detail(ApiStruct, frozen=True, omit_defaults=False):
    """cpu-topology."""

    detail: tuple[TopologyCpu, ...] = ()


class PodCpus(ApiStruct, frozen=True):
    """An entry of pod-cpu-allocs."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    cpuset: str = ""
    managed_by_kubelet: bool = False


class KubeletPolicy(ApiStruct, frozen=True):
    """cpu-manager-policy."""

    policy: str = ""
    options: dict[str, str] | None = None
    reserved_cpus: str = field(default="", name="reservedCPUs")


class NodeReservation(ApiStruct, frozen=True):
    """reservation."""

    reserved_cpus: str = field(default="", name="reservedCPUs")


class SystemQos(ApiStruct, frozen=True):
    """system-qos-resource."""

    cpuset: str = ""
    cpuset_exclusive: bool | None = None


class SharedPool(ApiStruct, frozen=True, omit_defaults=False):
    """An entry of cpu-shared-pools."""

    socket: int
    node: int
    cpuset: str


# ---- reading


def read_node_topology(obj: NodeResourceTopology) -> NodeTopology:
    """A node's CPUs. Raises `InvalidInput` where they are missing or contradict themselves."""
    name, written = obj.metadata.name or "", obj.metadata.annotations or TopologyAnnotations()
    if not written.cpu_topology:
        raise InvalidInput(
            f"annotation {CPU_TOPOLOGY}", written.cpu_topology or "", "the node's CPUs, as its agent writes them"
        )
    topology = _topology(written.cpu_topology)
    kubelet = _json(KubeletPolicy, KUBELET_CPU_MANAGER_POLICY, written.kubelet_policy) or KubeletPolicy()
    static = kubelet.policy == "static"
    options = kubelet.options or {} if static else {}
    try:
        ratios = Ratios.parse(written.amplification)
    except InvalidInput:  # as on the node itself: what cannot be read counts as absent, and the CPUs stand
        ratios = NOT_AMPLIFIED
    return NodeTopology(
        name=name,
        topology=topology,
        kept=tuple(reserved_cpus for reserved_cpus in _reserved(written, kubelet) if reserved_cpus.cpus),
        bind=NodeBindPolicy.FULL_CORES_ONLY if options.get(_FULL_CORES_ONLY) == "true" else NodeBindPolicy.NONE,
        strategy=NumaStrategy.DISTRIBUTE_EVENLY if options.get(_ACROSS_NUMA) == "true" else None,
        policy=next(
            (_POLICIES[policy] for policy in obj.topology_policies or () if policy in _POLICIES), TopologyPolicy.NONE
        ),
        zones=_zones(obj.zones or ()),
        ratio_ppm=ratios.cpu_ppm,
        memory_ratio_ppm=ratios.memory_ppm,
        kubelet_gives=static,
    )


@lru_cache(maxsize=1024)
def _topology(text: str) -> CpuTopology:
    found = _json(Detail, CPU_TOPOLOGY, text)
    cpus = (
        tuple(LogicalCpu(cpu_info.id, cpu_info.core, cpu_info.socket, cpu_info.node) for cpu_info in found.detail)
        if found
        else ()
    )
    if not cpus:
        raise InvalidInput(f"annotation {CPU_TOPOLOGY}", text, "at least one CPU")
    if any(min(cpu.core, cpu.socket, cpu.numa) < 0 for cpu in cpus):
        raise InvalidInput(f"annotation {CPU_TOPOLOGY}", text, "numbers of cores, sockets and nodes of 0 and more")
    try:
        return CpuTopology.of(cpus)
    except InvalidInput as error:
        raise InvalidInput(f"annotation {CPU_TOPOLOGY}: {error.field}", error.value, error.expected) from None


def _reserved(written: TopologyAnnotations, kubelet: KubeletPolicy) -> Iterable[ReservedCpus]:
    yield ReservedCpus("kubelet", _cpus(kubelet.reserved_cpus, KUBELET_CPU_MANAGER_POLICY))
    reservation = _json(NodeReservation, NODE_RESERVATION, written.reservation)
    if reservation is not None:
        yield ReservedCpus("reservation", _cpus(reservation.reserved_cpus, NODE_RESERVATION))
    system = _json(SystemQos, SYSTEM_QOS_RESOURCE, written.system_qos)
    if system is not None and system.cpuset_exclusive is not False:
        yield ReservedCpus("system", _cpus(system.cpuset, SYSTEM_QOS_RESOURCE))
    for pod_cpus in _json(tuple[PodCpus, ...], POD_CPU_ALLOCS, written.pod_cpu_allocs) or ():
        if pod_cpus.managed_by_kubelet and pod_cpus.uid:
            holder = f"pod {pod_cpus.namespace}/{pod_cpus.name} by the kubelet's static policy"
            yield ReservedCpus(holder, _cpus(pod_cpus.cpuset, POD_CPU_ALLOCS))


def _cpus(text: str, annotation: str) -> int:
    return mask_of(parse_cpus(text, f"annotation {annotation}"))


def _zones(zones: Sequence[TopologyZone]) -> tuple[NumaZone, ...]:
    found = []
    for zone in zones:
        number = zone.name.removeprefix("node-")
        if zone.type != ZONE_TYPE or number == zone.name or not (number.isascii() and number.isdecimal()):
            continue
        amounts = {resource.name: resource.allocatable for resource in zone.resources or ()}
        where = f"zone {zone.name}"
        found.append(
            NumaZone(
                int(number),
                milli(amounts["cpu"], where) if "cpu" in amounts else None,
                whole(amounts["memory"], where) if "memory" in amounts else None,
            )
        )
    return tuple(sorted(found, key=lambda numa_zone: numa_zone.node))


def _json(kind: type[T], annotation: str, text: str | None) -> T | None:
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"annotation {annotation}", text, "JSON as Koordinator has it", str(error)) from None


# ---- writing

_encoder = msgspec.json.Encoder()


def topology_text(cpus: Iterable[LogicalCpu]) -> str:
    """The annotation with these CPUs, ascending."""
    infos = tuple(TopologyCpu(id=c.cpu, core=c.core, socket=c.socket, node=c.numa) for c in sorted(cpus, key=_number))
    return _encoder.encode(Detail(detail=infos)).decode()


def pools_text(cpus: Iterable[LogicalCpu], taken: Iterable[int]) -> str:
    """The annotation with the CPUs of each NUMA node that are left for pods without own CPUs."""
    away = frozenset(taken)
    pools: dict[tuple[int, int], list[int]] = {}
    for cpu in cpus:
        pools.setdefault((cpu.socket, cpu.numa), [])
        if cpu.cpu not in away:
            pools[cpu.socket, cpu.numa].append(cpu.cpu)
    shared = tuple(SharedPool(socket=at[0], node=at[1], cpuset=format_cpus(left)) for at, left in sorted(pools.items()))
    return _encoder.encode(shared).decode()


def allocs_text(allocs: Iterable[PodCpus]) -> str:
    """The annotation with the pods that hold CPUs."""
    return _encoder.encode(tuple(allocs)).decode()


def annotation_text(value: KubeletPolicy | NodeReservation) -> str:
    """The text of one of the small annotations."""
    return _encoder.encode(value).decode()


def said_by(obj: NodeResourceTopology) -> Mapping[str, str | None]:
    """The annotations that an object has, of those that are used, by name."""
    written = obj.metadata.annotations or TopologyAnnotations()
    fields_of = zip(written.__struct_fields__, written.__struct_encode_fields__, strict=True)
    return {name: getattr(written, attribute) for attribute, name in fields_of}


def _number(cpu: LogicalCpu) -> int:
    return cpu.cpu
