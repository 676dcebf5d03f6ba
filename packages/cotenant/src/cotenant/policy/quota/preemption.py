"""Preemption within a quota: which pods a more important pod of the same quota may evict to fit.

Within a quota important pods come first; across quotas there is no preemption (borrowed resources are returned by
revocation.py and reclaim.py). Remove every preemptible pod of lower priority, check whether the preemptor fits, and
keep pods again while it still does: first gangs that would be evicted whole, then pods whose eviction would violate a
disruption budget, then the most important.
Limits: quotas only; whether the victims' nodes have room is checked by placement. The default quota is in no tree, so
its pods are never victims, as upstream does by default.

Source: Koordinator's elasticquota/preempt.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.model.groups.quota import QuotaPod
from cotenant.policy.quota.headroom import DEFAULT_RULES, HeadroomRules, LimitKind, Shortage, shortages
from cotenant.policy.quota.tree import QuotaTree


@dataclass(frozen=True, slots=True)
class QuotaVictims:
    """The victims, most important first; none with `still_short` = preemption would not help."""

    victims: tuple[QuotaPod, ...] = ()
    still_short: tuple[Shortage, ...] = ()

    @property
    def violations(self) -> int:
        """Number of evictions that violate a disruption budget."""
        return sum(pod.breaks_budget for pod in self.victims)


def preempt(
    tree: QuotaTree,
    name: str,
    preemptor: QuotaPod,
    pods: Sequence[QuotaPod],
    rules: HeadroomRules = DEFAULT_RULES,
) -> QuotaVictims:
    """Victims among `pods`, the placed pods of this quota (a gang that is evicted whole is one). A shortage of the
    minimum cannot be resolved, since it counts non-preemptible pods only.
    """
    short = shortages(tree, name, preemptor.request, preemptor.preemptible, rules)
    if not short:
        return QuotaVictims()
    candidates = [pod for pod in pods if pod.preemptible and pod.priority < preemptor.priority]
    missing = [(shortage.resource, shortage.missing) for shortage in short]
    freed = {resource: sum(pod.request.get(resource) for pod in candidates) for resource, _ in missing}
    unsolvable = tuple(s for s in short if s.limit is LimitKind.MINIMUM or freed[s.resource] < s.missing)
    if unsolvable:
        return QuotaVictims(still_short=unsolvable)
    spare = {
        resource: min(freed[resource] - most for other, most in missing if other == resource) for resource in freed
    }
    victims = []
    for pod in sorted(candidates, key=lambda pod: (not pod.is_gang, not pod.breaks_budget, pod.importance)):
        if all(pod.request.get(resource) <= left for resource, left in spare.items()):
            spare = {resource: left - pod.request.get(resource) for resource, left in spare.items()}
        else:
            victims.append(pod)
    return QuotaVictims(tuple(sorted(victims, key=lambda pod: pod.importance)))
