"""An agent's verbs about containers, on a runtime in memory: each may be asked again, and what is there decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.node.memory_runtime import MemoryRuntime
from tests.fakes.virtual_time import run_virtually

from cotenant.drivers.nats.contract import BusMessage
from cotenant.model.errors import Permanent, Transient
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.group import ContainerStep, PlannedContainer
from cotenant.model.fleet.host import HostContainer
from cotenant.model.fleet.refusal import Fenced, NoSuchGuid
from cotenant.model.fleet.requests import Fence, Inspect, Make, Move, Survey
from cotenant.model.fleet.states import ContainerState
from cotenant.model.fleet.template import ContainerTemplate, Mount
from cotenant.services.fleet.functions import labels as names
from cotenant.services.fleet.functions.containers import ContainerFunction
from cotenant.services.fleet.functions.contract import Beat

WEB = ContainerTemplate("web", "image", cpu_milli=1000, memory_bytes=1 << 30)


class Host:
    """The function of agent a over a runtime, with the group's epoch at 5."""

    def __init__(self, folder: Path) -> None:
        self.runtime = MemoryRuntime()
        self.folder = folder
        self.function = self.made()

    def made(self) -> ContainerFunction:
        now = asyncio.get_running_loop().time
        return ContainerFunction("a", Path("/none"), self.folder, now, lambda: self.runtime)  # type: ignore[arg-type, return-value]

    async def ask(self, verb: str, request: object) -> Any:
        return await self.function.verbs[verb].handle(request, BusMessage(f"guid.a.rpc.{verb}"))

    async def make(self, verb: str, guid: str = "web-1", epoch: int = 5, **template: Any) -> ContainerStep:
        planned = PlannedContainer(guid, "a", replace(WEB, **template))
        step: ContainerStep = (await self.ask(verb, Make(Fence("shop", epoch), planned))).step
        return step

    async def move(self, verb: str, guid: str = "web-1", epoch: int = 5) -> ContainerStep:
        step: ContainerStep = (await self.ask(verb, Move(Fence("shop", epoch), guid))).step
        return step

    async def survey(self, group: str = "shop", epoch: int = 5) -> Mapping[str, ContainerStep]:
        steps: Mapping[str, ContainerStep] = (await self.ask("survey", Survey(Fence(group, epoch)))).steps
        return steps

    async def beat(self) -> dict[str, HostContainer]:
        beat = Beat()
        await self.function.add_to(beat)
        return beat.containers


def played(folder: Path, scene: Callable[[Host], Awaitable[None]]) -> None:
    async def play() -> None:
        host = Host(folder)
        await host.function.start()
        try:
            await scene(host)
        finally:
            await host.function.stop()

    run_virtually(play())


def test_a_container_from_its_room_to_its_end_each_step_asked_twice(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        for _ in range(2):
            assert await host.make("reserve") is ContainerStep.RESERVED
        assert dict(await host.survey()) == {"web-1": ContainerStep.RESERVED}
        assert dict(await host.survey("other")) == {}
        for _ in range(2):
            assert await host.make("create") is ContainerStep.CREATED
        assert await host.make("reserve") is ContainerStep.CREATED
        for _ in range(2):
            assert await host.move("start") is ContainerStep.RUNNING
        assert await host.move("probe") is ContainerStep.READY
        assert dict(await host.survey()) == {"web-1": ContainerStep.RUNNING}
        for _ in range(2):
            assert await host.move("stop") is ContainerStep.ENDED
        for _ in range(2):
            assert await host.move("remove") is ContainerStep.ABSENT
        assert await host.move("stop") is ContainerStep.ABSENT
        assert dict(await host.survey()) == {}
        assert host.runtime.did == [
            "create web-1",
            "start web-1",
            "stop web-1",
            "stop web-1",
            "remove web-1",
            "stop web-1",
        ]

    played(tmp_path, scene)


def test_what_a_container_is_made_with(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        host.function.configure(AgentConfiguration(environment={"REGION": "eu", "A": "agent"}))
        planned = PlannedContainer("web-1", "a", replace(WEB, environment={"A": "own"}))
        await host.ask("create", Make(Fence("shop", 5), planned, "secret"))
        assert host.runtime.environments["web-1"] == {
            "REGION": "eu",
            "A": "own",
            "COTENANT_GUID": "web-1",
            "OTEL_SERVICE_NAME": "web",
            "COTENANT_CREDENTIALS": "secret",
            "OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=web-1",
        }
        found = host.runtime.there["web-1"].labels
        assert (found[names.GROUP], found[names.AGENT], found[names.CPU]) == ("shop", "a", "1000")

    played(tmp_path, scene)


def test_room_is_kept_for_what_is_reserved_and_given_back(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        await host.make("reserve", "web-1")
        await host.make("create", "web-2", appkey="other")
        with pytest.raises(Permanent, match="requests 1 CPUs, 0 are free"):
            await host.make("reserve", "web-3", appkey="third")
        with pytest.raises(Permanent, match="requests 1 CPUs, 0 are free"):
            await host.make("create", "web-3", appkey="third")
        assert await host.move("release", "web-1") is ContainerStep.ABSENT
        await host.make("reserve", "web-3", appkey="third")
        assert dict(await host.survey()) == {"web-2": ContainerStep.CREATED, "web-3": ContainerStep.RESERVED}

    played(tmp_path, scene)


def test_of_a_group_there_is_one_container_of_a_kind_and_no_strange_one_is_touched(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        await host.make("create")
        with pytest.raises(Permanent, match="web of group shop is here already, as web-1"):
            await host.make("create", "web-2")
        host.runtime.there["alien"] = replace(host.runtime.there["web-1"], name="alien", labels={names.AGENT: "b"})
        with pytest.raises(Permanent, match="a container that is not of this fleet has the name alien"):
            await host.make("create", "alien", appkey="other")
        with pytest.raises(NoSuchGuid, match="no container of this host has the guid alien"):
            await host.move("start", "alien")
        assert await host.move("remove", "alien") is ContainerStep.ABSENT
        assert "alien" in host.runtime.there
        assert dict(await host.survey()) == {"web-1": ContainerStep.CREATED}

    played(tmp_path, scene)


def test_while_an_image_is_pulled_the_container_counts_as_reserved(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        host.runtime.go.clear()
        making = asyncio.create_task(host.make("create"))
        await asyncio.sleep(1000.0)  # longer than room is kept
        assert dict(await host.survey()) == {"web-1": ContainerStep.RESERVED}
        assert dict(await host.survey("other")) == {}
        host.runtime.go.set()
        assert await making is ContainerStep.CREATED
        assert dict(await host.survey()) == {"web-1": ContainerStep.CREATED}

    played(tmp_path, scene)


@pytest.mark.parametrize("verb", ["reserve", "create"])
def test_what_may_not_be_mounted_is_refused_before_anything_is_kept(tmp_path: Path, verb: str) -> None:
    async def scene(host: Host) -> None:
        (tmp_path / "data").mkdir()
        mounts = (Mount(str(tmp_path / "data"), "/data"),)
        with pytest.raises(Permanent, match="may not be mounted"):
            await host.make(verb, mounts=mounts)
        assert dict(await host.survey()) == {}
        host.function.configure(AgentConfiguration(mount_paths=(str(tmp_path),)))
        await host.make(verb, mounts=mounts)
        if verb == "create":
            assert host.runtime.templates["web-1"].mounts == (
                replace(mounts[0], source=str((tmp_path / "data").resolve())),
            )

    played(tmp_path, scene)


@pytest.mark.parametrize("verb", ["start", "probe", "stop", "remove", "release", "survey", "reserve", "create"])
def test_a_controller_that_lost_the_group_is_refused_also_after_a_restart(tmp_path: Path, verb: str) -> None:
    async def scene(host: Host) -> None:
        await host.make("create")
        await host.survey(epoch=9)
        await host.function.stop()
        host.function = host.made()
        await host.function.start()
        asked = {"survey": host.survey, "reserve": partial(host.make, verb), "create": partial(host.make, verb)}
        with pytest.raises(Fenced):
            await asked.get(verb, partial(host.move, verb))(epoch=8)
        assert host.runtime.did == ["create web-1"]

    played(tmp_path, scene)


async def running(host: Host, **changes: Any) -> None:
    await host.make("create")
    await host.move("start")
    host.runtime.put("web-1", **changes)


def test_without_a_check_a_container_is_ready_once_it_ran_for_a_moment(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        await running(host)
        began_s = asyncio.get_running_loop().time()
        assert await host.move("probe") is ContainerStep.READY
        assert 0.5 <= asyncio.get_running_loop().time() - began_s < 0.8

    played(tmp_path, scene)


def test_with_a_check_it_is_ready_when_that_says_so(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        await running(host, health="starting")
        asked = asyncio.create_task(host.move("probe"))
        await asyncio.sleep(60.0)
        assert not asked.done()
        host.runtime.put("web-1", health="healthy")
        assert await asked is ContainerStep.READY

    played(tmp_path, scene)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"health": "unhealthy", "health_said": "no answer"}, "its health check fails: no answer"),
        ({"health": "unhealthy"}, "its health check fails: without a word"),
        ({"restarts": 2, "exit_code": 3}, "it ended and was restarted 2 times; the last: ended with status 3"),
        ({"status": "exited", "exit_code": 3, "error": "no such file"}, "ended with status 3: no such file"),
        ({"status": "dead", "exit_code": 137, "out_of_memory": True}, "ended with status 137, out of memory"),
    ],
)
def test_a_container_that_will_not_be_ready_says_why(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    async def scene(host: Host) -> None:
        await running(host, **changes)
        with pytest.raises(Permanent) as refused:
            await host.move("probe")
        assert str(refused.value) == said

    played(tmp_path, scene)


def test_one_that_restarts_is_not_steady(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        await running(host, status="restarting")
        asked = asyncio.create_task(host.move("probe"))
        await asyncio.sleep(5.0)
        assert not asked.done()
        asked.cancel()
        with pytest.raises(NoSuchGuid):
            await host.move("probe", "nothing")

    played(tmp_path, scene)


def test_a_container_that_ended_is_not_started_again_by_a_repeated_request(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        await running(host, status="exited", exit_code=1)
        assert await host.move("start") is ContainerStep.ENDED
        assert host.runtime.did == ["create web-1", "start web-1"]

    played(tmp_path, scene)


def test_heartbeats_follow_the_runtime_and_say_what_is_on_its_way_out(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        await running(host)
        await asyncio.sleep(2.0)
        seen = (await host.beat())["web-1"]
        assert (seen.state, seen.group, seen.appkey, seen.image) == (ContainerState.READY, "shop", "web", "image")
        assert (seen.cpu_request_milli, seen.memory_request_bytes) == (1000, 1 << 30)
        assert host.function.ids() == {"web-1": host.runtime.there["web-1"].id}
        host.runtime.put("web-1", status="exited", exit_code=4)
        assert (await host.beat())["web-1"].state is ContainerState.READY  # nobody said anything
        host.runtime.changed.set()
        await asyncio.sleep(0.1)
        ended = (await host.beat())["web-1"]
        assert (ended.state, ended.detail) == (ContainerState.FAILED, "ended with status 4")
        assert (host.function.ids(), host.function.guids()) == ({}, ("web-1",))
        await host.move("stop")
        await asyncio.sleep(2.0)
        assert (await host.beat())["web-1"].state is ContainerState.TERMINATED
        await host.move("remove")
        await asyncio.sleep(2.0)
        assert await host.beat() == {}

    played(tmp_path, scene)


def test_without_events_the_list_is_read_every_ten_seconds(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        await running(host)
        await asyncio.sleep(15.0)
        host.runtime.put("web-1", status="exited", exit_code=4)
        await asyncio.sleep(11.0)
        assert (await host.beat())["web-1"].state is ContainerState.FAILED

    played(tmp_path, scene)


def test_a_runtime_that_does_not_answer_is_the_functions_fault_until_it_does(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        assert host.function.is_listed
        host.runtime.fault = Transient("Docker is away")
        host.runtime.changed.set()
        await asyncio.sleep(0.5)
        assert host.function.fault == "Docker is away"
        host.runtime.fault = None
        await asyncio.sleep(5.0)
        assert host.function.fault == ""

    played(tmp_path, scene)


def test_before_the_runtime_answers_nothing_is_promised(tmp_path: Path) -> None:
    async def play() -> None:
        host = Host(tmp_path)
        with pytest.raises(Transient, match="the container runtime is not ready yet"):
            await host.survey()
        host.runtime.fault = Transient("Docker is away")
        with pytest.raises(Transient, match="Docker is away"):
            await host.function.start()
        assert host.runtime.is_closed
        assert (host.function.fault, host.function.is_listed) == ("Docker is away", False)
        assert await host.function.inspected("web-1") is None
        with pytest.raises(Transient, match="Docker is away"):
            await host.move("start")
        host.runtime.fault = None
        await host.function.start()
        assert (host.function.fault, dict(await host.survey())) == ("", {})
        await host.function.stop()
        assert not host.function.is_listed

    run_virtually(play())


def test_facts_of_a_container_for_people(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        await running(host, health="healthy", health_said="ok", restarts=1)
        await asyncio.sleep(2.0)
        found = await host.ask("inspect", Inspect("web-1"))
        assert found.status.guid == "web-1"
        container = host.runtime.there["web-1"].id[:12]
        facts = {"image": "image", "container": container, "restarts": "1", "health check said": "ok"}
        assert found.facts == {**facts, "status": "running, healthy", "process": "7"}
        host.runtime.put("web-1", status="exited", pid=0, health="", health_said="", exit_code=2)
        found = await host.ask("inspect", Inspect("web-1"))
        del facts["health check said"]
        assert found.facts == {**facts, "status": "exited", "process": "none", "ended": "ended with status 2"}
        with pytest.raises(NoSuchGuid):
            await host.ask("inspect", Inspect("nothing"))

    played(tmp_path, scene)


def test_only_a_container_that_runs_has_a_process(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        await host.make("create")
        with pytest.raises(Permanent, match="web-1 does not run: it is created"):
            await host.function.process_of("web-1")
        with pytest.raises(NoSuchGuid):
            await host.function.process_of("nothing")
        await host.move("start")
        assert (await host.function.process_of("web-1")).pid == 7
        assert await host.function.inspected("web-1") == host.runtime.there["web-1"]

    played(tmp_path, scene)
