"""Waiting for a condition that another process, thread or task brings about.

A test of real processes cannot inject their clocks, and a fixed sleep is too long on a quiet machine and too short on a
busy one: poll at a short interval until the condition holds, and fail with what was last seen after a bound that only a
hang reaches. A bound is in seconds of a quiet machine: while more processes want to run than there are CPUs, each
second counts as its share, so that a busy machine makes a case slow and not red. This module is the only place in the
tests that polls. What lasts shorter than the interval may be missed.

A value that follows an action by way of an event loop, a frame or another process is compared by `becomes`: what is
true right after the action on a quiet machine is not yet true on a busy one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from pathlib import Path
from typing import Any, TypeVar, overload

T = TypeVar("T")
INTERVAL_S = 0.01
WITHIN_S = 30.0
CPUS = len(os.sched_getaffinity(0))
_LOAD = Path("/proc/loadavg")


def crowding() -> float:
    """How many processes share a CPU, of the last minute or of now, whichever is more: 1 where each has its own.

    The mean of a minute alone says that a machine is quiet for as long as most waits last after it became busy.
    """
    if not _LOAD.exists():
        return max(1.0, os.getloadavg()[0] / CPUS)
    mean, _, _, now, *_ = _LOAD.read_text().split()
    return max(1.0, float(mean) / CPUS, int(now.partition("/")[0]) / CPUS)


def patience(within_s: float) -> float:
    """Seconds to wait now where `within_s` would do on a quiet machine: for a wait that this module does not poll.

    One look at the load tells nothing of the rest of the wait, so no machine counts as quiet.
    """
    return within_s * max(4.0, crowding())


class Bound:
    """Whether a wait has gone on for `within_s` seconds of a quiet machine."""

    def __init__(self, within_s: float) -> None:
        self.gone_s = 0.0  # of a quiet machine, as of the last poll
        self._within_s, self._seen_s = within_s, time.monotonic()

    def reached(self) -> bool:
        """Asked at each poll: what went by since the last is weighed by the crowding of now."""
        now_s = time.monotonic()
        self.gone_s += (now_s - self._seen_s) / crowding()
        self._seen_s = now_s
        return self.gone_s >= self._within_s


def eventually(
    what: str,
    found: Callable[[], T],
    within_s: float = WITHIN_S,
    *,
    tolerated: tuple[type[BaseException], ...] = (),
    interval_s: float = INTERVAL_S,
) -> T:
    """The first true value of `found`. `tolerated`: errors that count as "not yet"."""
    bound = Bound(within_s)
    last: object = None
    while True:
        try:
            value = found()
            if value:
                return value
            last = value
        except tolerated as error:
            last = error
        assert not bound.reached(), f"not within {within_s:g} s: {what}; last {last!r}"
        time.sleep(interval_s)


def becomes(
    what: str,
    found: Callable[[], T],
    wanted: T,
    within_s: float = WITHIN_S,
    *,
    tolerated: tuple[type[BaseException], ...] = (),
) -> None:
    """Wait until `found` is what is wanted. Of what must not change, it shows nothing: that is compared at once."""
    last: list[object] = [None]

    def is_wanted() -> bool:
        last[0] = found()
        return bool(last[0] == wanted)

    try:
        eventually(what, is_wanted, within_s, tolerated=tolerated)
    except AssertionError:
        assert last[0] == wanted, what  # pytest shows the difference
        raise


@overload
async def soon(what: str, found: Callable[[], Awaitable[T]], within_s: float = WITHIN_S) -> T: ...
@overload
async def soon(what: str, found: Callable[[], T], within_s: float = WITHIN_S) -> T: ...
async def soon(what: str, found: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    """`eventually` inside an event loop, for a function or a coroutine function."""
    bound = Bound(within_s)
    while True:
        value = found()
        if isawaitable(value):
            value = await value
        if value:
            return value
        assert not bound.reached(), f"not within {within_s:g} s: {what}; last {value!r}"
        await asyncio.sleep(INTERVAL_S)
