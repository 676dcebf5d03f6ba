"""A terminal at a stand-in of CRI-O, as its documents say it works: the runtime serves the stream itself, and a
command's process is a child of the `runc exec` beside it, not of the process that watches the container.

Source: CRI-O, server/container_status.go (the verbose `info` with `pid`), internal/oci/runtime_oci.go (exec).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.fakes.waiting import patience, soon

from cotenant.drivers.cri import exec as cri_exec
from cotenant.drivers.cri.client import ContainerLimits, CriClient
from cotenant.drivers.cri.commands import CriCommands
from cotenant.drivers.cri.exec import beside
from cotenant.drivers.cri.messages import SERVICE
from cotenant.model.errors import Permanent, Transient

# The container is this process's own groups, so another worker's command must not look like these.
SLEEP = ("sleep", f"600.{os.getpid()}")
STUBBORN = ("sh", "-c", f"trap '' HUP; while :; do sleep 1.{os.getpid()}; done")
BETWEEN = ("sh", "-c", '"$@"; true', "runc")  # runc exec, which waits for its child


class Crio(CriClient):
    """Of one container, whose first process is `first`. The stream's side starts commands, and ends none."""

    def __init__(self, first: int) -> None:
        super().__init__("/run/crio/crio.sock")
        self.first, self.url, self.started = first, "", list[subprocess.Popen[bytes]]()
        self.sizes: list[dict[str, int]] = []

    def limits(self, container_id: str) -> ContainerLimits:
        return ContainerLimits(self.first, None, None, None)

    def call(self, method: str, service: str = SERVICE, timeout_s: float = 0.0, **fields: object) -> Any:
        if method == "Version":
            return None
        assert (method, fields["tty"]) == ("Exec", True)
        if fields["container_id"] != "c0ffee":
            raise Transient("ExecSync: container is not running")
        command: Any = fields["cmd"]
        self.started.append(subprocess.Popen([*BETWEEN, *command], start_new_session=True))
        return type("ExecResponse", (), {"url": self.url})

    async def stream(self, request: web.Request) -> web.WebSocketResponse:
        line = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await line.prepare(request)
        async for message in line:
            if message.type is aiohttp.WSMsgType.BINARY and message.data[:1] == b"\x04":
                self.sizes.append(json.loads(message.data[1:]))
        return line


@pytest.fixture
def crio() -> Iterator[Crio]:
    with subprocess.Popen(SLEEP) as first:
        made = Crio(first.pid)
        yield made
        for process in made.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        first.kill()


def played(crio: Crio, scene: Callable[[CriCommands], Awaitable[None]]) -> None:
    async def play() -> None:
        application = web.Application()
        application.add_routes([web.get("/exec/token", crio.stream)])
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        crio.url = f"http://127.0.0.1:{runner.addresses[0][1]}/exec/token"
        try:
            await scene(CriCommands(crio))
        finally:
            await runner.cleanup()

    asyncio.run(play())


@pytest.mark.slow
@pytest.mark.parametrize("command", [SLEEP, STUBBORN])
def test_what_runs_beside_the_container_s_first_process_is_hung_up(
    crio: Crio, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cri_exec, "_FOUND_S", patience(2))

    async def scene(commands: CriCommands) -> None:
        before = beside(crio.first)
        line = await commands.open("c0ffee", command, 91, 33)
        await soon("its window is known", lambda: crio.sizes == [{"Width": 91, "Height": 33}])
        assert len(beside(crio.first) - before) >= 2  # the one between, and its child
        await line.close()
        await asyncio.to_thread(crio.started[0].wait, patience(60))  # its child has ended

    played(crio, scene)


def test_what_the_runtime_refuses_is_said(crio: Crio) -> None:
    async def scene(commands: CriCommands) -> None:
        with pytest.raises(Permanent, match="container is not running"):
            await commands.open("other", SLEEP, 80, 24)

    played(crio, scene)
