"""How fast and how wide we may talk to the API server.

Problem: a scheduler that can bind a thousand pods a second can also drown a small control plane, and the hidden default of other clients
(50 requests/s) is often taken for the speed of scheduling. Choice: a token bucket for the rate and a count for what is under way, both
stated by whoever makes the client. Requests wait in the order in which they came. Limits: the server has limits of its own; its 429 is an
error of the request and does not slow the bucket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from cotenant.model.errors import InvalidInput


class TokenBucket:
    """`qps` tokens a second, at most `burst` saved up. Infinite qps = no limit. Times are monotonic seconds."""

    def __init__(self, qps: float, burst: int) -> None:
        if not qps > 0:
            raise InvalidInput("qps", qps, "requests a second above 0, or inf for no limit")
        if burst < 1:
            raise InvalidInput("burst", burst, "1 or more")
        self.qps = qps
        self.burst = burst
        self._tokens = float(burst)
        self._filled_s = -inf

    def take(self, now_s: float) -> float:
        """Take a token; returns for how many seconds to wait before using it. A clock that went back adds nothing."""
        if self.qps == inf:
            return 0.0
        if self._filled_s == -inf:
            self._filled_s = now_s
        elapsed = max(0.0, now_s - self._filled_s)
        self._filled_s = now_s
        self._tokens = min(float(self.burst), self._tokens + elapsed * self.qps) - 1.0
        return max(0.0, -self._tokens / self.qps)


class Gate:
    """Lets requests out by rate and by number under way."""

    def __init__(self, qps: float, burst: int, in_flight: int, now: Callable[[], float]) -> None:
        if in_flight < 1:
            raise InvalidInput("in_flight", in_flight, "1 or more")
        self.bucket = TokenBucket(qps, burst)
        self.in_flight = in_flight
        self.delayed = 0  # requests that waited for the rate
        self.delayed_s = 0.0  # for how long, in all
        self._now = now
        self._free = asyncio.Semaphore(in_flight)
        self.under_way = 0

    async def enter(self) -> None:
        """Wait for a place and a token. `leave` must follow."""
        await self._free.acquire()
        self.under_way += 1
        try:
            await self.pace()
        except BaseException:
            self.leave()
            raise

    async def pace(self) -> None:
        """Wait for a token only: for watches, which stay open."""
        wait_s = self.bucket.take(self._now())
        if wait_s > 0:
            self.delayed += 1
            self.delayed_s += wait_s
            await asyncio.sleep(wait_s)

    def leave(self) -> None:
        """Give the place back."""
        self.under_way -= 1
        self._free.release()
