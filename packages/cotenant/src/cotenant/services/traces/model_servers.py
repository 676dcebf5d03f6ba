"""Reading the metrics of model servers, so that objectives are counted where no spans come.

Which servers, the operator of this process says in a file: an address out of a tenant's object could be anything that
this process reaches. Each server is read by itself every `PERIOD_S`, `_AT_ONCE` at a time, so a few slow ones delay no
other; one that fails is asked less often. Its counts are those of the namespace that the file gives it, as if a sender
had proven it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cotenant.engine.traces.objectives import TrackedObjectives
from cotenant.engine.traces.server_counts import ServerCounts
from cotenant.engine.traces.server_objectives import ServerObjectives
from cotenant.model.document import read_struct
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.traces.model_server import ModelServerReading
from cotenant.model.traces.spans import SpanSource
from cotenant.model.urls import split_url

PERIOD_S = 2.0
MAX_SERVERS = 500
_SLOWEST_S = 32.0  # between two tries of one that fails
_AT_ONCE = 8  # answers that are read and parsed at one time: each up to 8 MiB
_MAX_FILE_BYTES = 1 << 20
_log = logging.getLogger(__name__)

Read = Callable[[str], Awaitable[ModelServerReading]]


class ModelServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One replica. `service` is NAMESPACE/NAME; without `pod` no node can act for it."""

    service: str
    url: str
    pod: str = ""
    node: str = ""

    @property
    def source(self) -> SpanSource:
        """As whose counts they are counted."""
        namespace, _, name = self.service.partition("/")
        pod = self.pod or urlsplit(self.url).netloc.rpartition("@")[2]
        return SpanSource(name, namespace, pod, host=self.node, pod_namespace=namespace, sender=namespace)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    servers: list[ModelServer]


def read_servers(path: Path) -> tuple[ModelServer, ...]:
    """The file of `--model-servers`. Raises `InvalidInput`."""
    option = "--model-servers"
    try:
        text = path.read_bytes() if path.stat().st_size <= _MAX_FILE_BYTES else b""
    except OSError as error:
        raise InvalidInput(option, str(path), str(error.strerror or error)) from None
    found = read_struct(_File, text, f"{option} {path}", "servers: a list of service, url, pod and node").servers
    if not 1 <= len(found) <= MAX_SERVERS:
        raise InvalidInput(option, f"{len(found)} servers", f"1 to {MAX_SERVERS}")
    for server in found:
        namespace, slash, name = server.service.partition("/")
        if not (namespace and slash and name) or "/" in name:
            raise InvalidInput(f"{option}: service", server.service, "NAMESPACE/NAME")
        if split_url(server.url) is None:
            raise InvalidInput(f"{option}: url", server.url, "http://HOST:PORT/metrics")
    if len({server.url for server in found}) < len(found):
        raise InvalidInput(option, str(path), "each url once")
    return tuple(found)


class ModelServers(Collector):
    """Reads all of them. `now` gives Unix seconds."""

    def __init__(
        self,
        servers: tuple[ModelServer, ...],
        read: Read,
        objectives: TrackedObjectives,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._servers, self._read, self._now, self._sleep = servers, read, now, sleep
        self._counts = ServerCounts()
        self._objectives = ServerObjectives(objectives)
        self._last: dict[str, ModelServerReading] = {}
        self._said: dict[str, str] = {}
        self._reads = {"read": 0, "failed": 0, "invalid": 0}
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for server in self._servers:
                group.create_task(self._follow(server))

    async def _follow(self, server: ModelServer) -> None:
        wait_s = PERIOD_S
        while True:
            wait_s = PERIOD_S if await self.look(server) else min(wait_s * 2, _SLOWEST_S)
            await self._sleep(wait_s)

    async def look(self, server: ModelServer) -> bool:
        """Read one server once, and count; whether that succeeded."""
        self._counts.looks_at(server.url, self._now())
        if server.source.qualified_service not in self._objectives.wanted():
            return True
        outcome, why = "read", ""
        try:
            async with self._room:
                reading = await self._read(server.url)
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
        for server in self._servers:
            if (reading := self._last.get(server.url)) is None:
                continue
            of = (server.service, server.source.pod, reading.server)
            per_s = self._counts.tokens_per_s(server.url)
            for family, value in ((tokens, per_s), (running, reading.running), (waiting, reading.waiting)):
                if value is not None:
                    family.add_metric(of, value)
        yield from (tokens, running, waiting)
