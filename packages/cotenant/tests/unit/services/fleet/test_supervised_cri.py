"""Restarts and health checks by CRI against a runtime in memory: killed at each call, nothing runs twice."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.virtual_time import run_virtually

pytest.importorskip("google.protobuf")
from tests.fakes.node.pretended_cri import CREATED, EXITED, RUNNING, PretendedClient, PretendedCri

from cotenant.model.errors import Transient
from cotenant.model.fleet.template import ContainerTemplate, HealthCheck
from cotenant.services.fleet.functions.supervised_cri import SupervisedCri

OURS = "cotenant.io/agent=agent-a"
LABELS = {"cotenant.io/agent": "agent-a", "cotenant.io/guid": "web-1"}
FAILING = ContainerTemplate("web", "image", ("serve",), environment={"A": "b"}, restart="on-failure", max_restarts=3)
CHECKED = ContainerTemplate("web", "image", health=HealthCheck(("CMD", "check", "it"), 5.0, 2.0, 0.0, 2))


class Host:
    """One runtime, and agents on it, one after another."""

    def __init__(self, folder: Path) -> None:
        self.runtime, self._folder = PretendedCri(), folder
        self.client = PretendedClient(self.runtime)

    def agent(self, dies_at: int = 0, *, is_done: bool = False) -> SupervisedCri:
        self.client = PretendedClient(self.runtime, dies_at, is_done=is_done)
        return SupervisedCri(Path("socket"), OURS, self._folder, lambda: self.runtime.now_s, self.client)

    async def made(self, template: ContainerTemplate) -> SupervisedCri:
        agent = self.agent()
        await agent.create("web-1", template, {"A": "b"}, LABELS)
        await agent.start("web-1")
        return agent

    async def rounds(self, agent: SupervisedCri, count: int, *, ends_with: int | None = None) -> None:
        """Seconds in which the agent looks, until it dies; with a code, what runs ends in each."""
        for _ in range(count):
            self.runtime.now_s += 1.0
            if ends_with is not None:
                self.runtime.end(ends_with)
            try:
                await agent.begin_due()
                await asyncio.gather(*agent._acting.values())
            except Transient:
                assert self.client.is_dead
                return


def played(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtually(scene())


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("dies_at", range(1, 40))
def test_an_agent_that_is_killed_at_any_call_starts_no_attempt_twice(
    tmp_path: Path, dies_at: int, is_done: bool
) -> None:
    async def scene() -> None:
        host = Host(tmp_path)
        await host.made(FAILING)
        await host.rounds(host.agent(dies_at, is_done=is_done), 20, ends_with=3)
        assert host.client.is_dead
        last = host.agent()
        await host.rounds(last, 30, ends_with=3)
        assert dict(host.runtime.starts) == dict.fromkeys(range(4), 1)
        assert host.runtime.max_running == 1
        assert host.runtime.attempts(EXITED) == [2, 3]
        found = await last.inspect("web-1")
        assert found is not None
        assert (found.status, found.restarts, found.exit_code, found.labels["cotenant.io/guid"]) == (
            "exited",
            3,
            3,
            "web-1",
        )
        assert {made.config.envs[0].value for made in host.runtime.containers.values()} == {"b"}
        assert {tuple(made.config.args) for made in host.runtime.containers.values()} == {("serve",)}

    played(scene)


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("dies_at", range(1, 6))
def test_one_that_was_asked_to_stop_is_not_started_again_whenever_the_agent_is_killed(
    tmp_path: Path, dies_at: int, is_done: bool
) -> None:
    async def scene() -> None:
        host = Host(tmp_path)
        await host.made(ContainerTemplate("web", "image", restart="always"))
        stopping = host.agent(dies_at, is_done=is_done)
        try:
            await stopping.stop("web-1")
        except Transient:
            assert host.client.is_dead
        was_noted = (tmp_path / "web-1" / "stopped").exists()
        assert was_noted is (dies_at > 2), "what is there has been read by then"
        last = host.agent()
        await host.rounds(last, 5, ends_with=137)
        assert (sum(host.runtime.starts.values()) == 1) is was_noted
        await last.stop("web-1")
        await host.rounds(last, 5)
        assert host.runtime.attempts(RUNNING) == []
        found = await last.inspect("web-1")
        assert found is not None
        assert found.status == "exited"

    played(scene)


def test_stopped_between_making_and_starting_it_is_not_started(tmp_path: Path) -> None:
    async def scene() -> None:
        host = Host(tmp_path)
        agent = await host.made(ContainerTemplate("web", "image", restart="always"))
        host.runtime.refused = "StartContainer"
        await host.rounds(agent, 2, ends_with=1)
        assert host.runtime.attempts(CREATED) == [1]
        assert [listed.status for listed in await agent.list(OURS)] == ["restarting"]
        found = await agent.inspect("web-1")
        assert found is not None
        assert (found.status, found.restarts, found.exit_code) == ("restarting", 1, 1), "of the last end"
        host.runtime.refused = ""
        await agent.stop("web-1")
        await host.rounds(host.agent(), 5)
        assert (dict(host.runtime.starts), host.runtime.attempts(EXITED)) == ({0: 1}, [0])

    played(scene)


def test_it_is_told_as_restarting_until_it_runs_again(tmp_path: Path) -> None:
    async def scene() -> None:
        host = Host(tmp_path)
        agent = await host.made(ContainerTemplate("web", "image", restart="always"))
        host.runtime.end(7)
        assert [(listed.status, listed.health) for listed in await agent.list(OURS)] == [("restarting", "")]
        host.runtime.refused = "CreateContainer"
        await host.rounds(agent, 3)
        waiting = await agent.inspect("web-1")
        assert waiting is not None
        assert (waiting.status, waiting.restarts, waiting.exit_code, waiting.pid) == ("restarting", 0, 7, 0)
        host.runtime.refused = ""
        await host.rounds(agent, 2)
        again = await agent.inspect("web-1")
        assert again is not None
        assert (again.status, again.restarts, again.exit_code) == ("running", 1, 7)

    played(scene)


def test_health_is_told_with_what_the_check_said(tmp_path: Path) -> None:
    async def scene() -> None:
        host = Host(tmp_path)
        agent = await host.made(CHECKED)

        async def told() -> tuple[str, str, str]:
            (listed,), found = await agent.list(OURS), await agent.inspect("web-1")
            assert found is not None
            assert (found.status, found.health) == (listed.status, listed.health)
            return listed.status, listed.health, found.health_said

        assert await told() == ("running", "starting", "")
        asked: list[list[str]] = []
        host.runtime.check = lambda words: asked.append(words) or (0, b"all\n is well\n")  # type: ignore[func-returns-value]
        await host.rounds(agent, 5)
        assert (await told(), asked) == (("running", "healthy", "all is well"), [["check", "it"]])
        host.runtime.check = lambda _: (1, b"ill")
        await host.rounds(agent, 5)
        assert await told() == ("running", "healthy", "ill")
        await host.rounds(agent, 5)
        assert await told() == ("running", "unhealthy", "ill")

        def late(_: list[str]) -> tuple[int, bytes]:
            raise Transient("context deadline exceeded")

        host.runtime.check = late
        await host.rounds(agent, 5)
        assert await told() == ("running", "unhealthy", "it took longer than 2 s")
        host.runtime.check = lambda _: (0, b"")
        following = host.agent()
        assert [listed.health for listed in await following.list(OURS)] == ["starting"]
        await host.rounds(following, 1)
        assert [listed.health for listed in await following.list(OURS)] == ["healthy"]

    played(scene)


def test_containers_of_others_and_those_with_nothing_to_do_are_left_alone(tmp_path: Path) -> None:
    async def scene() -> None:
        host = Host(tmp_path)
        agent = await host.made(ContainerTemplate("web", "image"))
        await agent.create(
            "web-2", ContainerTemplate("web", "image", restart="always"), {}, {"cotenant.io/agent": "agent-b"}
        )
        await agent.start("web-2")
        host.runtime.end(1)
        before = dict(host.runtime.starts)
        await host.rounds(agent, 5)
        assert (dict(host.runtime.starts), agent._supervisors) == (before, {})
        assert [listed.status for listed in await agent.list(OURS)] == ["exited"]

    played(scene)


def test_one_whose_recipe_somebody_changed_is_left_alone_and_others_go_on(tmp_path: Path) -> None:
    async def scene() -> None:
        host = Host(tmp_path)
        agent = await host.made(FAILING)
        await agent.create("web-2", FAILING, {"A": "b"}, LABELS)
        await agent.start("web-2")
        host.runtime.pods["pod-0"].annotations["cotenant.io/recipe"] = "{"
        await host.rounds(agent, 9, ends_with=3)
        assert {listed.name: listed.status for listed in await agent.list(OURS)} == dict.fromkeys(
            ("web-1", "web-2"), "exited"
        )
        restarts = [found.restarts for name in ("web-1", "web-2") if (found := await agent.inspect(name)) is not None]
        assert restarts == [0, 3]

    played(scene)


def test_one_that_is_stopped_while_no_file_can_be_written_is_not_started_again(tmp_path: Path) -> None:
    async def scene() -> None:
        host = Host(tmp_path)
        agent = await host.made(ContainerTemplate("web", "image", restart="always"))
        shutil.rmtree(tmp_path / "web-1")
        (tmp_path / "web-1").write_text("in the way")
        await agent.stop("web-1")
        await host.rounds(host.agent(), 5)
        assert (dict(host.runtime.starts), host.runtime.attempts(EXITED)) == ({0: 1}, [0])

    played(scene)
