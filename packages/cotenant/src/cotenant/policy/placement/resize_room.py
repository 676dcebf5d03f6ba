"""Who goes for a pod that is already on its node, and was given more than the node has left.

Where a pod that waits may go to another node, one that was resized in place can only stay: room is made there or
nowhere. Those of least importance go first, and whoever turns out not to be needed stays, the most important first. It
is running all the while, so this is gentler than preemption for a pod that waits: what a budget or a gang forbids is
never done.
Source: KEP-5836 (preemption for resizes in place), kube-scheduler's order of victims.
Limits: where a budget lets some go and not all, the least important and then the largest are tried, not every set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class ResizeCandidate(NamedTuple):
    """A pod that may have to go. `importance`: higher stays longer; `started_s`: inf = it has not started."""

    uid: str
    cpu_m: int
    memory_bytes: int
    importance: int
    started_s: float


MayGo = Callable[[Sequence[ResizeCandidate]], bool]  # whether all of these may go together; fewer of them may then, too


def resize_victims(
    short_cpu_m: int, short_memory_bytes: int, residents: Sequence[ResizeCandidate], may_go: MayGo
) -> tuple[ResizeCandidate, ...]:
    """Who goes so that at least so much is free; none where that cannot be. Amounts of 0 or less are not short."""
    least_important_first = sorted(residents, key=lambda one: (one.importance, -one.started_s, one.uid))
    largest_first = sorted(
        residents,
        key=lambda one: -_share(one.cpu_m, short_cpu_m) - _share(one.memory_bytes, short_memory_bytes),
    )

    def is_enough(chosen: Sequence[ResizeCandidate]) -> bool:
        freed_cpu_m = sum(one.cpu_m for one in chosen)
        return freed_cpu_m >= short_cpu_m and sum(one.memory_bytes for one in chosen) >= short_memory_bytes

    for order in (least_important_first, largest_first):
        chosen: list[ResizeCandidate] = []
        for one in order:
            if is_enough(chosen):
                break
            helps = (short_cpu_m > 0 and one.cpu_m > 0) or (short_memory_bytes > 0 and one.memory_bytes > 0)
            if helps and may_go([*chosen, one]):
                chosen.append(one)
        if chosen and is_enough(chosen):
            for one in reversed([found for found in least_important_first if found in chosen]):
                without = [other for other in chosen if other is not one]
                if is_enough(without):
                    chosen = without
            return tuple(chosen)
    return ()


def _share(amount: int, short: int) -> float:
    return min(1.0, amount / short) if short > 0 else 0.0
