"""Divide one amount of CPU among groups that have no common parent group to limit.

On a machine without a best-effort group each best-effort pod needs its own quota, and quota given to a pod that does
not use it is lost to the others. Each pod first gets its estimated demand, which is 1.5 times its use and at least a
tenth of its fair share, as far as weights allow (max-min fair), then the remainder is divided by weight; never above
the pod's own limit.
Limits: a pod that becomes active starts from that tenth and grows by half per interval while the others use their
parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupShare:
    """One group that takes part in the division."""

    used_m: int
    weight: int  # above 0, such as its request
    limit_m: int | None = None  # its own limit


def divide(total_m: int, shares: Sequence[GroupShare], min_m: int) -> tuple[int, ...]:
    """The amount of each, milli-CPU, in their order: `min_m` each, even where that exceeds `total_m`, and otherwise
    `total_m` in all unless limits leave some of it unused.
    """
    given = [min_m] * len(shares)
    tops = [max(min_m, share.limit_m) if share.limit_m is not None else None for share in shares]
    weight = sum(share.weight for share in shares)
    wants = [
        _most(max(min_m, share.used_m * 3 // 2, total_m * share.weight // weight // 10), top)
        for share, top in zip(shares, tops, strict=True)
    ]
    left = _fill(total_m - sum(given), given, wants, [share.weight for share in shares])
    _fill(left, given, tops, [share.weight for share in shares])
    return tuple(given)


def _most(amount: int, top: int | None) -> int:
    return amount if top is None else min(amount, top)


def _fill(left: int, given: list[int], tops: Sequence[int | None], weights: Sequence[int]) -> int:
    """Raise `given` in proportion to weights, none above its top (None = no limit); returns the undivided remainder."""
    while left > 0:
        below = [i for i, top in enumerate(tops) if top is None or given[i] < top]
        if not below:
            return left
        weight = sum(weights[i] for i in below)
        before = left
        for i in below:
            top = tops[i]
            step = before * weights[i] // weight
            step = step if top is None else min(step, top - given[i])
            given[i] += step
            left -= step
        if left == before:  # less than one unit each: it goes to the highest weights
            for i in sorted(below, key=lambda number: (-weights[number], number))[:left]:
                given[i] += 1
                left -= 1
    return max(0, left)
