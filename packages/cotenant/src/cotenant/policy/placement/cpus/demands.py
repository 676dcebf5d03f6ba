"""Combined CPU and NUMA demands of a pod and a node.

The pod has annotations, the node has labels, the kubelet has a policy, and they may conflict. One function for each,
which returns the effective demand or both sides of the conflict. A required policy of the pod or a policy of the node
is enforced or the pod waits; a preferred one is not.
Limits: whether a pod has own CPUs at all was decided before by its QoS class.

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
    """The request of a pod for `cpu_m` milli-CPU as own CPUs. `default`: the cluster's bind policy where the pod
    names none.
    """
    if cpu_m <= 0 or cpu_m % 1000:
        return Refusal(
            "own CPUs must be whole CPUs", f"{cpu_m}m requested; {-(-max(cpu_m, 1) // 1000) * 1000}m would be"
        )
    demanded = _NODE_DEMANDS.get(node)
    if demanded is not None and spec.required not in (None, demanded):
        return Refusal("the node's CPU bind policy conflicts with the pod's", f"node {node.value}, pod {spec.required}")
    preferred = default if spec.preferred is BindPolicy.DEFAULT else spec.preferred
    bind = demanded or spec.required or preferred
    required = demanded is not None or spec.required is not None
    return CpuAsk(cpu_m // 1000, bind, required, spec.exclusive, strategy=strategy)


def topology_policy(node: TopologyPolicy, pod: TopologyPolicy) -> TopologyPolicy | Refusal:
    """The NUMA policy for a pod on a node: that of whichever has one."""
    if node is not TopologyPolicy.NONE and pod is not TopologyPolicy.NONE and node is not pod:
        return Refusal(
            "the node's NUMA topology policy conflicts with the pod's", f"node {node.value}, pod {pod.value}"
        )
    return pod if node is TopologyPolicy.NONE else node


def kubelet_policy(name: str) -> TopologyPolicy | None:
    """The policy for a kubelet's policy name; None for an unknown name."""
    return _KUBELET.get(name)
