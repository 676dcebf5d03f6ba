"""Revocation: when a quota that uses more than its runtime must return resources, and which of its pods are evicted.

A borrowed what B did not need; B's requests grow, A's runtime falls, and A's pods still run. Overuse must last for a
delay, which restarts when it ends or was acted on; then the least important pods are removed until the others fit, and
the most important of the removed are kept again while they fit in the resources that they use. Where a resource cannot
fit even so, all its preemptible users are evicted; upstream evicts all preemptible pods, users of it or not.
Limits: pods are evaluated one by one; reclaim.py evaluates whole jobs, and evicts nothing without benefit. Upstream
leaves this off by default; the caller decides when to check.

Source: Koordinator's quota_overuse_revoke.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.model.groups.quota import Levels, QuotaPod

DELAY_US = 120_000_000


@dataclass(frozen=True, slots=True)
class Overuse:
    """Since when a quota has continuously used more than its runtime; None = it does not."""

    since_us: int | None = None


NO_OVERUSE = Overuse()


def over(used: Levels, runtime: Levels) -> tuple[str, ...]:
    """The resources whose use exceeds the runtime."""
    use = dict(used)
    return tuple(resource for resource, amount in runtime if use.get(resource, 0) > amount)


def watch(before: Overuse, is_over: bool, now_us: int, delay_us: int = DELAY_US) -> tuple[Overuse, bool]:
    """The next state, and whether to revoke now: after more than `delay_us` of overuse. Acting on it restarts the
    delay.
    """
    if not is_over:
        return NO_OVERUSE, False
    if before.since_us is None:
        return Overuse(now_us), False
    if now_us - before.since_us > delay_us:
        return Overuse(now_us), True
    return before, False


def revoke(pods: Sequence[QuotaPod], runtime: Levels) -> tuple[QuotaPod, ...]:
    """The pods of one quota to evict so that the others fit its runtime, most important first. `pods` are all that
    use something.
    """
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
