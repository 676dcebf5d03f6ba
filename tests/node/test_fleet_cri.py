"""Groups on a real containerd by CRI: all or none, the runtime's files, a terminal, health checks and restarts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.waiting import soon

pytest.importorskip("grpc")
from bench.containerd import IMAGE, NotHere, containerd

from cotenant.drivers.cri.client import CriClient
from cotenant.drivers.cri.containers import CriContainers
from cotenant.drivers.cri.making import making_messages
from cotenant.drivers.cri.messages import SERVICE
from cotenant.drivers.nats.file_store import FileStore
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import Transient
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.group import GroupOutcome
from cotenant.model.fleet.host import Registration
from cotenant.model.fleet.requests import Down, Up
from cotenant.model.fleet.states import ContainerState
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate, HealthCheck, Mount
from cotenant.model.fleet.terminals import WindowSize
from cotenant.services.fleet.agent.agent import FleetAgent
from cotenant.services.fleet.controller.asking import Asking
from cotenant.services.fleet.controller.controller import ControllerSettings, FleetController
from cotenant.services.fleet.functions.containers import ContainerFunction
from cotenant.services.fleet.functions.supervised_cri import SupervisedCri
from cotenant.services.fleet.rpc import call

pytestmark = pytest.mark.slow
OURS = "cotenant.io/agent=agent-a"
Ask = Callable[..., Awaitable[GroupOutcome]]


def one(appkey: str, *command: str, after: tuple[str, ...] = (), **more: object) -> ContainerTemplate:
    return ContainerTemplate(
        appkey,
        IMAGE,
        command,
        ("/busybox",),
        network="host",
        stop_grace_s=0,
        after=after,
        **more,  # type: ignore[arg-type]
    )


def checked(*words: str, timeout_s: float = 1.0, retries: int = 2) -> HealthCheck:
    return HealthCheck(("CMD", "/busybox", *words), 0.1, timeout_s, 0.0, retries)


def played(
    folder: Path, scene: Callable[[Ask, ContainerFunction, CriContainers, FleetController], Awaitable[None]]
) -> None:
    """On a containerd of the test's own, by an agent and a controller in this process."""

    async def play(socket: str) -> None:
        bus, store = MemoryBus(), FileStore(folder / "store")
        runtime = CriContainers(Path(socket), folder / "logs")
        function = ContainerFunction(
            "agent-a", folder, folder, opened=lambda: SupervisedCri(Path(socket), OURS, folder / "logs").begin()
        )
        registration = Registration("agent-a", "host-a", "0", cpu_milli=4000, memory_bytes=8 << 30)
        agent = FleetAgent(registration, bus, (function,), AgentConfiguration(heartbeat_s=0.1))
        controller = FleetController(bus, store, ControllerSettings(is_alone=True))
        tasks = [
            asyncio.create_task(agent.run(asyncio.Event())),
            asyncio.create_task(controller.run(Asking(controller).verbs(), asyncio.Event())),
        ]
        await soon("the agent's runtime is there", lambda: function.is_listed)
        await soon("it is heard", lambda: any(host.beat for host in controller.registry.hosts()))

        async def ask(verb: str, request: object) -> GroupOutcome:
            return await call(bus, f"fleet.local.rpc.{verb}", request, GroupOutcome, 120.0)

        try:
            await scene(ask, function, runtime, controller)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await runtime.close()
            await bus.close()
            store.close()

    try:
        with containerd(folder) as made:
            asyncio.run(play(made.socket))
    except NotHere as error:
        pytest.skip(str(error))


def test_a_group_runs_writes_its_logs_and_goes(tmp_path: Path) -> None:
    async def scene(ask: Ask, function: ContainerFunction, runtime: CriContainers, controller: FleetController) -> None:
        web = one("web", "sh", "-c", "echo $COTENANT_GUID $MODE; exec /busybox sleep 600", after=("store",))
        web = replace(web, environment={"MODE": "fast"}, cpu_limit_milli=500)
        outcome = await ask("up", Up(GroupTemplate("shop", (one("store", "sleep", "600"), web))))
        assert set(outcome.guids) == {"store", "web"}, outcome
        found = await runtime.inspect(outcome.guids["web"])
        assert found is not None
        assert (found.status, found.pid > 0, found.image) == ("running", True, IMAGE)
        said = f"stdout F {outcome.guids['web']} fast"
        await soon("it has written", lambda: Path(found.log_path).read_text().rstrip().endswith(said))

        def states() -> dict[str, ContainerState]:
            beats = [host.beat for host in controller.registry.hosts() if host.beat is not None]
            return {status.appkey: status.state for beat in beats for status in beat.containers}

        await soon("both are ready", lambda: states() == dict.fromkeys(("store", "web"), ContainerState.READY))
        again = await ask("up", Up(GroupTemplate("shop", (one("store", "sleep", "600"), web))))
        assert again.guids == outcome.guids
        line = await function.command(outcome.guids["web"], ("/busybox", "sh"), WindowSize(91, 33))
        await line.write(b"/busybox stty size; exit 7\n")
        shown = b""
        while data := await line.read(4096):
            shown += data
        assert b"33 91" in shown
        assert await line.exit_code() == 7
        await line.close()
        await ask("down", Down("shop"))
        assert await runtime.list("cotenant.io/agent=agent-a") == ()

    played(tmp_path, scene)


def test_what_fails_takes_all_back_and_says_why(tmp_path: Path) -> None:
    async def scene(ask: Ask, function: ContainerFunction, runtime: CriContainers, controller: FleetController) -> None:
        for broken, said in (
            (one("web", "sh", "-c", "exit 3", after=("store",)), "ended with status 3"),
            (
                one("web", "sh", "-c", "exit 3", restart="always"),
                "times; the last: ended with status 3",
            ),
            (
                one("web", "sleep", "9", health=checked("sleep", "30", retries=1)),
                "its health check fails: it took longer",
            ),
            (one("web", "sleep", "9", health=checked("sh", "-c", "echo bad; exit 1")), "its health check fails: bad"),
            (ContainerTemplate("web", "cotenant.test/none:1", network="host"), "image cotenant.test/none:1"),
        ):
            outcome = await ask("up", Up(GroupTemplate("shop", (one("store", "sleep", "600"), broken))))
            assert not outcome.guids
            assert said in outcome.reason
            assert await runtime.list("cotenant.io/agent=agent-a") == ()

    played(tmp_path, scene)


def test_one_is_ready_when_it_is_healthy_and_told_when_it_is_no_more(tmp_path: Path) -> None:
    async def scene(ask: Ask, function: ContainerFunction, runtime: CriContainers, controller: FleetController) -> None:
        store = one(
            "store",
            "sh",
            "-c",
            "/busybox sleep 1; >/ok; exec /busybox sleep 600",
            health=checked("test", "-e", "/ok", retries=1000),
        )
        web = one("web", "sleep", "600", after=("store",))
        up = asyncio.create_task(ask("up", Up(GroupTemplate("shop", (store, web)))))

        def shown() -> dict[str, tuple[ContainerState, str]]:
            beats = [host.beat for host in controller.registry.hosts() if host.beat is not None]
            return {status.appkey: (status.state, status.detail) for beat in beats for status in beat.containers}

        pending = (ContainerState.PENDING, "starting")
        await soon("the store is starting, web waits", lambda: shown() == {"store": pending, "web": (pending[0], "")})
        outcome = await up
        assert set(outcome.guids) == {"store", "web"}, outcome
        await soon("both are ready", lambda: {state for state, _ in shown().values()} == {ContainerState.READY})
        broken = replace(store, health=checked("test", "!", "-e", "/ok"), command=("sh", "-c", "/busybox sleep 600"))
        alone = await ask("up", Up(GroupTemplate("other", (broken,))))
        line = await function.command(alone.guids["store"], ("/busybox", "touch", "/ok"), WindowSize(80, 24))
        while await line.read(4096):
            pass
        await line.close()
        await soon("it is told", lambda: (ContainerState.PENDING, "unhealthy") in shown().values())
        for group in ("shop", "other"):
            await ask("down", Down(group))
        assert await runtime.list(OURS) == ()

    played(tmp_path, scene)


def test_one_that_ends_is_started_again_and_not_once_it_was_asked_to_stop(tmp_path: Path) -> None:
    async def scene(ask: Ask, function: ContainerFunction, runtime: CriContainers, controller: FleetController) -> None:
        web = one("web", "sh", "-c", "echo $COTENANT_GUID; exec /busybox sleep 600", restart="always")
        web = replace(web, cpu_limit_milli=500, environment={"MODE": "fast", "LONG": "x" * 50_000})
        guid = (await ask("up", Up(GroupTemplate("shop", (web,))))).guids["web"]
        for turn in (1, 2, 3):
            before = await function.process_of(guid)
            os.kill(before.pid, signal.SIGKILL)
            await soon("it runs again", partial(restarted, function, guid, turn))
        found = await function.process_of(guid)
        assert (found.restarts, found.exit_code) == (3, 128 + signal.SIGKILL)
        # A runtime says that it runs before the command has taken the place of what started it.
        await soon("its command runs, once", lambda: len(commands(guid)) == 1)
        await soon("each start has written", lambda: len(Path(found.log_path).read_text().splitlines()) == 4)
        lines = Path(found.log_path).read_text().splitlines()
        assert [line.split()[-1] for line in lines] == [guid] * 4
        variables = (Path("/proc") / str(found.pid) / "environ").read_bytes().split(b"\0")
        assert {b"MODE=fast", b"LONG=" + b"x" * 50_000} <= set(variables)
        await runtime.stop(guid)
        stopped = await function.inspected(guid)
        assert stopped is not None
        assert (stopped.status, commands(guid)) == ("exited", [])
        await ask("down", Down("shop"))
        assert await runtime.list(OURS) == ()

    played(tmp_path, scene)


@pytest.mark.parametrize(
    ("deaths", "least"),
    [
        ((("CreateContainer", "before"), ("CreateContainer", "after"), ("StartContainer", "after")), 5),
        ((("CreateContainer", "within"), ("StartContainer", "within")), 4),  # a start that is cut off may have failed
    ],
)
def test_restarts_of_failures_are_bounded_and_a_killed_agent_starts_none_twice(
    tmp_path: Path, deaths: tuple[tuple[str, str], ...], least: int
) -> None:
    """The agent dies at a step of a restart; the next one goes on."""

    async def play(socket: str) -> None:
        labels = {"cotenant.io/agent": "agent-a", "cotenant.io/guid": "web-1"}
        template = one("web", "sh", "-c", "echo it runs; exit 3", restart="on-failure", max_restarts=4)
        first = SupervisedCri(Path(socket), OURS, tmp_path / "logs")
        await first.create("web-1", template, {}, labels)
        await first.start("web-1")
        await first.close()
        for method, when in deaths:
            client = DyingClient(socket, kinds=making_messages)
            client.dies_at, client.dies = method, when
            agent = SupervisedCri(Path(socket), OURS, tmp_path / "logs", client=client).begin()
            await soon(f"killed at {method}", partial(getattr, client, "dead"))
            await agent.close()
        last = SupervisedCri(Path(socket), OURS, tmp_path / "logs").begin()
        await soon("it ended for the last time", partial(ended, last))
        found = await last.inspect("web-1")
        assert found is not None
        assert (found.restarts, found.exit_code) == (4, 3)
        assert least <= Path(found.log_path).read_text().count("it runs") <= 5
        await last.remove("web-1")
        await last.close()

    async def ended(agent: SupervisedCri) -> bool:
        found = await agent.inspect("web-1")
        return found is not None and found.status == "exited"

    try:
        with containerd(tmp_path) as made:
            asyncio.run(play(made.socket))
    except NotHere as error:
        pytest.skip(str(error))


async def restarted(function: ContainerFunction, guid: str, times: int) -> bool:
    found = await function.inspected(guid)
    return found is not None and (found.restarts, found.status) == (times, "running")


class DyingClient(CriClient):
    """Before, within or after this call its process is killed: no other reaches the runtime."""

    dies_at, dies, dead = "", "before", False

    def call(self, method: str, service: str = SERVICE, timeout_s: float = 0.0, **fields: object) -> Any:
        if self.dead:
            raise Transient("killed")
        is_last = method == self.dies_at
        self.dead = is_last and self.dies != "after"
        if self.dead and self.dies == "before":
            raise Transient("killed")
        answer = super().call(method, service, timeout_s, **fields)
        self.dead = self.dead or is_last
        if self.dead:
            raise Transient("killed")
        return answer


def test_a_pod_whose_maker_was_killed_is_seen_and_removed(tmp_path: Path) -> None:
    async def scene(ask: Ask, function: ContainerFunction, runtime: CriContainers, controller: FleetController) -> None:
        labels = {"cotenant.io/agent": "agent-a", "cotenant.io/guid": "web-1"}
        await runtime.create("web-1", one("web", "sleep", "600"), {}, labels)
        created = await runtime.inspect("web-1")
        assert created is not None
        assert created.status == "created"
        await asyncio.to_thread(runtime._client.call, "RemoveContainer", container_id=created.id)
        left = await runtime.inspect("web-1")
        assert left is not None
        assert (left.status, left.error) == ("dead", "its pod was made, and no container")
        assert [listed.status for listed in await runtime.list("cotenant.io/guid=web-1")] == ["dead"]
        await runtime.remove("web-1")
        await runtime.remove("web-1")
        await runtime.stop("web-1")
        assert await runtime.inspect("web-1") is None

    played(tmp_path, scene)


def test_a_terminal_that_is_closed_leaves_no_command_behind(tmp_path: Path) -> None:
    async def scene(ask: Ask, function: ContainerFunction, runtime: CriContainers, controller: FleetController) -> None:
        outcome = await ask("up", Up(GroupTemplate("shop", (one("web", "sleep", "600"),))))
        for command in (("sh",), ("sh", "-c", "trap '' HUP; while :; do /busybox sleep 1; done")):
            line = await function.command(outcome.guids["web"], ("/busybox", *command), WindowSize(80, 24))
            if len(command) == 1:
                await line.write(b"/busybox sleep 611\n")
                assert await line.read(4096)
            await soon("it runs", lambda: len(commands(outcome.guids["web"])) > 1)
            await line.close()
            await soon("only the container's own is left", lambda: len(commands(outcome.guids["web"])) == 1)
        await ask("down", Down("shop"))

    played(tmp_path, scene)


def commands(guid: str) -> list[str]:
    """What runs with this guid in its environment."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and f"COTENANT_GUID={guid}".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue  # it has ended
    return found


def test_folders_of_the_host_are_mounted_and_named_volumes_are_refused(tmp_path: Path) -> None:
    data = os.path.realpath(tmp_path) + "/data"
    Path(data).mkdir()
    Path(data, "in").write_text("hello\n")
    writes = "/busybox cat /a/in > /b/out; echo no > /a/in; echo > /b/ended; exec /busybox sleep 600"
    folders = (Mount(data, "/a", is_read_only=True), Mount(f"{data}/made", "/b", is_made=True))

    async def scene(ask: Ask, function: ContainerFunction, runtime: CriContainers, controller: FleetController) -> None:
        function.configure(AgentConfiguration(mount_paths=(data,)))
        outcome = await ask("up", Up(GroupTemplate("shop", (one("web", "sh", "-c", writes, mounts=folders),))))
        assert set(outcome.guids) == {"web"}, outcome
        ended = Path(data, "made", "ended")
        await soon("it has tried both", ended.exists)
        assert Path(data, "made", "out").read_text() == Path(data, "in").read_text() == "hello\n"
        await ask("down", Down("shop"))
        volume = one("web", "sleep", "600", mounts=(Mount("shop_data", "/a", is_volume=True),))

        async def refused() -> bool:
            try:
                outcome = await ask("up", Up(GroupTemplate("shop", (volume,))))
            except Transient:  # the controller has just begun
                return False
            return "create of web" in outcome.reason and "a runtime by CRI has no volumes of its own" in outcome.reason

        await soon("it is refused", refused)

    played(tmp_path, scene)
