"""At which priorities preemption could change anything, and the lowest at which it works.

Problem: every priority between two integers of 32 bits could be tried. Choice: only priorities just above that of some pod matter, and what works at one works
above it, so bisection finds the lowest. Limits: stand-ins of reservations are never evicted and do not count.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cotenant.model.arrays import Int

_HIGHEST = 2**31  # above it are stand-ins of reservations


def levels_above(above: int, priorities: Int) -> tuple[int, ...]:
    """One more than each of these priorities that is at least `above`, ascending."""
    return tuple((np.unique(priorities[(priorities >= above) & (priorities < _HIGHEST)]) + 1).tolist())


def least_priority(above: int, priorities: Int, works: Callable[[int], bool]) -> int | None:
    """The lowest priority above `above` for which `works`, given the priorities of pods that could be evicted; None if there is none. `works` must be monotonic."""
    steps = levels_above(above, priorities)
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        if works(steps[middle]):
            high = middle
        else:
            low = middle + 1
    return steps[low] if low < len(steps) else None
