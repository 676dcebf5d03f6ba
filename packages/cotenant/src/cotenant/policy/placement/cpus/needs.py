"""CPU needs of a pod: whether it gets own CPUs or NUMA alignment.

Most pods share CPUs, and must be recognised at no cost. One function, called once per pod; its result is a value that
equal pods share. Own CPUs are for production pods of class LSE and LSR, and for pods of any class but BE that require a
bind policy.
Limits: a pod of class LSE or LSR without CPU request, or with the bind policy ConstrainedBurst, shares CPUs.

Source: Koordinator, NodeNUMAResource (AllowUseCPUSet, PreFilter); upstream ignores a required policy of other classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.entitlement import gets_own_cpus
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.spec import BindPolicy, NumaTopologySpec, ResourceSpec, TopologyPolicy
from cotenant.model.resources import CPU_NAME, MEMORY_NAME

_OWNERS = frozenset({QoSClass.LSE, QoSClass.LSR})
_USUAL, _ANYWHERE = ResourceSpec(), NumaTopologySpec()


@dataclass(frozen=True, slots=True)
class CpuNeed:
    """A pod's needs on CPUs and NUMA nodes. `own`: own CPUs; without it, only alignment of its resources.
    `by_kubelet`: a kubelet could give them.
    """

    cpu_m: int
    memory_bytes: int
    own: bool
    spec: ResourceSpec = _USUAL
    numa: NumaTopologySpec = _ANYWHERE
    by_kubelet: bool = False

    @property
    def is_strict(self) -> bool:
        """Whether it must not be placed on a node without a known CPU topology."""
        return self.spec.required is not None or self.numa.policy not in (
            TopologyPolicy.NONE,
            TopologyPolicy.BEST_EFFORT,
        )


def shared_need(pod: Pod) -> CpuNeed:
    """For a pod whose CPU and memory a node aligns with its other resources."""
    return CpuNeed(pod.requests.get(CPU_NAME), pod.requests.get(MEMORY_NAME), own=False)


def cpu_need(pod: Pod, demands: Demands, default: BindPolicy = BindPolicy.FULL_CORES) -> CpuNeed | None:
    """The needs of this pod; None for one that shares CPUs, as most do. `default`: the bind policy where the pod
    names none.
    """
    if demands.cpus is None and demands.numa is None and pod.qos not in _OWNERS:
        return None
    spec, numa = demands.cpus or _USUAL, demands.numa or _ANYWHERE
    cpu_m = pod.requests.get(CPU_NAME)
    own = cpu_m > 0 and gets_own_cpus(pod.qos, pod.priority_class, spec, default)
    if not own and numa.policy is TopologyPolicy.NONE:
        return None
    return CpuNeed(cpu_m, pod.requests.get(MEMORY_NAME), own, spec, numa, own and pod.has_whole_cpus)
