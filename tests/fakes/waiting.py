"""Waiting for a condition that another process, thread or task brings about.

Problem: a test of real processes cannot inject their clocks, and a fixed sleep is too long on a quiet machine and too short on a busy one. Choice: poll at
a short interval until the condition holds; fail with what was last seen after a bound that only a hang reaches. This module is the only place in the tests
that polls. Limits: what lasts shorter than the interval may be missed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeVar, overload

T = TypeVar("T")
INTERVAL_S = 0.01
WITHIN_S = 30.0


def eventually(
    what: str,
    found: Callable[[], T],
    within_s: float = WITHIN_S,
    *,
    tolerated: tuple[type[BaseException], ...] = (),
    interval_s: float = INTERVAL_S,
) -> T:
    """The first true value of `found`. `tolerated`: errors that count as "not yet"."""
    until = time.monotonic() + within_s
    last: object = None
    while True:
        try:
            value = found()
            if value:
                return value
            last = value
        except tolerated as error:
            last = error
        assert time.monotonic() < until, f"not within {within_s:g} s: {what}; last {last!r}"
        time.sleep(interval_s)


@overload
async def soon(what: str, found: Callable[[], Awaitable[T]], within_s: float = WITHIN_S) -> T: ...
@overload
async def soon(what: str, found: Callable[[], T], within_s: float = WITHIN_S) -> T: ...
async def soon(what: str, found: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    """`eventually` inside an event loop, for a function or a coroutine function."""
    until = time.monotonic() + within_s
    while True:
        value = found()
        if isawaitable(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < until, f"not within {within_s:g} s: {what}; last {value!r}"
        await asyncio.sleep(INTERVAL_S)
