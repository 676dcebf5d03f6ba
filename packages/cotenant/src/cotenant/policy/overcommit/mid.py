"""Mid resources: what prod pods request and will not use, by prediction or as a fixed share.

    predict  min(A + B, capacity x threshold%)
             A = min(max(0, prod reclaimable), max(0, capacity - node use))
             B = max(0, capacity - max(system use + prod programs, reserved) - requests of prod pods) x unallocated%
    static   min(capacity x static%, capacity x threshold%)

Prod pods here are all except mid, batch and free. Without the node's CPU or memory use A is zero for both; without a
prediction A is zero, which is no fault. Source: Koordinator, pkg/slo-controller/noderesource/plugins/midresource and
util.CalculateMidResourceByPolicy.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.machine.node_metric import NO_USE, Use
from cotenant.policy.overcommit.facts import Amount, NodeFacts, larger, percent, summed

MID_CPU, MID_MEMORY = "mid-cpu", "mid-memory"
BELOW_PROD = (PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE)


@dataclass(frozen=True, slots=True)
class MidRules:
    """The part of a strategy that mid amounts depend on; percents of capacity."""

    cpu_threshold_pct: int = 100
    memory_threshold_pct: int = 100
    unallocated_pct: int = 0
    is_static: bool = False
    static_cpu_pct: int = 0
    static_memory_pct: int = 0


def mid_amounts(node: NodeFacts, rules: MidRules) -> tuple[Amount, Amount]:
    """CPU and memory of the whole node."""
    names = (MID_CPU, MID_MEMORY)
    thresholds = (rules.cpu_threshold_pct, rules.memory_threshold_pct)
    if rules.is_static:
        shares = (rules.static_cpu_pct, rules.static_memory_pct)
        cpu, memory = (
            summed(name, "static", (f"{share} % of capacity", percent(capacity, share)))
            for name, capacity, share in zip(names, node.capacity, shares, strict=True)
        )
    else:
        unused = node.capacity.beyond(node.usage) if node.usage is not None else NO_USE
        reclaimable = node.prod_reclaimable or NO_USE
        beside, requested = _beside(node), _requested(node)
        cpu, memory = (
            summed(
                name,
                "predict",
                ("prod reclaimable, at most what is unused", min(max(0, lent), free)),
                (
                    f"{rules.unallocated_pct} % of what is not requested",
                    percent(max(0, capacity - system - asked), rules.unallocated_pct),
                ),
            )
            for name, lent, free, capacity, system, asked in zip(
                names, reclaimable, unused, node.capacity, beside, requested, strict=True
            )
        )
    limited = [
        amount.then(f"threshold of {threshold} %", min(amount.value, percent(capacity, threshold)))
        for amount, capacity, threshold in zip((cpu, memory), node.capacity, thresholds, strict=True)
    ]
    return limited[0], limited[1]


def _requested(node: NodeFacts) -> Use:
    total = NO_USE
    for pod in node.pods:
        if pod.priority_class not in BELOW_PROD:
            total = total.plus(pod.request)
    return total


def _beside(node: NodeFacts) -> Use:
    system = node.system
    for application in node.host_applications:
        if application.priority_class not in BELOW_PROD:
            system = system.plus(application.use)
    return larger(system, node.reserved)
