"""Quota headroom: whether a pod fits within its quota, and which limits it exceeds.

The owner of a pod that waits for its quota wants to know which of several limits it exceeds and by how much. All limits
in one list, each with what it allows, what is used and what is requested: the quota's runtime (or its maximum, where
runtimes are not limits), the same of its ancestors if enabled, and the minimum for non-preemptible pods, since only the
guarantee can be held indefinitely. Only resources that the pod requests count.
Limits: quotas only; capacity of nodes is checked by placement. This is the plain form, microseconds per pod;
headroom_arrays.py answers yes or no inside compiled placement.

Source: Koordinator's elasticquota plugin (PreFilter); upstream compares every resource of the quota, so that overuse of
one also blocks pods that do not request it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.groups.quota import Levels
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.resources import Amounts, format_amount, unit_of
from cotenant.policy.quota.tree import QuotaTree

RULE = "quota-headroom"


class LimitKind(StrEnum):
    """A kind of limit."""

    RUNTIME = "runtime"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


@dataclass(frozen=True, slots=True)
class HeadroomRules:
    """Which limits apply."""

    by_runtime: bool = True  # False: the maximum limits instead
    check_parents: bool = False


DEFAULT_RULES = HeadroomRules()


@dataclass(frozen=True, slots=True)
class Shortage:
    """One limit that a pod exceeds. Amounts in the resource's unit."""

    quota: str
    limit: LimitKind
    resource: str
    allowed: int
    used: int
    request: int

    @property
    def missing(self) -> int:
        """The amount by which the limit is exceeded."""
        return self.used + self.request - self.allowed

    def __str__(self) -> str:
        amounts = [format_amount(self.resource, abs(n)) for n in (self.missing, self.used, self.request, self.allowed)]
        return (
            f"{self.quota}: {amounts[0]} of {self.resource} short: {amounts[1]} used + {amounts[2]} requested > "
            f"{self.limit} {amounts[3]}"
        )


def shortages(
    tree: QuotaTree, name: str, request: Amounts, preemptible: bool = True, rules: HeadroomRules = DEFAULT_RULES
) -> tuple[Shortage, ...]:
    """Every limit that a pod of this quota exceeds; empty = the quota admits it."""
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
    """`shortages` with other accounts: `used` and `held` return a quota's use, and the part of it by
    non-preemptible pods.
    """
    found: list[Shortage] = []
    path = tree.path(name)
    for quota in path if rules.check_parents else path[:1]:
        if rules.by_runtime:
            found += compare(quota, LimitKind.RUNTIME, tree.runtime(quota), used(quota), request)
        else:
            found += compare(quota, LimitKind.MAXIMUM, tree.quota(quota).maximum.items, used(quota), request)
        if not preemptible:
            found += compare(quota, LimitKind.MINIMUM, tree.quota(quota).minimum.items, held(quota), request)
    return tuple(found)


def compare(quota: str, limit: LimitKind, allowed: Levels, used: Levels, request: Amounts) -> list[Shortage]:
    """Where `used` plus `request` exceed `allowed`; a resource absent from `allowed` is not limited."""
    most, use = dict(allowed), dict(used)
    return [
        Shortage(quota, limit, resource, most[resource], use.get(resource, 0), amount)
        for resource, amount in request
        if amount > 0 and resource in most and use.get(resource, 0) + amount > most[resource]
    ]


def summary(found: tuple[Shortage, ...]) -> Reason:
    """The result as a reason, with the terms of the first shortage."""
    if not found:
        return Reason(RULE, "the quota has headroom")
    first = found[0]
    unit = unit_of(first.resource).value
    terms = (
        DecisionTerm(f"{first.limit} of {first.quota}", first.allowed, unit),
        DecisionTerm("used", -first.used, unit),
        DecisionTerm("requested", -first.request, unit),
    )
    return Reason(RULE, "; ".join(map(str, found)), terms)


def rejection(name: str, found: Sequence[Shortage]) -> tuple[str, str]:
    """For a pod of the quota `name` that does not fit: the exceeded limits in words that do not change with the
    figures, and the figures.
    """
    held: dict[tuple[str, LimitKind], list[str]] = {}
    for shortage in found:
        held.setdefault((shortage.quota, shortage.limit), []).append(shortage.resource)
    parts = []
    for (quota, limit), resources in held.items():
        whose = "its" if quota == name else f"{quota}'s"
        beyond = ", which limits pods that cannot be preempted" if limit is LimitKind.MINIMUM else ""
        parts.append(f"{' and '.join(resources)} of {whose} {limit}{beyond}")
    return f"Insufficient quota {name}: {'; '.join(parts)}.", "; ".join(map(_figures, found))


def _figures(shortage: Shortage) -> str:
    used, request, allowed = (
        format_amount(shortage.resource, n) for n in (shortage.used, shortage.request, shortage.allowed)
    )
    return f"{shortage.quota}: {used} of {allowed} {shortage.resource} used, {request} requested"
