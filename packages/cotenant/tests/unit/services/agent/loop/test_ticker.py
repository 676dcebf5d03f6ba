"""A policy that fails is logged once, with its reason."""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.node.fake_node import FakeNode, FixedPolicy

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.settings import AgentSettings
from cotenant.services.agent.loop.ticker import Ticker


class Machine(FakeNode):
    """Its own sensor and actor."""

    def sample(self, groups: object = ()) -> object:  # type: ignore[override]
        self.pass_time()
        return super().sample()

    async def exchange(self, decide: object) -> None:
        self.carry_out(decide())  # type: ignore[operator]


def test_a_failing_policy_is_logged_once_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    broken = FixedPolicy("a", fails=True)
    machine = Machine(Agent(AgentSettings(), "node", [broken.entry()]))
    ticker = Ticker(machine.agent, machine, machine, None, monotonic=lambda: 0.0)  # type: ignore[arg-type]
    for broken.fails in (True, True, False, True):
        assert asyncio.run(ticker.try_tick())
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "policy a fails: ValueError: broken on purpose (fake_node.py:" in record.getMessage()
    assert machine.agent.failing_policies()
