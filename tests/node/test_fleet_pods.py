"""A terminal into a pod of a real containerd, as a kubelet made it, through a controller and the node's agent."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from tests.fakes.waiting import soon

pytest.importorskip("grpc")
from bench.containerd import NotHere, Runtime, containerd, remove_everywhere

from cotenant.drivers.cri.exec import beside
from cotenant.drivers.nats.file_store import FileStore
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.host import Registration
from cotenant.model.fleet.terminals import (
    EXEC,
    READ,
    WRITE,
    OpenedTerminal,
    OpenTerminal,
    ReadTerminal,
    TerminalPage,
    WindowSize,
    WriteTerminal,
    WrittenTerminal,
)
from cotenant.services.fleet.agent.agent import FleetAgent
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import ControllerSettings, FleetController
from cotenant.services.fleet.functions.containers import ContainerFunction
from cotenant.services.fleet.functions.terminals.function import TerminalFunction
from cotenant.services.fleet.rpc import call
from cotenant.services.running import cancelled

pytestmark = pytest.mark.slow
POD = "shop/web-1/app"
SHELL = ("/busybox", "sh")


class Seat:
    """One operator at a terminal."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus, self.session, self.shown, self.last = bus, "", b"", TerminalPage(0, b"")

    async def open(self, pod: str, command: tuple[str, ...]) -> None:
        request = OpenTerminal(pod, command, WindowSize(91, 33))
        self.session = (await call(self._bus, f"fleet.local.rpc.{EXEC}", request, OpenedTerminal, 60.0)).session

    async def type(self, data: bytes, ends: bool = False) -> None:
        request = WriteTerminal(POD, self.session, data, ends=ends)
        await call(self._bus, f"fleet.local.rpc.{WRITE}", request, WrittenTerminal, 60.0)

    async def until(self, wanted: bytes) -> None:
        while wanted not in self.shown and not self.last.is_over:
            await self._read()
        assert wanted in self.shown

    async def to_its_end(self) -> None:
        while not self.last.is_over:
            await self._read()

    async def _read(self) -> None:
        request = ReadTerminal(POD, self.session, len(self.shown), 5.0)
        self.last = await call(self._bus, f"fleet.local.rpc.{READ}", request, TerminalPage, 60.0)
        self.shown += self.last.data


def test_a_shell_in_a_pod_is_found_by_name_recorded_and_hung_up(tmp_path: Path) -> None:
    parent = f"cotenant-test-{os.getpid()}/pods"

    async def play(runtime: Runtime, container: str) -> None:
        bus, store = MemoryBus(), FileStore(tmp_path / "store")
        containers = ContainerFunction("agent-a", tmp_path / "no-docker", tmp_path)
        terminals = TerminalFunction(containers, tmp_path)
        settings = AgentConfiguration(functions=("terminals",), heartbeat_s=0.1, pod_runtime=runtime.socket)
        agent = FleetAgent(Registration("agent-a", "node-a", "0"), bus, (containers, terminals), settings)
        controller = FleetController(bus, store, ControllerSettings(is_alone=True))
        running = [
            asyncio.create_task(agent.run(asyncio.Event())),
            asyncio.create_task(controller.run(Asking(controller).verbs(), asyncio.Event())),
        ]
        try:
            await soon("it is heard", lambda: any(host.beat for host in controller.registry.hosts()))
            seat = Seat(bus)
            await seat.open(POD, SHELL)
            await seat.type(b"/busybox stty size; echo $WHERE; exit 7\n")
            await seat.to_its_end()
            assert b"33 91" in seat.shown
            assert b"in the pod" in seat.shown
            assert seat.last.exit_code == 7
            first = runtime.ask("ContainerStatus", container_id=container, verbose=True).info["info"]
            process = json.loads(first)["pid"]
            stubborn = Seat(bus)
            await stubborn.open(
                "web-1", (*SHELL, "-c", "trap '' HUP; echo re''ady; while :; do /busybox sleep 1; done")
            )
            await stubborn.until(b"ready")
            assert len(beside(process)) > 1
            await stubborn.type(b"", ends=True)
            await soon("only the container's own is left", lambda: beside(process) == {process})
            lines = [json.loads(line) for line in (tmp_path / "terminals/journal.jsonl").read_text().splitlines()]
            assert {line["guid"] for line in lines if line["what"] == "opened"} == {POD}
        finally:
            await cancelled(running)
            await bus.close()
            store.close()

    try:
        with containerd(tmp_path) as runtime:
            pod = runtime.pod("uid-1", "web-1", parent, {"io.kubernetes.pod.namespace": "shop"}, {})
            container = runtime.container(pod, {}, name="app", variables={"WHERE": "in the pod"})
            runtime.start(container)
            asyncio.run(play(runtime, container))
    except NotHere as error:
        pytest.skip(str(error))
    finally:
        remove_everywhere(parent)
