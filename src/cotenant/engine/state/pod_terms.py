"""A kind of pods' own rules about other pods, tied to the counts that answer them.

Problem: the same selector in a spread constraint, an affinity and an anti-affinity term is one question. Choice: rules are read once a kind,
when one of its pods is first judged, and ask the pod_counts for their counts; terms lose their topology key and weight on the way, so equal
questions share a count. Limits: none of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.engine.state.pod_counts import Count, PodCounts, Ports, Selected
from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint
from cotenant.model.cluster.pod import Pod

_ANY_KEY = "any"


@dataclass(frozen=True, slots=True)
class PodRules:
    """Rules with their counts. `narrows`: some rule forbids; `prefers`: some rule only scores."""

    spread: tuple[tuple[SpreadConstraint, Count], ...]
    soft_spread: tuple[tuple[SpreadConstraint, Count], ...]
    affinity_keys: tuple[str, ...]  # of the required terms
    affinity: Count | None  # residents that all required terms select
    anti: tuple[tuple[str, Count], ...]
    liked: tuple[tuple[str, Count, int], ...]  # key, count, weight; negative for anti-affinity
    ports: tuple[Count, ...]
    pinned: str | None

    @property
    def narrows(self) -> bool:
        """Whether some rule may forbid a node."""
        return bool(self.spread or self.anti or self.ports or self.affinity is not None or self.pinned is not None)

    @property
    def prefers(self) -> bool:
        """Whether some rule makes one node better than another."""
        return bool(self.soft_spread or self.liked)

    def counts(self) -> tuple[Count, ...]:
        """Every count that was asked for, as often as it was."""
        several = (
            *(count for _, count in self.spread),
            *(count for _, count in self.soft_spread),
            *(count for _, count in self.anti),
            *(count for _, count, _ in self.liked),
            *self.ports,
        )
        return several if self.affinity is None else (*several, self.affinity)


def read_rules(pod_counts: PodCounts, pod: Pod) -> PodRules:
    """The rules of pods like this one; their counts must be given back (`PodCounts.discount`) once they are not needed."""

    def selected(*terms: PodTerm) -> Count:
        bare = tuple(
            dict.fromkeys(
                PodTerm(_ANY_KEY, term.selector, term.namespaces, None, term.namespace_selector) for term in terms
            )
        )
        return pod_counts.count(Selected(bare, pod.namespace))

    def spread(constraint: SpreadConstraint) -> tuple[SpreadConstraint, Count]:
        term = PodTerm(_ANY_KEY, constraint.selector, (pod.namespace,))
        return constraint, pod_counts.count(Selected((term,), pod.namespace, living=True))

    required = [term for term in pod.affinity if term.weight is None]
    return PodRules(
        spread=tuple(spread(c) for c in pod.spread if c.forbids),
        soft_spread=tuple(spread(c) for c in pod.spread if not c.forbids),
        affinity_keys=tuple(dict.fromkeys(term.topology_key for term in required)),
        affinity=selected(*required) if required else None,
        anti=tuple((term.topology_key, selected(term)) for term in pod.anti_affinity if term.weight is None),
        liked=(
            *((t.topology_key, selected(t), t.weight) for t in pod.affinity if t.weight is not None),
            *((t.topology_key, selected(t), -t.weight) for t in pod.anti_affinity if t.weight is not None),
        ),
        ports=tuple(pod_counts.count(Ports(port)) for port in pod.host_ports),
        pinned=pod.pinned,
    )
