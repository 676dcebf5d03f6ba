"""What the state says of quotas that the agent itself holds: the policy's reason, since when, and only what stands."""

from __future__ import annotations

from tests.fakes.node.fake_node import FakeNode, pod

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.policies import NodePolicy
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_state import BindingLimit
from cotenant.policy.nodeqos.cpu import best_effort
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig, SuppressionForm

CLASS = "pods/be"
QUOTA = best_effort.BestEffortCpuConfig(suppress=SuppressConfig(form=SuppressionForm.QUOTA))


def node() -> FakeNode:
    policy = NodePolicy("best-effort-cpu", best_effort.decide, QUOTA, best_effort.BestEffortCpuMemory())
    agent = Agent(AgentSettings(roots=("pods",)), "node-1", [policy])
    return FakeNode(agent, (pod("web", "pods/web"), pod("hog", f"{CLASS}/hog", QoSClass.BE)))


def limits(one: FakeNode) -> dict[str, BindingLimit]:
    one.tick()
    state = one.agent.state()
    assert state is not None
    return dict(state.limits)


def test_a_quota_that_is_held_is_told_with_its_reason_and_since_when() -> None:
    one = node()
    assert limits(one) == {}
    seen = [limits(one) for _ in range(5)][-1]
    assert list(seen) == [CLASS]
    assert (seen[CLASS].policy, seen[CLASS].reason.rule) == ("best-effort-cpu", "cpu-suppress")
    assert seen[CLASS].reason.text.startswith("budget ")
    later = limits(one)
    assert later[CLASS].since_us == seen[CLASS].since_us


def test_one_that_the_keeper_refuses_holds_nobody() -> None:
    one = node()
    one.keeper.refuses = lambda entry: "EPERM" if entry.target == KnobTarget(CLASS, Knob.CPU_MAX) else ""
    assert [limits(one) for _ in range(4)][-1] == {}
