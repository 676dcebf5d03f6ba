"""May this pod run as far as its quota goes, and by which term not.

Problem: a pod that waits for its quota wants to know which of several limits holds it and by how much. Choice: the limits in one list, each with what it
allows, what is used and what is asked: the quota's runtime (or its maximum, where runtimes are not to limit), the same of its ancestors where asked for,
and the minimum for pods that may not be preempted, since only what is owed can be kept for ever. Only resources that the pod asks for can
hold it. Limits: a quota's half of the question; room on a node is placement's. This is the plain form, microseconds a pod; headroom_arrays.py
answers yes or no inside compiled placement.

Source: Koordinator's elasticquota plugin (PreFilter); upstream compares every resource of the quota, so that overuse of one holds pods that want none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.groups.quota import Levels
from cotenant.model.machine.node_decision import Reason, Term
from cotenant.model.resources import Amounts, format_amount, unit_of
from cotenant.policy.quota.tree import QuotaTree

RULE = "quota-headroom"


class Limit(StrEnum):
    """Which of a quota's limits."""

    RUNTIME = "runtime"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


@dataclass(frozen=True, slots=True)
class HeadroomRules:
    """What counts as a limit."""

    by_runtime: bool = True  # False: the maximum limits instead
    check_parents: bool = False


DEFAULT_RULES = HeadroomRules()


@dataclass(frozen=True, slots=True)
class Shortage:
    """One limit that a pod does not fit under. Amounts in the resource's unit."""

    quota: str
    limit: Limit
    resource: str
    allowed: int
    used: int
    request: int

    @property
    def missing(self) -> int:
        """How much less the pod would have to ask for, or others would have to give back."""
        return self.used + self.request - self.allowed

    def __str__(self) -> str:
        amounts = [format_amount(self.resource, abs(n)) for n in (self.missing, self.used, self.request, self.allowed)]
        return f"{self.quota}: {amounts[0]} of {self.resource} short: {amounts[1]} used + {amounts[2]} asked > {self.limit} {amounts[3]}"


def shortages(
    tree: QuotaTree, name: str, request: Amounts, preemptible: bool = True, rules: HeadroomRules = DEFAULT_RULES
) -> tuple[Shortage, ...]:
    """Every limit that a pod of this quota does not fit under; none = the quota lets it run."""
    return under(tree, name, request, preemptible, rules, tree.used, tree.nonpreemptible_used)


def under(
    tree: QuotaTree,
    name: str,
    request: Amounts,
    preemptible: bool,
    rules: HeadroomRules,
    used: Callable[[str], Levels],
    held: Callable[[str], Levels],
) -> tuple[Shortage, ...]:
    """The same with other books: `used` and `held` say what is booked at a quota, and of it for pods that may not be preempted."""
    found: list[Shortage] = []
    path = tree.path(name)
    for quota in path if rules.check_parents else path[:1]:
        if rules.by_runtime:
            found += compare(quota, Limit.RUNTIME, tree.runtime(quota), used(quota), request)
        else:
            found += compare(quota, Limit.MAXIMUM, tree.quota(quota).maximum.items, used(quota), request)
        if not preemptible:
            found += compare(quota, Limit.MINIMUM, tree.quota(quota).minimum.items, held(quota), request)
    return tuple(found)


def compare(quota: str, limit: Limit, allowed: Levels, used: Levels, request: Amounts) -> list[Shortage]:
    """Where `used` and `request` together pass `allowed`; a resource that this does not mention is not limited."""
    most, use = dict(allowed), dict(used)
    return [
        Shortage(quota, limit, resource, most[resource], use.get(resource, 0), amount)
        for resource, amount in request
        if amount > 0 and resource in most and use.get(resource, 0) + amount > most[resource]
    ]


def told(found: tuple[Shortage, ...]) -> Reason:
    """The answer for people, the largest obstacle in numbers."""
    if not found:
        return Reason(RULE, "the quota has room")
    first = found[0]
    unit = unit_of(first.resource).value
    terms = (
        Term(f"{first.limit} of {first.quota}", first.allowed, unit),
        Term("used", -first.used, unit),
        Term("asked", -first.request, unit),
    )
    return Reason(RULE, "; ".join(map(str, found)), terms)


def refusal(name: str, found: Sequence[Shortage]) -> tuple[str, str]:
    """For a pod of the quota `name` that does not fit: what holds it, in words that stay while figures move, and the figures."""
    held: dict[tuple[str, Limit], list[str]] = {}
    for shortage in found:
        held.setdefault((shortage.quota, shortage.limit), []).append(shortage.resource)
    parts = []
    for (quota, limit), resources in held.items():
        whose = "its" if quota == name else f"{quota}'s"
        beyond = ", which is all that pods that may not be preempted can have" if limit is Limit.MINIMUM else ""
        parts.append(f"{' and '.join(resources)} of {whose} {limit}{beyond}")
    return f"Quota {name} has not enough left: {'; '.join(parts)}.", "; ".join(map(_figures, found))


def _figures(shortage: Shortage) -> str:
    used, request, allowed = (
        format_amount(shortage.resource, n) for n in (shortage.used, shortage.request, shortage.allowed)
    )
    return f"{shortage.quota}: {used} of {allowed} {shortage.resource} are used, {request} more are asked"
