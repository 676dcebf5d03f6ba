"""What a node reports about its CPUs: topology, CPUs reserved by others, and the kubelet's own policies.

Which CPUs may be allocated depends on facts that a node's agent and kubelet write to one object beside the node. That
object as a value; reserved CPUs are masks with their holders. Nodes that report the same text share one `CpuTopology`,
so that comparing identity is enough.
Limits: of NUMA nodes only CPU and memory; labels of the node itself are not included.

Source: Koordinator, apis/extension/numa_aware.go (names of annotations); NodeResourceTopology of
topology.node.k8s.io/v1alpha1 (zones).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cpus.amplification import PPM
from cotenant.model.cpus.spec import NodeBindPolicy, NumaStrategy, TopologyPolicy
from cotenant.model.cpus.topology import CpuTopology

CPU_TOPOLOGY = "node.koordinator.sh/cpu-topology"  # JSON: {"detail": [{"id", "core", "socket", "node"}]}
POD_CPU_ALLOCS = "node.koordinator.sh/pod-cpu-allocs"  # JSON: pods with CPUs, and whether the kubelet gave them
CPU_SHARED_POOLS = "node.koordinator.sh/cpu-shared-pools"  # JSON: what remains for pods without own CPUs
KUBELET_CPU_MANAGER_POLICY = "kubelet.koordinator.sh/cpu-manager-policy"  # JSON: policy, options, reservedCPUs
NODE_RESERVATION = "node.koordinator.sh/reservation"  # JSON: reservedCPUs
SYSTEM_QOS_RESOURCE = "node.koordinator.sh/system-qos-resource"  # JSON: cpuset, cpusetExclusive


@dataclass(frozen=True, slots=True)
class ReservedCpus:
    """CPUs that may not be allocated, and their holder."""

    who: str  # "kubelet", "system", "pod NS/NAME by the kubelet's static policy"
    cpus: int  # mask


@dataclass(frozen=True, slots=True)
class NumaZone:
    """Capacity of one NUMA node; None = not reported."""

    node: int
    cpu_m: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """One node's reported CPU topology."""

    name: str
    topology: CpuTopology
    kept: tuple[ReservedCpus, ...] = ()
    bind: NodeBindPolicy = NodeBindPolicy.NONE  # by the kubelet's options
    strategy: NumaStrategy | None = None  # by the kubelet's options
    policy: TopologyPolicy = TopologyPolicy.NONE  # of the kubelet's topology manager
    zones: tuple[NumaZone, ...] = ()
    ratio_ppm: int = PPM  # amplified (advertised) CPU to physical CPU, where the Node object does not say
    memory_ratio_ppm: int = PPM  # the same of memory
    kubelet_gives: bool = False  # its kubelet's static CPU manager gives CPUs to containers; nobody else does then

    @property
    def reserved(self) -> int:
        """All reserved CPUs, as a mask."""
        mask = 0
        for reserved_cpus in self.kept:
            mask |= reserved_cpus.cpus
        return mask
