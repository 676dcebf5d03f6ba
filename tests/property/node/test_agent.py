"""The node's engine under random behaviour of the machine, the keeper and the clock.

Invariants: the engine's accounts agree after every step; equal events in another order of dictionaries give equal
instructions; nothing stays held that no policy wants; nothing is requested twice without a cause; and memory does not
grow.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.node.fake_node import SECOND, FakeKeeper, FakeNode, FixedPolicy, pod, weight
from tests.property.few import examples, first_cases

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.evictions import HOUR_US, MINUTE_US
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import enabled_policies
from cotenant.engine.node.settings import AgentSettings, EvictionLimits
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.counters import GroupCounters, HostCounters, LogicalCpu, NodeSample, Pressure, Stall
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import ServiceHealth

ROOTS = ("pods",)
ALL = tuple(
    pod(f"p{i}", f"pods/{'be/' if i % 2 else ''}p{i}", QoSClass.BE if i % 2 else QoSClass.LS, objective_p99_us=10_000)
    for i in range(6)
)
TARGETS = (
    weight("pods/p0"),
    weight("pods/be/p1"),
    KnobTarget("pods/be/p1", Knob.CPU_IDLE),
    KnobTarget("pods/be", Knob.CPU_MAX),
    KnobTarget("pods/be/p3", Knob.MEMORY_RECLAIM),
    KnobTarget("system.slice", Knob.CPU_MAX),
)
VALUES = {
    Knob.CPU_WEIGHT: ("1", "100", "oops"),
    Knob.CPU_IDLE: ("0", "1"),
    Knob.CPU_MAX: ("20000 100000", "max 100000", ""),
    Knob.MEMORY_RECLAIM: ("4096",),
}

small = st.sampled_from([0, 5, 10**6, 2 * 10**6, 10**12])
counter = st.sampled_from([None, 0, 5, 10**6, 2 * 10**6, 10**12, 2**63])
stall = st.one_of(st.none(), st.builds(Stall, small, small))
group_counters = st.builds(
    GroupCounters,
    st.sampled_from([one.group for one in ALL] + ["pods/be", "nobody"]),
    *[counter] * 14,
    pressure=st.builds(Pressure, stall, stall, stall),
)
host_counters = st.builds(
    HostCounters, st.integers(1, 8), small, small, small, pressure=st.builds(Pressure, stall, stall, stall)
)
passing = st.one_of(st.just(SECOND), st.integers(0, 3 * SECOND), st.sampled_from([-5 * SECOND, 3600 * SECOND]))
wishes = st.dictionaries(st.sampled_from(TARGETS), st.integers(0, 2), max_size=5).map(
    lambda chosen: {t: VALUES[t.knob][i % len(VALUES[t.knob])] for t, i in chosen.items()}
)


@dataclass(frozen=True)
class Step:
    """The events of one period."""

    passes_us: int
    here: tuple[NodePod, ...]
    wants: tuple[dict[KnobTarget, str], dict[KnobTarget, str]]
    evicts: tuple[NodePod, ...]
    groups: tuple[GroupCounters, ...]
    host: HostCounters
    refuses: bool
    loses: bool
    fails: bool
    pressed: bool


steps = st.lists(
    st.builds(
        Step,
        passing,
        st.lists(st.sampled_from(ALL), unique=True).map(tuple),
        st.tuples(wishes, wishes),
        st.lists(st.sampled_from(ALL), unique=True, max_size=3).map(tuple),
        st.lists(group_counters, max_size=4).map(tuple),
        host_counters,
        *[st.booleans()] * 4,
    ),
    min_size=1,
    max_size=12,
)


def build(*wishing: FixedPolicy, **more: object) -> FakeNode:
    chosen = AgentSettings(roots=ROOTS, **more)  # type: ignore[arg-type]
    policies = [one.entry(urgent=True) for one in wishing]
    return FakeNode(Agent(chosen, "node-1", [*enabled_policies(chosen.policies), *policies]))


def run(story: Sequence[Step], turned: bool = False, **more: object) -> FakeNode:
    """Run a sequence of steps; `turned`: every collection in reverse order."""
    first, second = FixedPolicy("first"), FixedPolicy("second")
    node = build(first, second, **more)

    def order(items):  # type: ignore[no-untyped-def]
        return tuple(reversed(items)) if turned else tuple(items)

    for step in story:
        now = step  # bound for the closures below
        node.now_us = max(0, node.now_us + step.passes_us)
        first.wants, second.wants = ({t: w[t] for t in order(sorted(w))} for w in step.wants)
        first.evicts, second.fails = step.evicts, step.fails
        node.keeper.refuses = lambda setting, now=now: "EINVAL" if now.refuses else ""
        node.keeper.loses = lambda now=now: now.loses
        node.show(order(step.here))
        named = {counters.group: counters for counters in step.groups}
        sample = NodeSample(node.now_us, 0.0, step.host, order(named.values()))
        cpus = tuple(LogicalCpu(cpu, cpu, 0, 0) for cpu in range(step.host.cpus))
        read = {target: "100" for target in order(node.agent.knobs_to_read()) if target.knob is Knob.CPU_WEIGHT}
        instructions = node.carry_out(node.agent.sampled(sample, read, cpus))
        for gone in instructions.evict:
            node.agent.evicted(gone.uid, not step.refuses, "", node.now_us)
        if step.pressed and step.here:
            node.carry_out(node.agent.pressed(node.now_us + 200_000, step.here[0].group, "cpu"))
        node.agent.report(node.now_us / 1e6)
        node.agent.usage([60 * SECOND])
        node.agent.held_knobs()
        node.agent.explain("default/p1")
    return node


@pytest.mark.slow
@given(steps)
@settings(max_examples=examples(150), deadline=None)
def test_accounts_agree_after_random_events(story: list[Step]) -> None:
    node = run(story)  # validates after each step
    assert node.agent.counts().stray_answers == 0


@pytest.mark.slow
@given(steps)
@settings(max_examples=examples(100), deadline=None)
def test_instructions_do_not_depend_on_the_order_of_collections(story: list[Step]) -> None:
    one, other = run(story), run(story, turned=True)
    assert one.said == other.said
    assert one.agent.decisions() == other.agent.decisions()
    assert one.agent.counts() == other.agent.counts()


@pytest.mark.slow
@given(steps)
@settings(max_examples=examples(100), deadline=None)
def test_one_tick_after_the_faults_end_nothing_unwanted_is_held(story: list[Step]) -> None:
    quiet = replace(story[-1], passes_us=SECOND, here=(), wants=({}, {}), loses=False, refuses=False, fails=False)
    node = run([*story, quiet])
    node.keeper.expire(node.now_us)
    assert node.keeper.held == {}


@pytest.mark.slow
@given(steps)
@settings(max_examples=examples(60), deadline=None)
def test_observe_mode_gives_no_instructions(story: list[Step]) -> None:
    node = run(story, mode=AgentMode.OBSERVE)
    assert not any(node.said)
    assert node.keeper.held == {}


@pytest.mark.slow
@given(steps)
@settings(max_examples=examples(60), deadline=None)
def test_the_limits_of_evictions_hold_over_any_minute_and_hour(story: list[Step]) -> None:
    limits = EvictionLimits(per_minute=2, per_hour=4, outstanding=3)
    asked: list[int] = []

    class Counting(FakeNode):
        def carry_out(self, instructions):  # type: ignore[no-untyped-def]
            asked.extend([self.agent._clock.now_us] * len(instructions.evict))
            return super().carry_out(instructions)

    first = FixedPolicy("first")
    chosen = AgentSettings(roots=ROOTS, evictions=limits)
    node = Counting(Agent(chosen, "node-1", [first.entry()]))
    for step in story:
        node.show(step.here)
        first.evicts = step.evicts
        node.tick(max(1, abs(step.passes_us)))
    for at in asked:
        assert sum(0 <= other - at < MINUTE_US for other in asked) <= 2
        assert sum(0 <= other - at < HOUR_US for other in asked) <= 4


@pytest.mark.slow
@given(st.lists(wishes, min_size=1, max_size=40))
@settings(max_examples=examples(100), deadline=None)
def test_nothing_is_requested_twice_without_a_cause(story: list[dict[KnobTarget, str]]) -> None:
    policy = FixedPolicy("only")
    node = FakeNode(Agent(AgentSettings(roots=ROOTS), "node-1", [policy.entry()]), ALL)
    requested: dict[KnobTarget, tuple[int, str]] = {}
    for wanted in story:
        policy.wants = wanted
        instructions = node.tick()
        for back in instructions.give_back:
            assert back.target in requested, "given back without having been held"
            del requested[back.target]
        for setting in instructions.hold:
            at, value = requested.get(setting.target, (None, ""))
            if at is not None and setting.target.knob.undoable:
                assert value != setting.value or node.now_us - at >= setting.lasts_us // 3
            requested[setting.target] = (node.now_us, setting.value)
        assert node.keeper.held == {hold.target: hold.value for hold in node.agent.held_knobs()}


def test_requests_to_a_refusing_keeper_back_off() -> None:
    policy = FixedPolicy("only", {weight("pods/p0"): "1"})
    node = FakeNode(Agent(AgentSettings(roots=ROOTS), "node-1", [policy.entry()]), ALL)
    node.keeper.refuses = lambda setting: "EPERM"
    asked = [tick for tick in range(1200) if node.tick().hold]
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert gaps == sorted(gaps)
    assert len(asked) <= 10


def reachable(agent: Agent) -> int:
    """The number of objects reachable from an agent."""
    seen: set[int] = set()
    queue: list[object] = [agent]
    while queue:
        thing = queue.pop()
        if id(thing) in seen or isinstance(thing, type) or callable(thing):
            continue
        seen.add(id(thing))
        queue.extend(gc.get_referents(thing))
    return len(seen)


def churn(node: FakeNode, policy: FixedPolicy, first: int, last: int, at_once: int = 20) -> None:
    """Groups that come and go; each is used, limited, reported, and released."""
    for start in range(first, last, at_once):
        pods = tuple(
            pod(f"p{i}", f"pods/be/p{i}", QoSClass.BE if i % 3 else QoSClass.LS) for i in range(start, start + at_once)
        )
        node.use = {one.group: 100 for one in pods}
        policy.wants = {weight(one.group): "1" for one in pods}
        policy.evicts = pods[:2]
        node.show(pods)
        for one in pods:
            node.agent.health_reported(one.key, ServiceHealth(SECOND, 10, 5, 0, 0), node.now_us)
        node.tick()
        node.tick()
        node.counters = {group: node.counters[group] for group in node.agent.groups()}


@pytest.mark.slow
@pytest.mark.parametrize("refuses", [False, True])
def test_ten_thousand_groups_that_come_and_go_leave_no_more_than_two_thousand(refuses: bool) -> None:
    policy = FixedPolicy("only")
    chosen = AgentSettings(roots=ROOTS, decisions_kept=100, max_series=100, series_points=300)
    keeper = FakeKeeper(refuses=lambda setting: "EINVAL" if refuses else "")
    node = FakeNode(Agent(chosen, "node-1", [*enabled_policies(chosen.policies), policy.entry()]), keeper=keeper)
    churn(node, policy, 0, 5000)
    early = reachable(node.agent)
    node.said.clear()
    churn(node, policy, 5000, 10_000)
    assert reachable(node.agent) <= early * 1.05


def test_five_hundred_groups_are_limited_in_one_tick() -> None:
    pods = tuple(pod(f"p{i}", f"pods/be/p{i}", QoSClass.BE) for i in range(500))
    policy = FixedPolicy("only", {weight(one.group): "1" for one in pods})
    node = FakeNode(Agent(AgentSettings(roots=ROOTS), "node-1", [policy.entry()]))
    node.show(pods)
    assert len(node.tick().hold) == 500
    assert not node.tick()
    node.show(())
    policy.wants = {}
    assert len(node.tick().give_back) == 500
    assert node.keeper.held == {}


def test_a_group_name_with_special_characters_is_handled() -> None:
    group = "pods/a b\n;rm -rf %s{}\u2028"
    policy = FixedPolicy("only", {weight(group): "1"})
    node = FakeNode(Agent(AgentSettings(roots=ROOTS), "node-1", [policy.entry()]), (pod("odd", group, QoSClass.BE),))
    assert node.tick().hold == (SetKnob(weight(group), "1", node.said[0].hold[0].reason, 30 * SECOND),)
    assert node.agent.explain(group) is not None


test_first_cases = first_cases(
    test_accounts_agree_after_random_events,
    test_instructions_do_not_depend_on_the_order_of_collections,
    test_one_tick_after_the_faults_end_nothing_unwanted_is_held,
    test_observe_mode_gives_no_instructions,
    test_the_limits_of_evictions_hold_over_any_minute_and_hour,
    test_nothing_is_requested_twice_without_a_cause,
    most=2,
)
