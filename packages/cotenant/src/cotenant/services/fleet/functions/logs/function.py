"""Logs of this host's containers and pods: followed, kept in memory within bounds, searched, sent to a collector.

Lines that are in the ring of a log are also in the runtime's file; so after a restart the rings are filled again from
there, and the collector gets what it has not got yet: each line once, or twice where the agent was killed between the
collector's answer and the note of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cotenant.drivers.logs.patterns import searcher
from cotenant.drivers.logs.pods import PodLog, pod_logs
from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.otlp.collector import OtlpCollector
from cotenant.drivers.otlp.log_encoding import EXPORT_PATH
from cotenant.engine.logs.log_page import LogReading
from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.containers import FleetContainer
from cotenant.model.fleet.logs import FindLogs, FoundLogs, LogPage, LogPlace, ReadLogs
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.services.fleet.functions.containers import ContainerFunction
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.functions.logs.kept import KeptLog, LogFile
from cotenant.services.fleet.functions.logs.positions import Positions
from cotenant.services.fleet.functions.logs.sending import next_batch
from cotenant.services.fleet.rpc import RpcVerb
from cotenant.services.running import cancelled

_log = logging.getLogger(__name__)
_POLL_S, _FIND_S, _STORE_S, _SEND_S = 0.2, 2.0, 2.0, 1.0
_AGAIN_S = 5.0
_KEPT_S = 900.0  # the log of a container that is gone
_MAX_LOGS = 500
_MAX_WAIT_S = 20.0
_WHOLE = 1 << 62  # a file that came while the agent ran is read from its beginning


class LogFunction:
    """Implements `Function`."""

    name = "logs"

    def __init__(
        self, agent: str, containers: ContainerFunction, state_dir: Path, now: Callable[[], float] = time.time
    ) -> None:
        self._agent = agent
        self._containers = containers
        self._file = state_dir / "log-positions.json"
        self._now = now
        self._settings = AgentConfiguration()
        self._positions: Positions | None = None
        self._logs: dict[str, KeptLog] = {}  # by the first name
        self._tasks: list[asyncio.Task[None]] = []
        self._is_settled = False  # what was there before the agent has been found
        self._sending_fault = ""
        self.fault = ""
        self.verbs: Mapping[str, RpcVerb] = {
            "logs": RpcVerb(ReadLogs, self._read),
            "find-logs": RpcVerb(FindLogs, self._find),
        }

    def configure(self, configuration: AgentConfiguration) -> None:
        """As the Protocol. New sizes hold for logs that begin from now on."""
        self._settings = configuration

    async def start(self) -> None:
        """As the Protocol."""
        self._positions = Positions(self._file)
        self._tasks = [
            asyncio.create_task(self._follow(), name="logs"),
            asyncio.create_task(self._send(), name="sending logs"),
        ]

    async def stop(self) -> None:
        """As the Protocol."""
        await cancelled(self._tasks)
        self._store()
        for log in self._logs.values():
            log.close()
        self._logs.clear()
        self._positions, self._is_settled = None, False

    async def add_to(self, beat: Beat) -> None:
        """As the Protocol."""
        faults = [f"{log.names[0]}: {log.fault}" for log in self._logs.values() if log.fault]
        self.fault = self._sending_fault or "; ".join(faults[:3])

    # ---- readers

    async def _find(self, request: FindLogs, _: BusMessage) -> FoundLogs:
        return FoundLogs(tuple(log.names[0] for log in self._logs.values() if request.name in log.names))

    async def _read(self, request: ReadLogs, _: BusMessage) -> LogPage:
        matches = searcher(request.grep)
        if request.tail is not None and request.tail < 0:
            raise InvalidInput("tail", request.tail, "0 or more")
        log = self._named(request.guid)
        until_s = self._now() + min(request.wait_s, _MAX_WAIT_S)
        reading = LogReading(log.ring, log.ring_id, request, matches)
        while True:
            while not reading.step():
                await asyncio.sleep(0)
            if not reading.is_empty or self._now() >= until_s:
                return reading.page(log.lost)
            await asyncio.sleep(_POLL_S)

    def _named(self, name: str) -> KeptLog:
        found = [log for log in self._logs.values() if name in log.names]
        if not found:
            raise NoSuchGuid(f"this host has no log of {name}")
        if len(found) > 1:
            names = ", ".join(log.names[0] for log in found)
            raise InvalidInput("guid", name, f"one of {names}", "several have this name")
        if found[0].fault and not len(found[0].ring):
            raise Unsupported(f"the log of {name}", found[0].fault)
        return found[0]

    # ---- following

    async def _follow(self) -> None:
        find_s = store_s = 0.0
        while True:
            now_s = time.monotonic()
            try:
                if now_s >= find_s:
                    find_s = now_s + _FIND_S
                    await self._find_all()
                    self._is_settled = self._is_settled or self._containers.is_listed
                if not await self._take():
                    await asyncio.sleep(_POLL_S)
                if now_s >= store_s:
                    store_s = now_s + _STORE_S
                    self._store()
            except CotenantError as error:
                self._sending_fault = str(error)
                await asyncio.sleep(1.0)

    async def _take(self) -> bool:
        """One round over all files; whether more is there."""
        is_more, now_s = False, self._now()
        for log in list(self._logs.values()):
            for source in list(log.sources.values()):
                is_more |= source.poll()
                log.fault = source.fault
                await asyncio.sleep(0)
            log.ring.expire(now_s)
        return is_more

    async def _find_all(self) -> None:
        there: set[str] = set()
        for guid in self._containers.guids():
            there.add(guid)
            if guid not in self._logs:
                try:
                    found = await self._containers.inspected(guid)
                except CotenantError as error:
                    _log.debug("log of %s: %s", guid, error)
                    continue
                if found is not None and found.started_s:
                    self._add_container(guid, found)
        for pod in await asyncio.to_thread(pod_logs, Path(self._settings.pod_logs)):
            there.add(self._add_pod(pod))
        now_s = self._now()
        for name, log in list(self._logs.items()):
            log.gone_s = None if name in there else log.gone_s or now_s
            if log.gone_s is not None and (now_s - log.gone_s > _KEPT_S or not len(log.ring)):
                log.close()
                del self._logs[name]

    def _add_container(self, guid: str, found: FleetContainer) -> None:
        attributes = {
            "service.instance.id": guid,
            "service.name": found.labels.get("cotenant.io/appkey", found.name),
            "container.id": found.id,
            "container.name": found.name,
            "host.id": self._agent,
        }
        log = self._add((guid,), attributes)
        if log is None:
            return
        if found.log_path and found.log_driver in ("", "json-file", "k8s-file"):
            self._open(log, found.log_id or found.id, Path(found.log_path))
        else:
            log.fault = f"a log driver that writes files (json-file, k8s-file), not {found.log_driver or 'none'}"

    def _add_pod(self, pod: PodLog) -> str:
        name = f"{pod.namespace}/{pod.pod}"
        attributes = {
            "k8s.namespace.name": pod.namespace,
            "k8s.pod.name": pod.pod,
            "k8s.pod.uid": pod.uid,
            "host.id": self._agent,
        }
        log = self._logs.get(name) or self._add((name, pod.pod), attributes)
        key = f"{pod.uid}/{pod.container}/{pod.path.name}"
        if log is not None and key not in log.sources:
            self._open(log, key, pod.path)
        return name

    def _add(self, names: tuple[str, ...], attributes: Mapping[str, str]) -> KeptLog | None:
        if len(self._logs) >= _MAX_LOGS:
            self._sending_fault = f"more than {_MAX_LOGS} logs: the others are not followed"
            return None
        log = KeptLog(names, attributes, self._settings.log_ring_bytes, self._settings.log_age_s)
        self._logs[names[0]] = log
        return log

    def _open(self, log: KeptLog, key: str, path: Path) -> None:
        place = self._positions.get(key) if self._positions is not None else None
        backlog_bytes = _WHOLE if self._is_settled and place is None else self._settings.log_ring_bytes
        log.sources[key] = LogFile(key, path, log.ring, place, backlog_bytes)

    def _store(self) -> None:
        if self._positions is None:
            return
        places: dict[str, LogPlace] = {}
        for source in self._sources():
            place = source.sent if self._settings.collector else source.stream.place
            if place is not None:
                places[source.key] = place
        try:
            self._positions.store(places)
        except OSError as error:
            raise Transient(f"{self._file} cannot be written: {error.strerror}") from error

    def _sources(self) -> Iterator[LogFile]:
        for log in self._logs.values():
            yield from log.sources.values()

    # ---- sending

    async def _send(self) -> None:
        collector: OtlpCollector | None = None
        try:
            while True:
                url = self._settings.collector.rstrip("/")
                if collector is not None and collector.url != url:
                    await collector.close()
                    collector = None
                if url and collector is None:
                    collector = OtlpCollector(url)
                await asyncio.sleep(await self._send_all(collector) if collector is not None else _SEND_S)
        finally:
            if collector is not None:
                await collector.close()

    async def _send_all(self, collector: OtlpCollector) -> float:
        """Send what is there; how long to wait then."""
        while (batch := next_batch(self._logs.values())) is not None:
            try:
                await collector.send(EXPORT_PATH, batch.body)
            except Permanent as error:  # sent again, it would be refused again
                self._sending_fault = str(error)
            except Transient as error:
                self._sending_fault = str(error)
                return _AGAIN_S
            else:
                self._sending_fault = ""
            batch.was_sent()
        self._store()
        return _SEND_S
