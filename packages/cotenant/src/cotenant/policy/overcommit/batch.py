"""Batch resources: what best-effort pods may request beside the node's high-priority pods.

    usage            capacity - margin - max(system use, reserved) - use of high-priority pods
    request          capacity - margin - reserved - requests of high-priority pods (memory only; CPU takes `usage`)
    maxUsageRequest  capacity - margin - max(system use, reserved) - the larger of use and request, summed over
    high-priority pods

High-priority pods are all except batch and free. The margin is the part of the capacity above the reclaim threshold.
Under `usage` an LSE pod counts by its CPU request, because its CPUs are not lent. A measured pod that is gone counts
until the next measurement. Each amount floors at zero and stops at the batch threshold, if one is set. An unmeasured
pod counts by its request; under maxUsageRequest upstream leaves it out of the node's sum while it counts it in its
zones: here it counts in both, so that a new pod never raises what is lent.
Source: Koordinator, pkg/slo-controller/noderesource/plugins/batchresource (calculateOnNode, calculateOnNUMALevel,
util.CalculateBatchResourceByPolicy).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.node_metric import NO_USE, Use
from cotenant.policy.overcommit.facts import ActivePod, Amount, NodeFacts, Policy, larger, percent, summed
from cotenant.policy.overcommit.zones import divided, over_zones

BATCH_CPU, BATCH_MEMORY = "batch-cpu", "batch-memory"
LOW = (PriorityClass.BATCH, PriorityClass.FREE)


@dataclass(frozen=True, slots=True)
class BatchRules:
    """The part of a strategy that batch amounts depend on; percents of capacity."""

    cpu_reclaim_pct: int = 60
    memory_reclaim_pct: int = 65
    cpu_policy: Policy = Policy.USAGE
    memory_policy: Policy = Policy.USAGE
    cpu_limit_pct: int | None = None
    memory_limit_pct: int | None = None


@dataclass(frozen=True, slots=True)
class _Sums:
    """Of the high-priority pods."""

    used: Use = NO_USE
    requested: Use = NO_USE
    larger: Use = NO_USE

    def plus(self, used: Use, requested: Use, most: Use) -> _Sums:
        return _Sums(self.used.plus(used), self.requested.plus(requested), self.larger.plus(most))


def batch_amounts(node: NodeFacts, rules: BatchRules) -> tuple[Amount, Amount]:
    """CPU and memory of the whole node."""
    sums = _Sums()
    for pod in node.pods:
        if pod.priority_class not in LOW:
            sums = sums.plus(*_counted(pod, node))
    for use in _dangling(node):
        sums = sums.plus(use, NO_USE, use)
    return _amounts(node.capacity, node.system.plus(_applications(node)), node.reserved, sums, rules)


def zone_amounts(node: NodeFacts, rules: BatchRules) -> tuple[tuple[Amount, Amount], ...]:
    """CPU and memory of each NUMA zone; empty where the node has none. What belongs to no zone is spread evenly,
    rounded up.
    """
    count = len(node.zones)
    sums = [_Sums()] * count
    for pod in node.pods:
        if pod.priority_class not in LOW:
            for zone, (used, requested, most) in enumerate(
                zip(*(over_zones(entry, count, pod.zones) for entry in _counted(pod, node)), strict=True)
            ):
                sums[zone] = sums[zone].plus(used, requested, most)
    for use in _dangling(node):
        share = divided(use, count)
        sums = [sum_.plus(share, NO_USE, share) for sum_ in sums]
    system = divided(node.system.plus(_applications(node)), count)
    reserved = divided(node.reserved, count)
    return tuple(
        _amounts(capacity, system, reserved, of_pods, rules) for capacity, of_pods in zip(node.zones, sums, strict=True)
    )


def _counted(pod: ActivePod, node: NodeFacts) -> tuple[Use, Use, Use]:
    """Use, request and the larger of both, as they count for one pod."""
    sample = node.measured.get(pod.key)
    if sample is None:
        return pod.request, pod.request, pod.request
    used = sample.use
    if pod.qos is QoSClass.LSE:
        used = Use(pod.request.cpu_m, used.memory_bytes)
    return used, pod.request, larger(sample.use, pod.request)


def _dangling(node: NodeFacts) -> list[Use]:
    known = {pod.key for pod in node.pods}
    return [
        measured_pod.use
        for key, measured_pod in node.measured.items()
        if key not in known and measured_pod.priority_class not in LOW
    ]


def _applications(node: NodeFacts) -> Use:
    use = NO_USE
    for application in node.host_applications:
        if application.priority_class not in LOW:
            use = use.plus(application.use)
    return use


def _amounts(capacity: Use, system: Use, reserved: Use, pods: _Sums, rules: BatchRules) -> tuple[Amount, Amount]:
    beside = larger(system, reserved)
    cpu_policy = Policy.USAGE if rules.cpu_policy is Policy.REQUEST else rules.cpu_policy
    cpu = _amount(
        BATCH_CPU,
        cpu_policy,
        capacity.cpu_m,
        rules.cpu_reclaim_pct,
        beside.cpu_m,
        reserved.cpu_m,
        (pods.used.cpu_m, pods.requested.cpu_m, pods.larger.cpu_m),
        rules.cpu_limit_pct,
    )
    memory = _amount(
        BATCH_MEMORY,
        rules.memory_policy,
        capacity.memory_bytes,
        rules.memory_reclaim_pct,
        beside.memory_bytes,
        reserved.memory_bytes,
        (pods.used.memory_bytes, pods.requested.memory_bytes, pods.larger.memory_bytes),
        rules.memory_limit_pct,
    )
    return cpu, memory


def _amount(
    resource: str,
    policy: Policy,
    capacity: int,
    reclaim_pct: int,
    beside: int,
    reserved: int,
    pods: tuple[int, int, int],
    limit_pct: int | None,
) -> Amount:
    used, requested, most = pods
    margin = percent(capacity, 100 - reclaim_pct)
    terms = [("capacity", capacity), (f"margin above {reclaim_pct} %", -margin)]
    if policy is Policy.REQUEST:
        terms += [("reserved", -reserved), ("requests of prod and mid pods", -requested)]
    elif policy is Policy.MAX_USAGE_REQUEST:
        terms += [("system", -beside), ("use or request of prod and mid pods, the larger of each", -most)]
    else:
        terms += [("system", -beside), ("use of prod and mid pods", -used)]
    amount = summed(resource, policy, *terms)
    if limit_pct is not None:
        amount = amount.then(f"limit of {limit_pct} %", min(amount.value, percent(capacity, limit_pct)))
    return amount
