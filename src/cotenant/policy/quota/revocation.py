"""A quota that uses more than its runtime gives back: when its time is up, and which of its pods go.

Problem: A borrowed what B did not need; B comes, A's runtime falls, and A's pods still run. Choice: overuse must last for a delay, which starts anew when it
ends or has been acted on; then the least important pods go until the rest fit, and of those that would go, the most important come back as
long as they fit in what they use themselves. Where a resource cannot fit even so, all that use it and may be preempted go; upstream lets all go
that may be preempted, used or not. Limits: pods are judged one by one; reclaim.py judges whole jobs, and evicts nothing where that helps
nobody. Upstream leaves this off unless it is enabled; when to ask is the caller's matter.

Source: Koordinator's quota_overuse_revoke.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.model.groups.quota import Levels, QuotaPod

DELAY_US = 120_000_000


@dataclass(frozen=True, slots=True)
class Overuse:
    """Since when a quota has used more than its runtime without a break; None = it does not."""

    since_us: int | None = None


NO_OVERUSE = Overuse()


def over(used: Levels, runtime: Levels) -> tuple[str, ...]:
    """The resources of which more is used than the runtime allows."""
    use = dict(used)
    return tuple(resource for resource, amount in runtime if use.get(resource, 0) > amount)


def watch(before: Overuse, is_over: bool, now_us: int, delay_us: int = DELAY_US) -> tuple[Overuse, bool]:
    """The next state, and whether to revoke now: after more than `delay_us` of overuse. Acting on it starts the time anew."""
    if not is_over:
        return NO_OVERUSE, False
    if before.since_us is None:
        return Overuse(now_us), False
    if now_us - before.since_us > delay_us:
        return Overuse(now_us), True
    return before, False


def revoke(pods: Sequence[QuotaPod], runtime: Levels) -> tuple[QuotaPod, ...]:
    """The pods of one quota that go so that the rest fit its runtime, most important first. `pods` are all that use something."""
    used = [sum(pod.request.get(resource) for pod in pods) for resource, _ in runtime]
    limits = [amount for _, amount in runtime]
    rows = {pod.uid: [pod.request.get(resource) for resource, _ in runtime] for pod in pods}
    gone: list[QuotaPod] = []
    for pod in sorted((pod for pod in pods if pod.preemptible), key=lambda pod: pod.importance, reverse=True):
        if _fits(used, limits):
            break
        used = [use - amount for use, amount in zip(used, rows[pod.uid], strict=True)]
        gone.append(pod)
    stays = set()
    for pod in reversed(gone):
        row = rows[pod.uid]
        again = [use + amount for use, amount in zip(used, row, strict=True)]
        if all(use <= limit for use, limit, amount in zip(again, limits, row, strict=True) if amount):
            used = again
            stays.add(pod.uid)
    return tuple(pod for pod in reversed(gone) if pod.uid not in stays)


def _fits(used: Sequence[int], limits: Sequence[int]) -> bool:
    return all(use <= limit for use, limit in zip(used, limits, strict=True))
