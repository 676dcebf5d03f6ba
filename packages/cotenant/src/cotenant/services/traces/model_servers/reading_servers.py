"""Reading the metrics of model servers, so that objectives are counted where no spans come.

Each server is read by itself every `PERIOD_S`, `_AT_ONCE` at a time and `_AT_ONCE_OF_ONE` of a namespace, so a tenant's
slow ones delay no other's; one that fails is asked less often. Its counts are those of the namespace that the
operator's file gives it, as if a sender had proven it. Servers may come and go while it runs (`follow`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cotenant.drivers.modelserver.access import ScrapeAccess
from cotenant.engine.traces.objectives import TrackedObjectives
from cotenant.engine.traces.server_counts import ServerCounts
from cotenant.engine.traces.server_objectives import ServerObjectives
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.traces.model_server import ModelServerReading
from cotenant.services.traces.model_servers.server_file import ModelServer

PERIOD_S = 2.0
_SLOWEST_S = 32.0  # between two tries of one that fails
_AT_ONCE = 8  # answers that are read and parsed at one time: each up to 8 MiB
_AT_ONCE_OF_ONE = 4  # of one namespace
_log = logging.getLogger(__name__)

Read = Callable[[str, ScrapeAccess], Awaitable[ModelServerReading]]


class ModelServers(Collector):
    """Reads all of them. `now` gives Unix seconds."""

    def __init__(
        self,
        servers: Iterable[ModelServer],
        read: Read,
        objectives: TrackedObjectives,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._servers = {server.url: server for server in servers}
        self._read, self._now, self._sleep = read, now, sleep
        self._group: asyncio.TaskGroup | None = None
        self._following: dict[str, asyncio.Task[None]] = {}
        self._counts = ServerCounts()
        self._objectives = ServerObjectives(objectives)
        self._last: dict[str, ModelServerReading] = {}
        self._said: dict[str, str] = {}
        self._reads = {"read": 0, "failed": 0, "invalid": 0}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._rooms: dict[str, asyncio.Semaphore] = {}  # by namespace: those that the operator's file names

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for server in self._servers.values():
                self._begin(server)
            await asyncio.Event().wait()

    def follow(self, servers: Iterable[ModelServer]) -> None:
        """Read these from now on, and no others. What is known of one that goes on is kept; an address that another
        replica has taken over begins anew.
        """
        wanted = {server.url: server for server in servers}
        for url, server in list(self._servers.items()):
            if wanted.get(url) != server:
                self._end(server)
        for url, server in wanted.items():
            if url not in self._servers:
                self._servers[url] = server
                self._begin(server)

    def _begin(self, server: ModelServer) -> None:
        if self._group is not None:
            self._following[server.url] = self._group.create_task(self._follow(server))

    def _end(self, server: ModelServer) -> None:
        url = server.url
        del self._servers[url]
        if (task := self._following.pop(url, None)) is not None:
            task.cancel()
        self._last.pop(url, None)
        self._said.pop(url, None)
        self._counts.forget(url)
        self._objectives.gone(server.source)

    async def _follow(self, server: ModelServer) -> None:
        wait_s = PERIOD_S
        while True:
            wait_s = PERIOD_S if await self.read_once(server) else min(wait_s * 2, _SLOWEST_S)
            await self._sleep(wait_s)

    async def read_once(self, server: ModelServer) -> bool:
        """Read one server once, and count; whether that succeeded."""
        self._counts.looks_at(server.url, self._now())
        if server.source.qualified_service not in self._objectives.wanted():
            return True
        outcome, why = "read", ""
        try:
            async with self._room_of(server), self._room:
                reading = await self._read(server.url, server.access)
            now_s = self._now()
            self._last[server.url] = reading
            new = self._counts.take(server.url, reading, now_s)
            self._objectives.take(server.source, reading, new, now_s)
        except Transient as error:
            outcome, why = "failed", str(error)
        except InvalidInput as error:
            outcome, why = "invalid", str(error)
        self._reads[outcome] += 1
        if why:
            self._last.pop(server.url, None)
            self._objectives.failed(server.source, why, self._now())
        if why != self._said.get(server.url, ""):
            self._said[server.url] = why
            _log.warning("model server %s of %s: %s", server.source.pod, server.service, why or "is read again")
        return not why

    def _room_of(self, server: ModelServer) -> asyncio.Semaphore:
        return self._rooms.setdefault(server.source.namespace, asyncio.Semaphore(_AT_ONCE_OF_ONE))

    def collect(self) -> Iterator[Metric]:
        """Outcomes of reading, and what servers say of themselves."""
        reads = CounterMetricFamily("cotenant_model_server_reads", "Readings of model servers.", labels=("outcome",))
        for outcome, count in self._reads.items():
            reads.add_metric((outcome,), count)
        yield reads
        yield CounterMetricFamily(
            "cotenant_model_server_restarts", "Restarts of model servers.", value=self._counts.restarts
        )
        labels = ("service", "pod", "server")
        tokens = GaugeMetricFamily(
            "cotenant_model_server_tokens_per_second", "Generated tokens between two readings.", labels=labels
        )
        running = GaugeMetricFamily("cotenant_model_server_running", "Requests that it works on.", labels=labels)
        waiting = GaugeMetricFamily("cotenant_model_server_waiting", "Requests in its queue.", labels=labels)
        for server in self._servers.values():
            if (reading := self._last.get(server.url)) is None:
                continue
            of = (server.service, server.source.pod, reading.server)
            per_s = self._counts.tokens_per_s(server.url)
            for family, value in ((tokens, per_s), (running, reading.running), (waiting, reading.waiting)):
                if value is not None:
                    family.add_metric(of, value)
        yield from (tokens, running, waiting)
