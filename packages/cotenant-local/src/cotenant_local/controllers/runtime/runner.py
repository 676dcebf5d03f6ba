"""Runs controllers: takes keys from each work queue, asks for a plan, executes it, and retries failures.

Every controller needs the same loop, and none may block another. One queue and one task per controller, with up to
`WORKERS` keys in parallel. A key whose plan was expensive is not reconciled again until ten times its cost has passed,
so that a set of thousands of pods does not occupy the whole core while they start: CPU time, as a plan that was
preempted costs nothing. A conflict or a refusal is retried
with exponential back-off. So is any other exception, which is also counted and logged, because it is a defect. Every
`RESYNC_S` all keys are queued once. An idle runner uses no CPU.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.controllers.runtime.actions import Create, EmitEvent, Plan
from cotenant_local.controllers.runtime.cache import Key
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.runtime.queue import WorkQueue
from cotenant_local.controllers.runtime.writer import Writer

WORKERS = 8
RESYNC_S = 600.0
COOLDOWN_FACTOR = 10.0
_log = logging.getLogger(__name__)

Enqueue = Callable[[Key], None]


class Controller(Protocol):
    """Reconciles the objects of one kind."""

    @property
    def name(self) -> str:
        """Name used in events, counters and managed fields."""

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to informers; call `enqueue` for every key to reconcile."""

    def all_keys(self) -> Iterable[Key]:
        """All keys, for the periodic resync."""

    async def plan(self, key: Key, now_s: float) -> Plan:
        """Decide what to do for a key."""


@dataclass(slots=True)
class Counters:
    """Counters of one controller."""

    reconciles: int = 0
    writes: int = 0
    conflicts: int = 0
    refusals: int = 0
    errors: int = 0  # exceptions other than ApiError: defects
    busy_s: float = 0.0


class _Loop:
    def __init__(
        self, controller: Controller, informers: Informers, clock: Callable[[], float], cpu_s: Callable[[], float]
    ) -> None:
        self.controller = controller
        self.counters = Counters()
        self._clock, self._cpu_s = clock, cpu_s
        self._queue: WorkQueue[Key] = WorkQueue()
        self._writer = Writer(informers, controller.name, clock)
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(WORKERS)
        self._tasks: set[asyncio.Task[None]] = set()
        controller.attach(self.enqueue)

    def enqueue(self, key: Key) -> None:
        self._queue.add(key)
        self._wake.set()

    @property
    def idle(self) -> bool:
        """Whether nothing is ready or being worked on (delayed keys do not count)."""
        return not self._tasks and self._queue.next_at() != 0.0

    async def run(self) -> None:
        resync_at = self._clock() + RESYNC_S
        while True:
            now = self._clock()
            if now >= resync_at:
                resync_at = now + RESYNC_S
                for resync_key in self.controller.all_keys():
                    self._queue.add(resync_key)
            key = self._queue.take(now)
            if key is not None:
                await self._slots.acquire()
                task = asyncio.create_task(self._work(key))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                continue
            self._wake.clear()
            due = self._queue.next_at()
            wait_s = min(resync_at, due if due is not None else resync_at) - now
            # not wait_for: it can swallow a cancellation that coincides with the event (CPython issue 86296)
            alarm = asyncio.get_running_loop().call_later(max(0.001, wait_s), self._wake.set)
            try:
                await self._wake.wait()
            finally:
                alarm.cancel()

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self, key: Key) -> None:
        counters = self.counters
        cost_s = 0.0
        plan: Plan | None = None
        try:
            counters.reconciles += 1
            start = self._cpu_s()
            plan = await self.controller.plan(key, self._clock())
            cost_s = self._cpu_s() - start
            counters.busy_s += cost_s
            if plan.actions:
                counters.writes += len(plan.actions)
                await self._writer.execute(plan.actions)
            if plan.requeue_at_s is not None:
                self._queue.add_at(key, plan.requeue_at_s)
            self._queue.succeeded(key)
        except ApiError as error:
            if error.code == 409:
                counters.conflicts += 1
            else:
                counters.refusals += 1
                await self._report_failed_create(plan, error)
            self._queue.failed(key, self._clock(), float(error.retry_after_s))
        except Exception:
            counters.errors += 1
            _log.exception("%s: %s/%s", self.controller.name, *key)
            self._queue.failed(key, self._clock(), 1.0)
        finally:
            self._queue.done(key, self._clock() + COOLDOWN_FACTOR * cost_s if cost_s > 0.001 else None)
            self._slots.release()
            self._wake.set()

    async def _report_failed_create(self, plan: Plan | None, error: ApiError) -> None:
        """Record an event on the owner when a creation was refused."""
        creates = [a for a in plan.actions if isinstance(a, Create)] if plan is not None else []
        template = next((a for a in plan.actions if isinstance(a, EmitEvent)), None) if plan is not None else None
        if creates and template is not None:
            text = f"Error creating: {error.message}"
            event = EmitEvent(template.about, template.kind, template.api_version, "Warning", "FailedCreate", text)
            await self._writer.execute([event])


class Runner:
    """All controllers of a process."""

    def __init__(
        self,
        informers: Informers,
        controllers: Sequence[Controller],
        clock: Callable[[], float] = time.time,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._informers = informers
        self._loops = [_Loop(c, informers, clock, cpu_s) for c in controllers]
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def counters(self) -> dict[str, Counters]:
        """Counters by controller name."""
        return {loop.controller.name: loop.counters for loop in self._loops}

    async def start(self) -> None:
        """Wait for the informers' initial list, then run in the background."""
        await self._informers.start()
        self._tasks = [asyncio.create_task(loop.run(), name=loop.controller.name) for loop in self._loops]

    async def until_quiet(self, rounds: int = 50) -> None:
        """Wait until no controller has a key ready; for tests."""
        quiet = 0
        while quiet < rounds:
            await asyncio.sleep(0)
            quiet = quiet + 1 if all(loop.idle for loop in self._loops) else 0

    async def stop(self) -> None:
        """Cancel all work; unfinished work is found again by the initial list of the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for loop in self._loops:
            await loop.stop()
