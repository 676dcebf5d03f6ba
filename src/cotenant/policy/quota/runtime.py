"""How siblings share what their parent has of one resource: each one's *runtime*, the most that it may use now.

Problem: a quota is owed its minimum, what it does not ask for is of use to others, and not one milli-CPU or byte may be lost or invented on the way.
Choice: everybody starts at what they ask for, or at their floor (the minimum) where they ask for more; what is then left is shared by weight, and
who needs less than its share returns the difference to the others, until nothing is left or nobody wants more. The limit of that repeated
sharing is found at once: members in the order of want / weight, each satisfied while its want is within its share of what remains. The others
split the remainder by weight in one apportionment of whole units by largest remainder, ties by position. All of it is exact integer arithmetic.
Consequences: the sum never exceeds the total as long as the floors do not, and a member's runtime never falls when its weight grows. Limits: as
every apportionment by largest remainder, one more unit of total may cost one member a unit. Upstream apportions in every round instead of once, so single
units may differ from it. A member of weight 0 gets its floor and nothing that is left over.

Sources: Koordinator's runtime_quota_calculator.go and scale_minquota_when_over_root_res.go; Hamilton's method of apportionment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# 1 / (2^64)^2 is less than any difference of two distinct fractions of 64-bit integers, so scaled quotients order as the fractions do.
_SCALE_BITS = 128


class Member(NamedTuple):
    """One of the siblings, in one resource."""

    request: int  # already at most its maximum
    floor: int  # the larger of its (scaled) minimum and what is guaranteed to it
    weight: int
    lends: bool = True


def share(total: int, members: Sequence[Member]) -> list[int]:
    """The runtime of each member. Where the floors alone exceed `total`, everybody keeps them and nothing is shared."""
    starts = [start(member.request, member.floor, member.lends) for member in members]
    wants = [max(0, member.request - member.floor) for member in members]
    gains = apportion(total - sum(starts), wants, [member.weight for member in members])
    return [first + gained for first, gained in zip(starts, gains, strict=True)]


def start(request: int, floor: int, lends: bool) -> int:
    """What a member has before anything is shared: its floor, or less where it asks for less and lends the rest."""
    return request if lends and request < floor else floor


def apportion(residual: int, wants: Sequence[int], weights: Sequence[int]) -> list[int]:
    """`residual` whole units by weight, nobody more than it wants; the parts sum to the residual or to all that members with a weight want."""
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
    """The minima, made to fit into `total`: those that cannot be scaled keep theirs, the others share the rest in proportion, rounded down."""
    if sum(minima) <= total:
        return list(minima)
    fixed = sum([minimum for minimum, scales in zip(minima, scalable, strict=True) if not scales])
    scaled = sum(minima) - fixed
    left = max(0, total - fixed)
    return [
        left * minimum // scaled if scales and scaled else minimum
        for minimum, scales in zip(minima, scalable, strict=True)
    ]
