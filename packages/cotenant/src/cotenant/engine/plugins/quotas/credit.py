"""What the credit of a quota influences, and by how much at most.

Credit should let a tenant that lent to others come first among equals, and must not overturn priorities, gangs or
guarantees. A standing of -1000 to 1000 changes three things.

    weight   of the quota when lent and unreserved resources are shared: 0.5 to 1.5 times. Minima are divided before and
             do not depend on weights, so the guarantee stays. A quota whose runtime falls below its use by this is also
             the first to give back, by revocation
    order    pods count as having arrived up to `MAX_ADVANCE_S` earlier or later; priority, sub-priority, services
             before batch, and deadlines are compared before arrival
    score    a quota in debt: the founding score's violation term of its pods is up to 1.5 times as large, in steps of
             an eighth, so that they avoid nodes whose services miss their objectives. It never excludes a node, and a
             quota with credit has the published score

The share is bounded, and a pod that waits longer than twice `MAX_ADVANCE_S` precedes every later pod of its rank, so
none starves. Limits: weights are integers, so a weight of a few units changes in whole steps; a changed standing
affects the order of pods that are queued afterwards, and the score of those that arrive afterwards.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.model.groups.quota import NO_LIMIT, Quota
from cotenant.model.resources import Amounts

MAX_STANDING = 1000
MAX_ADVANCE_S = 60.0
MAX_SURCHARGE = 0.5
SURCHARGE_LEVELS = 4  # beside none: few, because each makes shapes of its own


def weighted(quota: Quota, standing: int) -> Quota:
    """The quota with its weight changed by the standing; a weight above 0 stays above 0."""
    if not standing:
        return quota
    factor = 2 * MAX_STANDING + bounded(standing)
    weight = {
        name: min(NO_LIMIT, max(1, amount * factor // (2 * MAX_STANDING))) if amount else 0
        for name, amount in quota.weight
    }
    return replace(quota, shared_weight=Amounts.of(weight))


def advance_s(standing: int) -> float:
    """By how many seconds the quota's pods count as having arrived earlier; negative = later."""
    return MAX_ADVANCE_S * bounded(standing) / MAX_STANDING


def surcharge_level(standing: int) -> int:
    """0 without debt, to `SURCHARGE_LEVELS` at the bound."""
    return max(0, -bounded(standing)) * SURCHARGE_LEVELS // MAX_STANDING


def surcharge(standing: int) -> float:
    """By which share the founding score's violation term is larger for the quota's pods."""
    return surcharge_of(surcharge_level(standing))


def surcharge_of(level: int) -> float:
    """The surcharge of a level."""
    return MAX_SURCHARGE * level / SURCHARGE_LEVELS


def bounded(standing: int) -> int:
    """The standing within its bounds."""
    return max(-MAX_STANDING, min(MAX_STANDING, standing))
