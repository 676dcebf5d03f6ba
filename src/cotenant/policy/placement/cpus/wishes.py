"""What a pod and a node together demand of CPUs and NUMA nodes.

Problem: the pod has annotations, the node has labels, the kubelet has a policy, and they may contradict. Choice: one question each, answered
with what is to be kept or with both sides of the contradiction. A required wish of the pod or a policy of the node is kept or the pod waits;
a preferred one gives way. Limits: whether a pod has CPUs of its own at all is settled by its QoS class before.

Source: Koordinator, NodeNUMAResource (PreFilter, Filter); the kubelet's names of topology manager policies.
"""

from __future__ import annotations

from cotenant.model.cpus.spec import BindPolicy, NodeBindPolicy, NumaStrategy, ResourceSpec, TopologyPolicy
from cotenant.policy.placement.cpus.accumulator import CpuAsk
from cotenant.policy.placement.refusal import Refusal

_NODE_DEMANDS = {NodeBindPolicy.FULL_CORES_ONLY: BindPolicy.FULL_CORES, NodeBindPolicy.SPREAD: BindPolicy.SPREAD}
_KUBELET = {
    "none": TopologyPolicy.NONE,
    "best-effort": TopologyPolicy.BEST_EFFORT,
    "restricted": TopologyPolicy.RESTRICTED,
    "single-numa-node": TopologyPolicy.SINGLE_NUMA_NODE,
}


def cpu_ask(
    cpu_m: int,
    spec: ResourceSpec,
    node: NodeBindPolicy = NodeBindPolicy.NONE,
    strategy: NumaStrategy = NumaStrategy.MOST_ALLOCATED,
    default: BindPolicy = BindPolicy.FULL_CORES,
) -> CpuAsk | Refusal:
    """The CPUs to take for a pod that asks for `cpu_m` milli-CPU of its own. `default`: the cluster's bind policy where the pod names none."""
    if cpu_m <= 0 or cpu_m % 1000:
        return Refusal("CPUs of one's own come whole", f"{cpu_m}m asked; {-(-max(cpu_m, 1) // 1000) * 1000}m would be")
    demanded = _NODE_DEMANDS.get(node)
    if demanded is not None and spec.required not in (None, demanded):
        return Refusal("the node's CPU bind policy contradicts the pod's", f"node {node.value}, pod {spec.required}")
    preferred = default if spec.preferred is BindPolicy.DEFAULT else spec.preferred
    bind = demanded or spec.required or preferred
    required = demanded is not None or spec.required is not None
    return CpuAsk(cpu_m // 1000, bind, required, spec.exclusive, strategy=strategy)


def topology_policy(node: TopologyPolicy, pod: TopologyPolicy) -> TopologyPolicy | Refusal:
    """The NUMA policy that holds for a pod on a node: that of whichever has one."""
    if node is not TopologyPolicy.NONE and pod is not TopologyPolicy.NONE and node is not pod:
        return Refusal("the node's NUMA topology policy contradicts the pod's", f"node {node.value}, pod {pod.value}")
    return pod if node is TopologyPolicy.NONE else node


def kubelet_policy(name: str) -> TopologyPolicy | None:
    """The policy behind the kubelet's name of it; None where it is not one."""
    return _KUBELET.get(name)
