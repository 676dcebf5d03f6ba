"""Figures of the host and its containers: the most needed in each heartbeat, all when asked, and to a collector."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.otlp.collector import OtlpCollector
from cotenant.drivers.otlp.metric_encoding import EXPORT_PATH, encode_metrics
from cotenant.model.errors import CotenantError, Permanent, Transient
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.figures import ContainerFigures, HostFigures, Measure, Measured
from cotenant.services.fleet.functions.containers import ContainerFunction
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.functions.figure_table import resources
from cotenant.services.fleet.functions.meter import HostMeter
from cotenant.services.fleet.rpc import RpcVerb
from cotenant.services.running import cancelled

_log = logging.getLogger(__name__)
_EACH_S = 1.0
_RESTARTS_S = 10.0  # how often Docker is asked for restarts
_SEND_S = 15.0


class FigureFunction:
    """Implements `Function`."""

    name = "figures"

    def __init__(
        self, agent: str, containers: ContainerFunction, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._agent = agent
        self._containers = containers
        self._now = monotonic
        self._collector = ""
        self._meter: HostMeter | None = None
        self._host: HostFigures | None = None
        self._found: dict[str, ContainerFigures] = {}
        self._restarts: dict[str, int] = {}
        self._at_s = 0.0
        self._began_s = time.time()
        self._tasks: list[asyncio.Task[None]] = []
        self._sending_fault = ""
        self.fault = ""
        self.verbs: Mapping[str, RpcVerb] = {"measure": RpcVerb(Measure, self._measure)}

    def configure(self, configuration: AgentConfiguration) -> None:
        """As the Protocol."""
        self._collector = configuration.collector.rstrip("/")

    async def start(self) -> None:
        """As the Protocol."""
        try:
            self._meter = HostMeter()
        except CotenantError as error:
            self.fault = f"no figures: {error}"
            raise
        self._tasks = [
            asyncio.create_task(self._sample(self._meter), name="figures"),
            asyncio.create_task(self._count_restarts(), name="restarts"),
            asyncio.create_task(self._send(), name="sending figures"),
        ]

    async def stop(self) -> None:
        """As the Protocol."""
        await cancelled(self._tasks)
        if self._meter is not None:
            self._meter.close()
        self._meter, self._host = None, None
        self._found.clear()

    async def add_to(self, beat: Beat) -> None:
        """As the Protocol."""
        if self._host is not None:
            beat.load, beat.cpu_milli = self._host.load_1, self._host.cpu_milli
            beat.memory_bytes = self._host.memory_bytes
        for guid, found in self._found.items():
            if guid in beat.containers:
                beat.containers[guid] = replace(
                    beat.containers[guid], cpu_milli=found.cpu_milli, memory_bytes=found.memory_bytes
                )

    async def measured(self) -> Measured:
        """All that was measured last."""
        if self._host is None:
            raise Transient(self.fault or "nothing was measured yet")
        beat = Beat()
        await self._containers.add_to(beat)
        containers = [
            replace(
                self._found.get(guid) or ContainerFigures(guid),
                group=status.group,
                appkey=status.appkey,
                image=status.image,
                state=status.state.value,
                restarts=self._restarts.get(guid),
            )
            for guid, status in beat.containers.items()
        ]
        return Measured(self._agent, socket.gethostname(), self._at_s, self._host, tuple(containers))

    async def _measure(self, _: Measure, __: BusMessage) -> Measured:
        return await self.measured()

    async def _sample(self, meter: HostMeter) -> None:
        while True:
            began_s = self._now()
            try:
                reading = asyncio.create_task(asyncio.to_thread(meter.sample, self._containers.ids(), began_s))
                try:
                    self._host, self._found = await asyncio.shield(reading)
                    self._at_s = time.time()
                except asyncio.CancelledError:
                    await asyncio.gather(reading, return_exceptions=True)  # its files are closed next
                    raise
                self.fault = self._sending_fault
            except CotenantError as error:
                self.fault = str(error)
            await asyncio.sleep(max(0.05, _EACH_S - (self._now() - began_s)))

    async def _count_restarts(self) -> None:
        while True:
            counted: dict[str, int] = {}
            for guid in self._containers.guids():
                try:
                    found = await self._containers.inspected(guid)
                except CotenantError:
                    break
                if found is not None:
                    counted[guid] = found.restarts
            self._restarts = counted
            await asyncio.sleep(_RESTARTS_S if counted else _EACH_S)

    async def _send(self) -> None:
        while True:
            await asyncio.sleep(_SEND_S)
            if not self._collector:
                self._sending_fault = ""
                continue
            collector = OtlpCollector(self._collector)
            try:
                body = encode_metrics(resources(await self.measured(), self._began_s), "cotenant", time.time())
                await collector.send(EXPORT_PATH, body)
                self._sending_fault = ""
            except (Permanent, Transient) as error:
                self._sending_fault = str(error)
            finally:
                await collector.close()
