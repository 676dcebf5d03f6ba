"""What the filters of evictions read of a pod, and the class that it counts in."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rebalancer.round_limits import controller
from cotenant.model.cluster.disruption import Mover, holds_back
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.qos import PriorityClass
from cotenant.policy.rebalance.migration.evictable import EvictionFacts


def eviction_facts(
    entry: PodInfo,
    notes: EvictionNotes,
    replicas: Mapping[str, int],
    node: Node | None,
    now_s: float,
    surging: bool = False,
) -> EvictionFacts:
    """What the filters read of a pod; `replicas` of controllers by UID, `node` its own."""
    seen, owner = entry.seen, controller(entry)
    taints = node.taints if node is not None else ()
    return EvictionFacts(
        seen.pod.namespace,
        seen.pod.labels,
        seen.pod.priority,
        owner.kind if owner is not None else "",
        is_static=notes.is_static,
        terminating=seen.terminating,
        finished=seen.phase.is_final,
        has_local_storage=notes.has_local_storage,
        has_claims=notes.has_claims,
        eviction_cost=notes.eviction_cost,
        forced=notes.forced,
        held=holds_back(Mover.REBALANCER, seen.marks, seen.started_s, taints, now_s),
        replicas=replicas.get(owner.uid) if owner is not None else None,
        surges=surging,
    )


def priority_class_of(entry: PodInfo) -> PriorityClass:
    """The class of a pod, by its label or its QoS."""
    return entry.seen.pod.effective_class
