"""One replica of a process against an API server: its parts, and the order in which they start and stop.

A scheduler, a manager and a rebalancer differ in what they decide and hardly in anything else, and the order of a
shutdown is easy to get wrong: what is decided must be settled before the lease is released, and written before the
client is closed. `KubeProcess` owns the parts that all of them need and runs them; the process adds its watches,
writers, metrics and checks before `run`, and passes what it does while leading as `work`.

Start    1. watches, Events, status writers and background tasks
         2. servers: health and metrics answer while the first lists are on their way
         3. once every kind is listed: `on_synced`, the callbacks of `on_listed`, then the campaign for leadership
         4. while leading: `work`
Stop     1. `work` is cancelled; in its `finally` everything still runs, so that it can settle what is under way
         2. statuses put meanwhile are written, within `FLUSH_S`; the lease is released
         3. Events recorded meanwhile are written, within `FLUSH_S`
         4. servers stop
         5. background tasks, status writers, Events and watches are cancelled
         6. `on_stop` callbacks run, the last one first; the client is closed
A stop begins when `stop` is set, when any part ends or fails (an error of ours; errors of the API server never end a
part), or when `run` is cancelled. Where leadership is lost, only `work` stops, and the campaign begins again. Every
step runs even where an earlier one fails.
Limits: a replica that does not lead watches too, so that it can take over at once, which costs its memory once more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.services.heap import collect_while_filling, freeze_heap, spare_filling
from cotenant.services.kube_process.clock import SteadyClock
from cotenant.services.kube_process.events import EventRecorder
from cotenant.services.kube_process.health import STUCK_S, ProcessHealth
from cotenant.services.kube_process.leadership import Alone, Leadership
from cotenant.services.kube_process.statuses import StatusWriter, Writer
from cotenant.services.kube_process.watches import Watches
from cotenant.services.running import TaskSet

FLUSH_S = 1.0

_log = logging.getLogger(__name__)


class ListeningServer(Protocol):
    """A listening server."""

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set; finish the requests under way."""
        ...


class KubeProcess:
    """The parts of one replica. The client is owned: `run` closes it."""

    def __init__(
        self,
        component: str,
        identity: str,
        client: Client,
        *,
        leadership: Leadership | None = None,
        metrics: MetricsRegistry | None = None,
        events_per_s: float = 50.0,
        streaming_lists: bool = False,
        later_in_portions: bool = False,
        clock: SteadyClock | None = None,
    ) -> None:
        """`component` is the reporter of Events, `identity` this replica; `leadership` None = there is no other
        replica.
        """
        self.component = component
        self.identity = identity
        self.client = client
        self.now = clock or SteadyClock()
        self.leadership = leadership or Alone()
        self.metrics = metrics or MetricsRegistry()
        self.watches = Watches(
            client, streaming=streaming_lists, later_in_portions=later_in_portions, delivered=self.wake
        )
        self.events = EventRecorder(client, component, identity, per_s=events_per_s)
        self.health = ProcessHealth()
        self.health.must_live(self._stuck)
        self.health.must_be_ready(lambda: "" if self.watches.synced else "not everything has been listed yet")
        self.metrics.read(
            GaugeMetricFamily,
            "leader_election_master_status",
            "1 while this replica may act, 0 while it waits for its lease or could not renew it",
            ("name",),
            lambda: (((component,), float(self.leads)),),
        )
        self.metrics.read(
            CounterMetricFamily,
            "cotenant_leader_lapses",
            "Times that this replica paused because its lease was not renewed in time and nobody else took it",
            (),
            lambda: (((), float(self.leadership.lapses)),),
        )
        self._writers: list[StatusWriter] = []
        self._background: dict[str, Callable[[], Awaitable[None]]] = {}
        self._servers: dict[str, ListeningServer] = {}
        self._on_listed: list[Callable[[], None]] = []
        self._on_stop: list[Callable[[], None]] = []
        self._preparations: list[Callable[[], Awaitable[None]]] = []
        self._awake = asyncio.Event()
        self._working = False
        self._turned_s: float | None = None  # None = no work, so no loop that must turn

    # ---- before `run`

    def status_writer(
        self, name: str, writers: Mapping[type, Writer], *, per_s: float, only_leading: bool = True
    ) -> StatusWriter:
        """A writer of statuses with a rate of its own. `only_leading`: what comes up for writing while this replica
        does not lead is dropped, in a term kept.
        """
        writer = StatusWriter(
            self.client,
            writers,
            per_s=per_s,
            may_write=(lambda: self.leads) if only_leading else lambda: True,
            must_wait=(lambda: self._working and not self.leads) if only_leading else lambda: False,
        )
        self._writers.append(writer)
        self.background(name, writer.run)
        return writer

    def before_watching(self, prepare: Callable[[], Awaitable[None]]) -> None:
        """Wait for this before anything is listed."""
        self._preparations.append(prepare)

    def background(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a task from start to stop, whether leading or not."""
        self._background[name] = run

    def serve(self, name: str, server: ListeningServer) -> None:
        """Run a server from start to stop."""
        self._servers[name] = server

    def on_listed(self, callback: Callable[[], None]) -> None:
        """Call back once, when everything has been listed for the first time."""
        self._on_listed.append(callback)

    def on_stop(self, callback: Callable[[], None]) -> None:
        """Call back right before the client is closed."""
        self._on_stop.append(callback)

    def spare_collections(self) -> None:
        """Seldom collect garbage until everything has been listed, and never look again at what is there then
        (services/heap.py). It is of the whole Python process.
        """
        spare_filling()
        self.background("garbage", collect_while_filling)
        self.on_listed(freeze_heap)

    # ---- while it runs

    @property
    def leads(self) -> bool:
        """Whether this replica may act now."""
        return self._working and self.leadership.leading

    def standing(self) -> str:
        """What a person should know about its right to act; empty while it leads."""
        return "" if self.leads else f"not leading: {self.leadership.standing() or 'the work has not begun'}"

    def wake(self) -> None:
        """End the present or the next `sleep`; every delivery of a watch does."""
        self._awake.set()

    def turn(self) -> float:
        """A turn of the work's loop begins, now: earlier calls of `wake` are forgotten, so call it before looking at
        what may have changed. Work that begins none for `STUCK_S` is reported as hanging.
        """
        self._awake.clear()
        self._turned_s = now_s = self.now()
        return now_s

    def _stuck(self) -> str:
        silent_s = 0.0 if self._turned_s is None else self.now() - self._turned_s
        return f"the loop has not turned for {silent_s:.0f} s" if silent_s > STUCK_S else ""

    async def sleep(self, at_most_s: float) -> None:
        """Until `wake`, at most so long."""
        try:
            async with asyncio.timeout(at_most_s):
                await self._awake.wait()
        except TimeoutError:
            pass

    async def run(
        self,
        stop: asyncio.Event,
        work: Callable[[], Awaitable[None]],
        *,
        on_synced: Callable[[], None] = lambda: None,
    ) -> None:
        """Run until `stop` is set, doing `work` while leading. Raises the first error of a part, `RuntimeError`
        where one ended by itself.
        """
        tasks, servers_end = TaskSet(), asyncio.Event()
        async with AsyncExitStack() as stack:  # the stop: these steps run from the last to the first
            stack.push_async_callback(self.client.close)
            for callback in self._on_stop:
                stack.callback(callback)
            stack.push_async_callback(tasks.cancel)
            servers: list[asyncio.Task[None]] = []
            stack.push_async_callback(_end_servers, servers, servers_end)
            stack.push_async_callback(self.events.flush, FLUSH_S)

            tasks.start("watches", self._watch())
            tasks.start("events", self.events.run())
            for name, run in self._background.items():
                tasks.start(name, run())
            servers += [tasks.start(name, server.run(servers_end)) for name, server in self._servers.items()]
            leading = tasks.start("leadership", self._lead(work, on_synced))
            stack.push_async_callback(tasks.cancel, leading)
            await tasks.wait(stop)
            _log.info("stopping")

    async def _watch(self) -> None:
        for prepare in self._preparations:
            await prepare()
        await self.watches.run()

    async def _lead(self, work: Callable[[], Awaitable[None]], on_synced: Callable[[], None]) -> None:
        await self.watches.wait_synced()
        on_synced()
        for callback in self._on_listed:
            callback()
        while not await self.leadership.run(lambda: self._work(work), self.wake):
            pass

    async def _work(self, work: Callable[[], Awaitable[None]]) -> None:
        _log.info("%s leads", self.identity)
        self._working = True
        self._turned_s = self.now()
        try:
            await work()
        finally:
            self._turned_s = None
            if self.leads:
                await asyncio.gather(*(writer.flush(FLUSH_S) for writer in self._writers))
            self._working = False


async def _end_servers(servers: list[asyncio.Task[None]], end: asyncio.Event) -> None:
    """Let servers finish the requests under way; each bounds the time itself."""
    end.set()
    if servers:
        await asyncio.wait(servers)
