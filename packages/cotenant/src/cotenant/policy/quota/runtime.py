"""Division of a parent's amount of one resource among siblings: each one's *runtime*, the most that it may use now.

A quota is guaranteed its minimum, what it does not request is lent to others, and not one milli-CPU or byte may be lost
or created. Every member starts at its request, or at its floor (the minimum) where it requests more; the remainder is
shared by weight, and members that need less than their share return the difference to the others, until nothing is left
or no member wants more. The limit of that repeated sharing is computed directly: members in the order of want / weight,
each satisfied while its want is within its share of the remainder. The others split the remainder by weight in one
apportionment of whole units by largest remainder, ties by position. All of it is exact integer arithmetic.
Consequences: the sum never exceeds the total as long as the floors do not, and a member's runtime never falls when its
weight grows.
Limits: as in every apportionment by largest remainder, one more unit of total may cost one member a unit. Upstream
apportions in every round instead of once, so single units may differ. A member of weight 0 gets its floor and no share
of the remainder.

Sources: Koordinator's runtime_quota_calculator.go and scale_minquota_when_over_root_res.go; Hamilton's method of
apportionment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# 1 / (2^64)^2 is less than any difference of two distinct fractions of 64-bit integers, so scaled quotients order as
# the fractions do.
_SCALE_BITS = 128


class QuotaSibling(NamedTuple):
    """One of the siblings, in one resource."""

    request: int  # already at most its maximum
    floor: int  # the larger of its (scaled) minimum and its guarantee
    weight: int
    lends: bool = True


def share(total: int, members: Sequence[QuotaSibling]) -> list[int]:
    """The runtime of each member. Where the floors alone exceed `total`, every member keeps its floor and nothing
    is shared.
    """
    starts = [start(member.request, member.floor, member.lends) for member in members]
    wants = [max(0, member.request - member.floor) for member in members]
    gains = apportion(total - sum(starts), wants, [member.weight for member in members])
    return [first + gained for first, gained in zip(starts, gains, strict=True)]


def start(request: int, floor: int, lends: bool) -> int:
    """A member's amount before sharing: its floor, or its request where that is smaller and the difference is lent."""
    return request if lends and request < floor else floor


def apportion(residual: int, wants: Sequence[int], weights: Sequence[int]) -> list[int]:
    """`residual` whole units by weight, at most each member's want; the parts sum to the residual or to all wants
    of members with a weight.
    """
    gains = [0] * len(wants)
    if residual <= 0:
        return gains
    asking = [i for i, want in enumerate(wants) if want > 0 and weights[i] > 0]
    if sum([wants[i] for i in asking]) <= residual:
        for i in asking:
            gains[i] = wants[i]
        return gains
    asking.sort(
        key=[(want << _SCALE_BITS) // weight if weight else 0 for want, weight in zip(wants, weights)].__getitem__
    )
    weight_left = sum([weights[i] for i in asking])
    satisfied = 0
    for i in asking:
        if wants[i] * weight_left > residual * weights[i]:
            break
        gains[i] = wants[i]
        residual -= wants[i]
        weight_left -= weights[i]
        satisfied += 1
    remainders = []
    leftover = residual
    for i in asking[satisfied:]:
        gains[i], remainder = divmod(residual * weights[i], weight_left)
        leftover -= gains[i]
        remainders.append((-remainder, i))
    remainders.sort()
    for _, i in remainders[:leftover]:
        gains[i] += 1
    return gains


def scaled_minima(total: int, minima: Sequence[int], scalable: Sequence[bool]) -> list[int]:
    """The minima, scaled to fit into `total`: those that cannot be scaled are kept, the others share the remainder
    in proportion, rounded down.
    """
    if sum(minima) <= total:
        return list(minima)
    fixed = sum([minimum for minimum, scales in zip(minima, scalable, strict=True) if not scales])
    scaled = sum(minima) - fixed
    left = max(0, total - fixed)
    return [
        left * minimum // scaled if scales and scaled else minimum
        for minimum, scales in zip(minima, scalable, strict=True)
    ]
