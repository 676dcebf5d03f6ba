"""Reload of the configuration over an in-memory machine: what is kept, what restarts, what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.fakes.node.agent_world import CONFIG, AwaySource, asked, live, world

from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import DEFAULT_POLICIES
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.policy.nodeqos.cpu.best_effort import BestEffortCpuConfig
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig, SuppressionForm
from cotenant.services.agent.agent_process import AgentProcess
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.agent_settings.plain_groups import PlainGroup

MORE = PlainGroup(group="top/more", name="jobs/more", qos=QoSClass.LS)


def test_an_invalid_reload_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    w = world()

    def wrong() -> AgentConfig:
        raise InvalidInput("agent.yaml: period_ms", "fast", "a whole number")

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 2)
        engine = process.agent
        assert not await process.reload(wrong)
        assert process.agent is engine
        assert process.config is w.config
        await w.tick(process)

    process = live(w, scenario)
    assert process.reloads == {"taken": 0, "refused": 1}
    assert "period_ms: fast" in caplog.text


def test_a_reload_of_groups_keeps_the_engine_and_its_history() -> None:
    w = world()
    w.use = {"top/web": 1500, "top/job": 2400}

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        engine = process.agent
        assert await process.reload(asked(replace(CONFIG, groups=(CONFIG.groups[0],))))
        assert process.agent is engine
        await process.discover()
        await w.tick(process)
        assert w.knobs.snapshot() == {}  # nobody is best effort any more

    live(w, scenario)


def test_a_reload_during_a_slow_discovery_removes_no_group() -> None:
    w = world()
    w.use = {"top/web": 1500, "top/job": 2400}
    slow = w.sources["runtime"] = AwaySource()

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        held = w.knobs.snapshot()
        slow.hangs = asyncio.Event()
        under_way = asyncio.create_task(process.discover())
        await asyncio.sleep(0)
        assert await process.reload(asked(replace(CONFIG, groups=(*CONFIG.groups, MORE))))
        slow.hangs.set()
        await under_way
        assert [pod.key for pod in process.pods] == ["shop/web", "jobs/one", "jobs/more"]
        await w.tick(process)
        assert w.knobs.snapshot() == held

    live(w, scenario)


def test_a_changed_mode_restarts_the_engine_and_gives_back_what_is_held() -> None:
    w = world()
    w.use = {"top/web": 1500, "top/job": 2400}

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        engine = process.agent
        assert await process.reload(asked(replace(CONFIG, writable=("top/web",))))
        assert process.agent is not engine
        await w.tick(process, 2)
        assert w.knobs.snapshot() == {}

    live(w, scenario)


def test_a_reload_to_observe_releases_everything(caplog: pytest.LogCaptureFixture) -> None:
    w = world()
    w.use = {"top/web": 1500, "top/job": 2400}

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        assert w.knobs.snapshot()
        assert await process.reload(asked(replace(CONFIG, mode=AgentMode.OBSERVE, listen="127.0.0.1:1")))
        await w.tick(process, 2)
        assert w.knobs.snapshot() == {}
        assert process.config.listen == CONFIG.listen
        assert process.mode == "observe"
        assert await process.reload(asked(replace(CONFIG, mode=AgentMode.DRY_RUN)))
        assert process.mode == "observe"
        assert await process.reload(asked(CONFIG))
        await w.tick(process, 3)
        assert w.knobs.snapshot()

    process = live(w, scenario)
    assert process.mode == "act"
    assert "listen changes only with a restart" in caplog.text


@pytest.mark.parametrize("reloads", [False, True])
def test_a_restarted_engine_keeps_knobs_that_it_wants_again(reloads: bool) -> None:
    policies = replace(
        DEFAULT_POLICIES, best_effort_cpu=BestEffortCpuConfig(SuppressConfig(form=SuppressionForm.QUOTA), idle=False)
    )
    w = world(policies=policies)
    w.use = {"top/web": 1500, "top/job": 2400}

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 6)
        held, turned = w.knobs.snapshot(), len(w.knobs.journal)
        assert held
        if reloads:
            assert await process.reload(asked(replace(w.config, policies=replace(policies, burst=None))))
        else:
            process = w.process()
            await process.discover()
        await w.tick(process, 3)
        assert (w.knobs.snapshot(), len(w.knobs.journal)) == (held, turned)

    live(w, scenario)
