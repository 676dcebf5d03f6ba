"""Writes Events in the background.

Decisions must not wait for an Event to be written, nor lose throughput to them. `record` only queues the Event
(correlator.py); `run` writes the queue at a rate of its own, a few at a time. Transient failures are retried a few
times, others are dropped; both are counted.
Limits: Events not yet written are lost when the process dies; `flush` writes them at a clean stop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound, Refused
from cotenant.drivers.kube.client.limits import TokenBucket
from cotenant.drivers.kube.kinds.event import EVENTS
from cotenant.drivers.kube.kinds.parts import ObjectReference
from cotenant.drivers.kube.record.correlator import EventCorrelator, EventWrite
from cotenant.model.errors import CotenantError, Transient

TRIES = 3

_log = logging.getLogger(__name__)


class EventWriter:
    """Writes Events at `qps` a second with at most `workers` requests in flight. Its client should have capacity
    beside the binds.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        instance: str,
        *,
        qps: float,
        burst: int,
        capacity: int = 1024,
        workers: int = 4,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.correlator = EventCorrelator(component, instance, capacity)
        self.written = 0
        self._client = client
        self._bucket = TokenBucket(qps, burst)
        self._workers = workers
        self._now = now
        self._monotonic = monotonic
        self._sleep = sleep
        self._some = asyncio.Event()
        self._under_way = 0
        self._tries: dict[str, int] = {}

    def record(self, about: ObjectReference, kind: str, reason: str, message: str) -> bool:
        """Queue an Event about an object (`kind` Normal or Warning); returns at once. False = dropped: the queue is
        full.
        """
        taken = self.correlator.record(about, kind, reason, message, self._now())
        if taken:
            self._some.set()
        return taken

    async def run(self) -> None:
        """Write what is recorded, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def flush(self, within_s: float) -> bool:
        """Wait until all Events are written, at most so long; returns whether they are. `run` must be running."""
        try:
            async with asyncio.timeout(within_s):
                while self.correlator or self._under_way:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return False
        return True

    async def _work(self) -> None:
        while True:
            write = self.correlator.take()
            if write is None:
                self._some.clear()
                await self._some.wait()
                continue
            self._under_way += 1
            try:
                wait_s = self._bucket.take(self._monotonic())
                if wait_s > 0:
                    await self._sleep(wait_s)
                await self._write(write)
            finally:
                self._under_way -= 1

    async def _write(self, write: EventWrite) -> None:
        event = write.event
        namespace, name = event.metadata.namespace or "default", event.metadata.name or ""
        try:
            if write.is_new:
                await self._client.create_event(namespace, event)
            else:
                patch = {"count": event.count, "message": event.message, "lastTimestamp": event.last_timestamp}
                await self._client.patch(EVENTS, namespace, name, patch, content_type=MERGE_PATCH)
        except AlreadyExists:
            pass  # an earlier try whose answer was lost
        except Transient as error:
            tries = self._tries[name] = self._tries.get(name, 0) + 1
            _log.debug("event %s/%s: %s", namespace, name, error)
            again = tries < TRIES
            self.correlator.failed(write, again)
            if again:
                await self._sleep(error.retry_after_s)
                self._some.set()
            else:
                del self._tries[name]
            return
        except NotFound as error:
            if write.is_new:
                self._drop(write, error)  # its namespace is gone
            else:
                self.correlator.vanished(write)
                self._some.set()
            return
        except (Refused, CotenantError) as error:
            self._drop(write, error)
            return
        self._tries.pop(name, None)
        self.written += 1
        self.correlator.written(write)

    def _drop(self, write: EventWrite, error: CotenantError) -> None:
        self._tries.pop(write.event.metadata.name or "", None)
        _log.info("event dropped: %s", error)
        self.correlator.failed(write, again=False)
