"""Sharing of one CPU in one step: groups within groups, by weight, under quotas.

The agent's knobs act through the kernel's fair class, level by level. On each CPU and at each level demand is filled in
proportion to weight (max-min fair); a group in the idle class weighs 3 against 1024, as in the kernel; a group's quota
is shared by all CPUs.
Limits: fluid within a step: no order of threads, no migration cost, no sibling threads.

Source: Linux, kernel/sched (weights of nice 0 and of SCHED_IDLE; CFS bandwidth, Turner et al., Linux Symposium 2010).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

USUAL_WEIGHT, KERNEL_USUAL_WEIGHT, KERNEL_IDLE_WEIGHT = 100, 1024, 3
SCALE = 1 << 16  # resolution of the part of a weight on each CPU


@dataclass(slots=True)
class GroupNode:
    """State of a group while CPU is shared: its knobs, remaining quota, demand on this CPU and total granted."""

    group: str
    weight: int = KERNEL_USUAL_WEIGHT
    idle: bool = False
    quota_us: int | None = None
    period_us: int = 100_000
    burst_us: int = 0
    left_us: int = 0  # of the quota, in this period
    period: int = -1  # its number
    children: list[GroupNode] = field(default_factory=list)
    threads: int = 0  # runnable below it
    wanted_here_us: int = 0
    threads_here: int = 0
    got_here_us: int = 0
    got_us: int = 0  # in this step
    throttled: bool = False  # in this period
    wanted_us: int = 0  # in this step

    def refill(self, now_us: int) -> tuple[bool, bool]:
        """Begin a new period if due: (whether a period ended, whether it was throttled)."""
        number = now_us // self.period_us
        if number == self.period:
            return False, False
        ended, was = self.period >= 0, self.throttled
        if self.quota_us is not None:
            self.left_us = min(max(0, self.left_us) + self.quota_us, self.quota_us + self.burst_us)
        self.period, self.throttled = number, False
        return ended, was


def fill(amount: int, wants: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Distribute up to `amount`, no more than each wants, otherwise in proportion to weight; the rounding remainder
    goes to the first.
    """
    given = [0] * len(wants)
    open_ones = [i for i, want in enumerate(wants) if want > 0]
    left = amount
    while left > 0 and open_ones:
        weight = sum(weights[i] for i in open_ones)
        full = [i for i in open_ones if (wants[i] - given[i]) * weight <= left * weights[i]]
        if full:
            for i in full:
                left -= wants[i] - given[i]
                given[i] = wants[i]
            open_ones = [i for i in open_ones if given[i] < wants[i]]
            continue
        parts = {i: left * weights[i] // weight for i in open_ones}
        for i, part in parts.items():
            given[i] += part
        rest = left - sum(parts.values())
        given[open_ones[0]] += min(rest, wants[open_ones[0]] - given[open_ones[0]])
        break
    return given


def want_here(node: GroupNode) -> int:
    """CPU time that a group could use of this CPU, by its own quota and those below it."""
    if node.children:
        node.wanted_here_us = sum(want_here(child) for child in node.children)
        node.threads_here = sum(child.threads_here for child in node.children)
    if node.quota_us is not None:
        node.wanted_here_us = min(node.wanted_here_us, max(0, node.left_us))
    return node.wanted_here_us


def share(node: GroupNode, amount: int) -> None:
    """Distribute `amount` of this CPU to the group's children; the part of each leaf is in `got_here_us`."""
    node.got_here_us = amount
    node.got_us += amount
    if node.quota_us is not None:
        node.left_us -= amount
    if node.children:
        wants = [child.wanted_here_us for child in node.children]
        weights = [_weight_here(child) for child in node.children]
        for child, part in zip(node.children, fill(amount, wants, weights), strict=True):
            if part or child.wanted_here_us:
                share(child, part)
            else:
                child.got_here_us = 0


def _weight_here(node: GroupNode) -> int:
    """The part of a group's weight that counts on this CPU, by the share of its threads."""
    weight = KERNEL_IDLE_WEIGHT if node.idle else node.weight
    return max(1, weight * SCALE * node.threads_here // max(1, node.threads))
