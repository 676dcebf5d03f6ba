"""The rules of a kind of pods about other pods, with the counts that they need.

The same selector in a spread constraint, an affinity and an anti-affinity term needs one count. Rules are read once per
kind, when one of its pods is first evaluated, and acquire their counts from the pod counts; topology key and weight are
not part of the query, so equal queries share a count.
Limits: none of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cotenant.engine.state.count_queries import ControllerReplicas, PortConflicts, Query, ResidentCount, SelectedPods
from cotenant.engine.state.pod_counts import PodCounts
from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint
from cotenant.model.cluster.pod import INTER_POD_AFFINITY, NODE_NAMED, NODE_PORTS, POD_TOPOLOGY_SPREAD, Pod

_ANY_KEY = "any"


@dataclass(frozen=True, slots=True)
class PodRules:
    """Rules with their counts."""

    spread: tuple[tuple[SpreadConstraint, ResidentCount], ...]  # DoNotSchedule
    soft_spread: tuple[tuple[SpreadConstraint, ResidentCount], ...]  # ScheduleAnyway
    default_spread: ResidentCount | None  # the pod's fellows, if it is spread by default
    affinity_keys: tuple[str, ...]  # of the required terms
    affinity: ResidentCount | None  # residents that all required terms select
    anti: tuple[tuple[str, ResidentCount], ...]  # required anti-affinity: topology key, count
    preferred: tuple[tuple[str, ResidentCount, int], ...]  # topology key, count, weight; negative for anti-affinity
    ports: tuple[ResidentCount, ...]
    pinned: str | None

    has_required: bool = field(init=False)  # whether some rule may make a node infeasible
    has_preferred: bool = field(init=False)  # whether some rule changes the score of a node

    def __post_init__(self) -> None:
        required = bool(self.spread or self.anti or self.ports or self.affinity is not None or self.pinned is not None)
        object.__setattr__(self, "has_required", required)
        preferred = bool(self.soft_spread or self.preferred or self.default_spread is not None)
        object.__setattr__(self, "has_preferred", preferred)

    def counts(self) -> tuple[ResidentCount, ...]:
        """All counts that were acquired, repeated as often as acquired."""
        several = (
            *(count for _, count in self.spread),
            *(count for _, count in self.soft_spread),
            *(count for _, count in self.anti),
            *(count for _, count, _ in self.preferred),
            *self.ports,
        )
        single = (self.affinity, self.default_spread)
        return (*several, *(count for count in single if count is not None))


def read_rules(pod_counts: PodCounts, pod: Pod, check: Callable[[], None]) -> PodRules:
    """The rules of pods like this one. The caller releases their counts (`PodCounts.release_count`) when they are no
    longer needed.

    `check` is called for each; where it raises, nothing is kept.
    """
    acquired: list[ResidentCount] = []

    def acquire(query: Query) -> ResidentCount:
        check()
        count = pod_counts.acquire_count(query, check)
        acquired.append(count)
        return count

    try:
        return _read_rules(acquire, pod)
    except BaseException:
        for count in acquired:
            pod_counts.release_count(count)
        raise


def _read_rules(acquire: Callable[[Query], ResidentCount], pod: Pod) -> PodRules:
    def selected(*terms: PodTerm) -> ResidentCount:
        bare = tuple(
            dict.fromkeys(
                PodTerm(_ANY_KEY, term.selector, term.namespaces, None, term.namespace_selector) for term in terms
            )
        )
        return acquire(SelectedPods(bare, pod.namespace))

    def spread(constraint: SpreadConstraint) -> tuple[SpreadConstraint, ResidentCount]:
        selector = constraint.selector if constraint.selector is not None and constraint.selector.requirements else None
        term = PodTerm(_ANY_KEY, selector, (pod.namespace,))
        return constraint, acquire(SelectedPods((term,), pod.namespace, skip_terminating=True))

    def fellows() -> ResidentCount | None:
        if pod.default_selector is not None:
            term = PodTerm(_ANY_KEY, pod.default_selector, (pod.namespace,))
            return acquire(SelectedPods((term,), pod.namespace, skip_terminating=True))
        return acquire(ControllerReplicas(pod.replica_of, pod.namespace)) if pod.replica_of else None

    off = pod.unfiltered
    between = INTER_POD_AFFINITY not in off
    required = [term for term in pod.affinity if between and term.weight is None]
    anti = [term for term in pod.anti_affinity if between and term.weight is None]
    return PodRules(
        spread=tuple(spread(c) for c in pod.spread if c.forbids and POD_TOPOLOGY_SPREAD not in off),
        soft_spread=tuple(spread(c) for c in pod.spread if not c.forbids),
        default_spread=None if pod.spread else fellows(),
        affinity_keys=tuple(dict.fromkeys(term.topology_key for term in required)),
        affinity=selected(*required) if required else None,
        anti=tuple((term.topology_key, selected(term)) for term in anti),
        preferred=(
            *((t.topology_key, selected(t), t.weight) for t in pod.affinity if t.weight is not None),
            *((t.topology_key, selected(t), -t.weight) for t in pod.anti_affinity if t.weight is not None),
        ),
        ports=() if NODE_PORTS in off else tuple(acquire(PortConflicts(port)) for port in pod.host_ports),
        pinned=None if NODE_NAMED in off else pod.pinned,
    )
