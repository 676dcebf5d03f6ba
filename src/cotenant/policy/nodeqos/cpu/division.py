"""One amount of CPU divided among groups that have no common one to carry a limit.

Problem: on a machine without a best-effort group each best-effort pod needs a quota of its own, and quota given to who does not use it is
lost to the others. Choice: each first gets what it seems to want, its use and half as much again and at least a tenth of its fair part, as
far as weights allow (max-min fair), then what is left by weight; nobody above its own limit. Limits: who wakes up starts from that tenth and
grows by a half each interval while the others use theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """One group that takes part."""

    used_m: int
    weight: int  # above 0: its request, say
    limit_m: int | None = None  # its own


def divide(total_m: int, shares: Sequence[Share], least_m: int) -> tuple[int, ...]:
    """What each may use, milli-CPU, in their order: `least_m` each, even where that is more than `total_m`, and otherwise `total_m` in all
    unless limits leave some of it over."""
    given = [least_m] * len(shares)
    tops = [max(least_m, share.limit_m) if share.limit_m is not None else None for share in shares]
    weight = sum(share.weight for share in shares)
    wants = [
        _most(max(least_m, share.used_m * 3 // 2, total_m * share.weight // weight // 10), top)
        for share, top in zip(shares, tops, strict=True)
    ]
    left = _fill(total_m - sum(given), given, wants, [share.weight for share in shares])
    _fill(left, given, tops, [share.weight for share in shares])
    return tuple(given)


def _most(amount: int, top: int | None) -> int:
    return amount if top is None else min(amount, top)


def _fill(left: int, given: list[int], tops: Sequence[int | None], weights: Sequence[int]) -> int:
    """Raise `given` in proportion to weights, none above its top (None = without end); what could not be given away."""
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
        if left == before:  # less than one unit each: the heaviest take the rest
            for i in sorted(below, key=lambda each: (-weights[each], each))[:left]:
                given[i] += 1
                left -= 1
    return max(0, left)
