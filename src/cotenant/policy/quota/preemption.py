"""Which pods of its own quota a more important pod may push out so that the quota lets it run.

Problem: within a quota the important pods come first, across quotas nobody preempts (what was borrowed is given back by revocation.py and reclaim.py).
Choice: take away every preemptible pod of lower priority, see whether the newcomer then fits, and give pods back while it still does: gangs
that would go whole first, then those whose eviction would break a disruption budget, then the most important. Limits: the quota's half; whether the victims' nodes then have room is
the placement's. The default quota is in no tree, so that its pods are spared, as upstream does by default.

Source: Koordinator's elasticquota/preempt.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.model.groups.quota import QuotaPod
from cotenant.policy.quota.headroom import DEFAULT_RULES, HeadroomRules, Limit, Shortage, shortages
from cotenant.policy.quota.tree import QuotaTree


@dataclass(frozen=True, slots=True)
class Preempted:
    """The pods that go, most important first; none with `still_short` = it would not help."""

    victims: tuple[QuotaPod, ...] = ()
    still_short: tuple[Shortage, ...] = ()

    @property
    def violations(self) -> int:
        """How many evictions would break a disruption budget."""
        return sum(pod.breaks_budget for pod in self.victims)


def preempt(
    tree: QuotaTree,
    name: str,
    newcomer: QuotaPod,
    pods: Sequence[QuotaPod],
    rules: HeadroomRules = DEFAULT_RULES,
) -> Preempted:
    """`pods` are the placed pods of this very quota, those of a gang that goes whole as one. What the minimum refuses cannot be helped: only pods that may not be preempted count there."""
    short = shortages(tree, name, newcomer.request, newcomer.preemptible, rules)
    if not short:
        return Preempted()
    candidates = [pod for pod in pods if pod.preemptible and pod.priority < newcomer.priority]
    missing = [(shortage.resource, shortage.missing) for shortage in short]
    freed = {resource: sum(pod.request.get(resource) for pod in candidates) for resource, _ in missing}
    hopeless = tuple(s for s in short if s.limit is Limit.MINIMUM or freed[s.resource] < s.missing)
    if hopeless:
        return Preempted(still_short=hopeless)
    spare = {
        resource: min(freed[resource] - most for other, most in missing if other == resource) for resource in freed
    }
    victims = []
    for pod in sorted(candidates, key=lambda pod: (not pod.is_gang, not pod.breaks_budget, pod.importance)):
        if all(pod.request.get(resource) <= left for resource, left in spare.items()):
            spare = {resource: left - pod.request.get(resource) for resource, left in spare.items()}
        else:
            victims.append(pod)
    return Preempted(tuple(sorted(victims, key=lambda pod: pod.importance)))
