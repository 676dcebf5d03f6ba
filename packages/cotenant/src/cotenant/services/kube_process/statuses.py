"""Writing statuses in the background: the newest of each object, at a limited rate.

A gang of 512 changes its counts with every member, ten thousand pods that cannot be placed change their condition at
once, and writes of status must not delay binds. The newest status of each object waits under its key, a newer one
replaces it, and one worker writes at most `per_s` a second; each type of status has its own form of the write
(`writers`). A status whose object is gone, or whose name has another object, is dropped: the watch reports that too. A
refusal that may pass is tried again unless there is a newer status.
Limits: a status may be late by as many seconds as there are objects over the rate.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, NotFound
from cotenant.drivers.kube.client.limits import TokenBucket
from cotenant.model.errors import CotenantError, Transient

Writer = Callable[[Client, Any], Awaitable[None]]

RETRY_S, LONGEST_RETRY_S = 0.5, 5.0

_log = logging.getLogger(__name__)


class StatusWriter:
    """Writes statuses, at most `per_s` a second; `writers` has the write for each type of status."""

    def __init__(
        self,
        client: Client,
        writers: Mapping[type, Writer],
        *,
        per_s: float,
        may_write: Callable[[], bool] = lambda: True,
        must_wait: Callable[[], bool] = lambda: False,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`may_write`: whether this replica may write now; what comes up for writing while it may not is dropped,
        or kept while it `must_wait`.
        """
        self.written = 0
        self.refused = 0  # not written: the server refuses them
        self._client = client
        self._writers = writers
        self._may_write = may_write
        self._must_wait = must_wait
        self._monotonic = monotonic
        self._sleep = sleep
        self._waiting: dict[Hashable, object] = {}
        self.writing: Hashable = None  # the key of what was sent and is not answered
        self._answered = asyncio.Event()
        self._bucket = TokenBucket(per_s, max(1, int(per_s)))
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def put(self, key: Hashable, status: object) -> None:
        """Write the status of an object soon; an older one under the same key that is not written yet is dropped."""
        self._waiting[key] = status
        self._some.set()
        self._idle.clear()

    def discard(self, key: Hashable) -> None:
        """Do not write what waits under the key."""
        self._waiting.pop(key, None)

    async def answered(self, key: Hashable) -> None:
        """Wait until no write under the key is under way: what is sent then comes after it."""
        while self.writing is not None and self.writing == key:
            await self._answered.wait()

    def waiting(self) -> int:
        """Statuses that are not written yet."""
        return len(self._waiting)

    async def flush(self, within_s: float) -> bool:
        """Wait until every status is written or dropped, at most `within_s`; whether it is. `run` must be running."""
        try:
            async with asyncio.timeout(within_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Write, until cancelled."""
        while True:
            while not self._waiting:
                self._idle.set()
                self._some.clear()
                await self._some.wait()
            wait_s = self._bucket.take(self._monotonic())
            if wait_s > 0:
                await self._sleep(wait_s)
            while self._must_wait():
                await self._sleep(RETRY_S)
            if not self._waiting:
                continue
            key = next(iter(self._waiting))
            status = self._waiting.pop(key)
            if self._may_write():
                await self._write(key, status)

    async def _write(self, key: Hashable, status: object) -> None:
        try:
            await self._sent(key, status)
        except (NotFound, Conflict):
            return
        except Transient as error:
            self._waiting.setdefault(key, status)
            await self._sleep(min(LONGEST_RETRY_S, max(RETRY_S, error.retry_after_s)))
        except CotenantError as error:
            self.refused += 1
            _log.warning("status of %s: %s", " ".join(key) if isinstance(key, tuple) else key, error)
        else:
            self.written += 1

    async def _sent(self, key: Hashable, status: object) -> None:
        self.writing = key
        self._answered.clear()
        try:
            await self._writers[type(status)](self._client, status)
        finally:
            self.writing = None
            self._answered.set()
