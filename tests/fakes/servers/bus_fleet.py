"""A fleet of three processes on a real Docker daemon: nats-server, `fleet serve` and `fleet agent`, of which the last
two can be killed at a word on the bus.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fakes.servers.docker_fleet import Docker
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.waiting import INTERVAL_S, patience, soon

from cotenant.drivers.docker.client import DockerClient
from cotenant.drivers.nats.client import BusAccess, connect
from cotenant.drivers.nats.contract import Bus, BusMessage
from cotenant.drivers.nats.key_value import open_bucket
from cotenant.model.errors import CotenantError, Transient
from cotenant.model.fleet.group import GroupOutcome, GroupRecord
from cotenant.model.fleet.refusal import NobodyAnswers, Overdue
from cotenant.model.fleet.requests import List, Listed
from cotenant.services.fleet.controller.stored import FleetStore
from cotenant.services.fleet.operator import ANEW_S
from cotenant.services.fleet.rpc import call, new_key

CONTROLLER, AGENT = "serve", "agent"
STORED = "$KV.cotenant-fleet.group."


class BusFleet:
    """Use `begin` once, in the loop that uses it; `end` at last."""

    def __init__(self, docker: Docker, server: NatsServer, folder: Path, guid: str) -> None:
        self.docker, self.guid = docker, guid
        self._server, self._folder = server, folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._is_due: Callable[[BusMessage], bool] | None = None
        self._doomed = ""
        self._client: DockerClient
        self.bus: Bus
        self.store: FleetStore

    async def begin(self) -> None:
        self._client = DockerClient(self.docker.socket)
        self.bus = await connect(BusAccess(self._server.url, "test"), within_s=patience(30))
        self.store = FleetStore(await open_bucket(self.bus, "cotenant-fleet"))
        for subject in ("guid.*.rpc.*", f"{STORED}>"):
            await self.bus.subscribe(subject, self._heard)
        self.start(CONTROLLER)
        self.start(AGENT)
        await soon("the controller knows the agent and its runtime", self._is_ready)

    async def end(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            process.wait(patience(60))
        await self.bus.close()
        await self._client.close()

    def start(self, part: str) -> None:
        """Start it, where it does not run."""
        if part in self._processes:
            return
        command = [sys.executable, "-m", "cotenant", "fleet", part, "--bus", self._server.url]
        if part == AGENT:
            command += ["--guid", self.guid, "--docker", str(self.docker.socket)]
        state = ["--state-dir", str(self._folder / f"state-{part}")]
        with (self._folder / f"{part}.log").open("ab") as log:
            self._processes[part] = subprocess.Popen([*command, *state], stdout=log, stderr=log)

    def kill_when(self, part: str, is_due: Callable[[BusMessage], bool]) -> None:
        """SIGKILL at the first message of which this holds: a request to the agent, or a record that is stored."""
        self._doomed, self._is_due = part, is_due

    def was_killed(self) -> bool:
        """Whether it came to that."""
        return self._is_due is None

    async def ask(self, verb: str, request: object) -> GroupOutcome:
        """As an operator's command does, which is answered by whichever controller is there at the end; with more
        patience for one that is started anew.
        """
        key = new_key()
        while True:
            try:
                return await call(self.bus, f"fleet.test.rpc.{verb}", request, GroupOutcome, patience(60), key, ANEW_S)
            except (NobodyAnswers, Overdue, Transient):
                await asyncio.sleep(INTERVAL_S)

    async def record(self, group: str) -> GroupRecord | None:
        """The group as it is stored."""
        found = await self.store.group_now(group)
        return found.record if found is not None else None

    async def containers(self, group: str) -> list[dict[str, Any]]:
        """All of Docker's with the group's label, running or not."""
        filters = json.dumps({"label": [f"cotenant.io/group={group}"]})
        found: list[dict[str, Any]] = await self._client.get("/containers/json", {"all": "true", "filters": filters})
        return found

    async def starts(self, group: str) -> Counter[str]:
        """How often Docker started each of them, by appkey."""
        filters = json.dumps({"event": ["start"], "label": [f"cotenant.io/group={group}"]})
        parameters = {"since": "0", "until": str(int(time.time()) + 1), "filters": filters}
        lines = self._client.lines("GET", "/events", parameters, patience(30))
        return Counter([line["Actor"]["Attributes"]["cotenant.io/appkey"] async for line in lines])

    async def _heard(self, message: BusMessage) -> None:
        if self._is_due is not None and self._is_due(message):
            process = self._processes.pop(self._doomed)
            process.send_signal(signal.SIGKILL)
            self._is_due = None
            await asyncio.to_thread(process.wait)

    async def _is_ready(self) -> bool:
        try:
            listed = await call(self.bus, "fleet.test.rpc.list", List("", (), "", ""), Listed, 5.0)
        except CotenantError:
            return False
        beats = [host.beat for host in listed.hosts if host.registration.guid == self.guid]
        return any(beat and any(part.name == "containers" and part.is_on for part in beat.functions) for beat in beats)
