"""Client-side limits of the request rate and of the requests in flight.

A scheduler that can bind a thousand pods a second can also overload a small control plane, and the hidden default of
other clients (50 requests/s) is often taken for the speed of scheduling. A token bucket for the rate and a count of the
requests in flight, both given by the creator of the client. Requests wait in order of arrival.
Limits: the server has limits of its own; its 429 is an error of the request and does not slow the bucket.
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
        """Take a token; returns the seconds to wait before using it. A clock that went back adds nothing."""
        if self.qps == inf:
            return 0.0
        if self._filled_s == -inf:
            self._filled_s = now_s
        elapsed = max(0.0, now_s - self._filled_s)
        self._filled_s = now_s
        self._tokens = min(float(self.burst), self._tokens + elapsed * self.qps) - 1.0
        return max(0.0, -self._tokens / self.qps)


class RequestLimiter:
    """Limits requests by rate and by number in flight."""

    def __init__(self, qps: float, burst: int, in_flight: int, now: Callable[[], float]) -> None:
        if in_flight < 1:
            raise InvalidInput("in_flight", in_flight, "1 or more")
        self.bucket = TokenBucket(qps, burst)
        self.in_flight = in_flight
        self.delayed = 0  # requests that waited for a token
        self.delayed_s = 0.0  # in total
        self._now = now
        self._free = asyncio.Semaphore(in_flight)
        self.under_way = 0

    async def enter(self) -> None:
        """Wait for a slot and a token. `leave` must follow."""
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
        """Free the slot."""
        self.under_way -= 1
        self._free.release()
