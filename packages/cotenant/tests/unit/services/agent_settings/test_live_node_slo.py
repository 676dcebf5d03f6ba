"""The node's NodeSLO while the agent runs: applied when it changes, kept when it cannot be read, given back when it
is deleted.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound, Unavailable
from cotenant.drivers.kube.kinds.custom.node_slo import NodeSloObject
from cotenant.model.errors import InvalidInput
from cotenant.services.agent.agent_arguments import AgentArguments
from cotenant.services.agent.main import configure
from cotenant.services.agent_settings.live_node_slo import LiveNodeSlo

THRESHOLD = {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressThresholdPercent": 50}}


class _Server:
    """Answers with a spec, or raises."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers = list(answers)

    async def get(self, kind: object, namespace: str, name: str) -> NodeSloObject:
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return NodeSloObject(spec=found)


def _run(server: _Server, takes: Any = lambda spec: True) -> list[Any]:
    applied: list[Any] = []

    async def scenario() -> None:
        async def apply() -> bool:
            applied.append(slo.spec)
            return bool(takes(slo.spec))

        slo = LiveNodeSlo(cast(Client, server), "n", apply)
        while server.answers:
            await slo.read()
        applied.append(("in force", slo.spec, slo.refused))

    asyncio.run(scenario())
    return applied


def test_only_changes_are_applied() -> None:
    assert _run(_Server({"a": 1}, {"a": 1}, {"a": 2})) == [{"a": 1}, {"a": 2}, ("in force", {"a": 2}, 0)]


def test_a_server_that_does_not_answer_changes_nothing() -> None:
    assert _run(_Server({"a": 1}, Unavailable("away"), {"a": 1})) == [{"a": 1}, ("in force", {"a": 1}, 0)]


def test_a_deleted_object_gives_the_files_configuration_back() -> None:
    assert _run(_Server({"a": 1}, NotFound("gone"))) == [{"a": 1}, None, ("in force", None, 0)]


def test_without_an_object_nothing_is_applied() -> None:
    assert _run(_Server(NotFound("none"))) == [("in force", None, 0)]


def test_a_refused_spec_leaves_the_last_good_one_and_is_not_tried_again() -> None:
    bad, good = {"bad": True}, {"a": 1}
    applied = _run(_Server(good, bad, bad, good), lambda spec: "bad" not in spec)
    assert applied == [good, bad, good, ("in force", good, 1)]


def test_the_nodes_strategy_becomes_policies_which_the_file_then_changes(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("node: n\npolicies: {best_effort_cpu: {suppress: {min_percent: 7}}}\n")
    asked = AgentArguments(file)
    suppress = configure(asked, THRESHOLD).policies.best_effort_cpu.suppress  # type: ignore[union-attr]
    assert (suppress.threshold_percent, suppress.min_percent) == (50, 7)
    assert configure(asked).policies.best_effort_cpu.suppress.threshold_percent != 50  # type: ignore[union-attr]


def test_a_node_slo_that_makes_no_sense_is_refused_with_its_field(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("node: n\n")
    with pytest.raises(InvalidInput, match="cpuSuppressThresholdPercent"):
        configure(AgentArguments(file), {"resourceUsedThresholdWithBE": {"cpuSuppressThresholdPercent": "much"}})
