"""The groups that an agent may act on: found on the node, and said where they are missing."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from tests.fakes.node.agent_world import CONFIG, live, world

from cotenant.drivers.kubelet.roots import KubeletGroups
from cotenant.engine.node.mode import AgentMode
from cotenant.model.machine.counters import Gap
from cotenant.services.agent.agent_process import AgentProcess
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.agent_settings.node_roots import PATIENCE_S, RootCheck, with_roots

BEST_EFFORT = "kubepods/besteffort"
ASKED = AgentConfig(kubelet_groups=KubeletGroups.BEST_EFFORT, mode=AgentMode.ACT)


def test_groups_of_the_kubelet_join_those_that_are_named() -> None:
    found = with_roots(replace(ASKED, writable=("batch.slice",)), ["kubepods"])
    assert (found.writable, found.best_effort_group) == (("batch.slice", BEST_EFFORT), BEST_EFFORT)
    assert with_roots(found, ["kubepods"]) == found
    everything = with_roots(replace(ASKED, kubelet_groups=KubeletGroups.ALL), ["kubepods"])
    assert (everything.writable, everything.best_effort_group) == (("kubepods",), BEST_EFFORT)
    assert with_roots(AgentConfig(), ["kubepods"]) == AgentConfig()
    assert with_roots(ASKED, []) == ASKED


@pytest.mark.parametrize(
    ("config", "roots", "words"),
    [
        (AgentConfig(), (), "no pods can be found: /sys/fs/cgroup has no group of a kubelet"),
        (ASKED, None, "no pods can be found"),
        (
            AgentConfig(writable=("kubepods.slice/kubepods-besteffort.slice",)),
            ("kubepods",),
            "has no group kubepods.slice/kubepods-besteffort.slice (`writable`); kubelet's here is kubepods/besteffort",
        ),
        (AgentConfig(writable=("batch.slice",)), None, "nothing can be held: /sys/fs/cgroup has no group batch.slice"),
    ],
)
def test_what_stays_missing_is_said_once(
    config: AgentConfig, roots: tuple[str, ...] | None, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    check = RootCheck(lambda group: group == BEST_EFFORT)
    for at_s in (0.0, PATIENCE_S - 1):
        check.judge(config, roots, at_s)
        assert check.said == ""
    with caplog.at_level(logging.ERROR):
        for at_s in (PATIENCE_S, PATIENCE_S + 10):
            check.judge(config, roots, at_s)
            assert words in check.said
    assert len(caplog.records) == 1
    check.judge(replace(config, writable=(BEST_EFFORT,)), ("kubepods",), PATIENCE_S + 20)
    assert check.said == ""


def test_a_machine_without_a_kubelet_and_with_groups_of_its_own_lacks_nothing() -> None:
    check = RootCheck(lambda group: group == "top")
    for at_s in (0.0, 2 * PATIENCE_S):
        check.judge(replace(CONFIG, writable=("top", "later.slice")), (), at_s)
    assert check.said == ""


def test_an_agent_with_nothing_to_act_on_is_not_ready_and_says_why() -> None:
    w = world(writable=("nowhere",))
    w.more["group_exists"] = lambda group: group != "nowhere"

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 2)
        assert process.unready() == ""
        w.pass_time(PATIENCE_S)
        await w.tick(process)
        await process.discover()
        assert "no group nowhere" in process.unready()
        assert Gap("groups to act on", process.unready()) in process.gaps()

    live(w, scenario)


def test_groups_that_appear_later_are_taken_without_a_restart() -> None:
    w = world(groups=(), writable=(), kubelet_groups=KubeletGroups.BEST_EFFORT)
    roots: list[str] = []
    w.more["kubelet_roots"] = lambda: tuple(roots)

    async def scenario(process: AgentProcess) -> None:
        await process.discover()
        assert process.agent.settings.roots == ()
        roots.append("kubepods")
        await process.discover()
        assert process.agent.settings.roots == (BEST_EFFORT,)
        assert process.agent.settings.best_effort_group == BEST_EFFORT
        before = process.agent
        await process.discover()
        assert process.agent is before

    live(w, scenario)
