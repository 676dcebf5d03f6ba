"""The node's engine and the engine of leases together, over knobs that behave as a kernel's: in the end every knob has
its previous value.

What the agent believes to be held is held; knobs that no policy wants, or that an exited agent left, have their
previous value; values written by others stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.node.fake_knobs import DEFAULTS
from tests.fakes.node.fake_node import SECOND, FakeKeeper, FakeNode, FixedPolicy, pod
from tests.fakes.node.kept_knobs import KeptKnobs
from tests.property.few import examples, first_cases

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.instructions import Instructions
from cotenant.engine.node.policies import enabled_policies
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import Transient
from cotenant.model.machine.knob import GiveBack, Knob, KnobChange, KnobScope, KnobTarget, LeaseAnswer, SetKnob
from cotenant.services.knobs.dry_run import NoStateFile
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

GROUPS = ("pods", "pods/be", "pods/be/a", "pods/be/b", "pods/web")
PODS = (
    pod("web", "pods/web", objective_p99_us=10_000),
    pod("a", "pods/be/a", QoSClass.BE),
    pod("b", "pods/be/b", QoSClass.BE),
)
VALUES = {
    Knob.CPU_MAX: ("20000 100000", "50000 100000", "5000 10000"),
    Knob.CPU_BURST: ("0", "10000", "999999"),  # the last is above any quota: refused
    Knob.CPU_WEIGHT: ("1", "500"),
    Knob.CPU_IDLE: ("1",),  # not "0" while we hold "1": a weight desired in the same round is read while it is pinned
    Knob.CPUSET_CPUS: ("0", "1", "0-1"),
    Knob.MEMORY_HIGH: ("1048576", "12345"),  # the last is rounded by the kernel
    Knob.MEMORY_RECLAIM: ("4096",),
}
# Values that an outsider may set without blocking others: an idle group accepts no weight, a burst no smaller quota.
FREE = (Knob.CPU_WEIGHT, Knob.CPUSET_CPUS, Knob.MEMORY_HIGH)
TARGETS = tuple(KnobTarget(group, knob) for group in GROUPS[1:] for knob in VALUES)


class NoTrail:
    def write(self, changes: Sequence[KnobChange]) -> None:
        pass


@dataclass
class RealKeeper(FakeKeeper):
    """The real keeper, over knobs in memory."""

    port: KeptKnobs = field(default_factory=lambda: KeptKnobs(GROUPS))
    now_us: int = 0

    def __post_init__(self) -> None:
        clock = Clock(lambda: self.now_us, lambda: 0.0)
        self.executor = LeaseExecutor(
            {KnobScope.CGROUP: self.port}, NoStateFile(), NoTrail(), clock, KnobRules(("pods",))
        )

    def expire(self, now_us: int) -> None:
        self.now_us = max(self.now_us, now_us)
        self.executor.tick()

    def give_back(self, requests: Sequence[GiveBack]) -> list[LeaseAnswer]:
        return list(self.executor.give_back(requests))

    def hold(self, wishes: Sequence[SetKnob], now_us: int) -> list[LeaseAnswer]:
        lasting = iter(self.executor.hold([wish for wish in wishes if wish.target.knob.undoable]))
        return [next(lasting) if wish.target.knob.undoable else self.executor.once(wish) for wish in wishes]


class RealNode(FakeNode):
    """A node with the knobs of its keeper."""

    def standing(self) -> dict[KnobTarget, str]:
        port = self.keeper.port  # type: ignore[attr-defined]
        return {t: port.read(t) for t in self.agent.knobs_to_read() if t.group in port.groups and t.knob.undoable}


@dataclass(frozen=True)
class Step:
    """The events of one period."""

    passes_s: int
    wants: dict[KnobTarget, str]
    here: tuple[int, ...]
    use: tuple[int, ...]
    loses: bool
    outside: dict[KnobTarget, str]
    busy: tuple[KnobTarget, ...]
    renews: bool  # another agent takes over


def valued(size: int) -> st.SearchStrategy[dict[KnobTarget, str]]:
    return st.dictionaries(st.sampled_from(TARGETS), st.integers(0, 2), max_size=size).map(
        lambda chosen: {t: VALUES[t.knob][i % len(VALUES[t.knob])] for t, i in chosen.items()}
    )


STORIES = st.lists(
    st.builds(
        Step,
        st.sampled_from([1, 1, 1, 7, 40]),
        valued(6),
        st.lists(st.integers(0, 2), unique=True).map(tuple),
        st.tuples(*[st.sampled_from([0, 300, 1500])] * 3),
        st.booleans(),
        valued(1).filter(lambda chosen: all(t.knob in FREE for t in chosen)),
        st.lists(st.sampled_from(TARGETS), max_size=1).map(tuple),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=12,
)


def new_agent(policy: FixedPolicy, *, all_policies: bool) -> Agent:
    chosen = AgentSettings(roots=("pods",))
    rest = enabled_policies(chosen.policies) if all_policies else ()
    return Agent(chosen, "node-1", [*rest, policy.entry()])


def play(story: Sequence[Step], *, all_policies: bool) -> tuple[RealNode, RealKeeper, set[KnobTarget]]:
    """Run a sequence of steps, then withdraw every desired value; returns the node, its keeper, and the knobs
    written by others.
    """
    policy, keeper = FixedPolicy("only"), RealKeeper()
    node = RealNode(new_agent(policy, all_policies=all_policies), PODS, cpus=2, keeper=keeper)
    outside: set[KnobTarget] = set()
    for step in story:
        now = step
        if step.renews:
            node.agent = new_agent(policy, all_policies=all_policies)
            node.agent.leases_found(keeper.executor.leases(), node.now_us)
        node.show([PODS[i] for i in step.here])
        node.use = {one.group: use for one, use in zip(PODS, step.use, strict=True)}
        policy.wants = step.wants
        keeper.loses = lambda now=now: now.loses
        for target, value in step.outside.items():
            try:
                keeper.port.set_outside(target, value)
            except Exception:
                continue  # the kernel would not take it
            outside.add(target)
        for target in step.busy:
            keeper.port.fail("write", target, Transient("EBUSY"))
        node.tick(step.passes_s * SECOND)
    policy.wants, keeper.loses = {}, lambda: False
    node.show(())
    for operation_target in list(keeper.port._failures):
        keeper.port._failures[operation_target].clear()
    return node, keeper, outside


def as_before(keeper: RealKeeper, outside: set[KnobTarget]) -> None:
    """Every knob that nobody else wrote has its previous value."""
    for target in TARGETS:
        if target.knob.undoable and target not in outside:
            assert keeper.port.read(target) == DEFAULTS[target.knob], target


@pytest.mark.slow
@given(STORIES, st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_without_desired_values_every_knob_is_restored(story: list[Step], all_policies: bool) -> None:
    node, keeper, outside = play(story, all_policies=all_policies)
    for _ in range(4):
        node.tick()
    keeper.expire(node.now_us + SECOND)
    assert keeper.executor.leases() == ()
    as_before(keeper, outside)


@pytest.mark.slow
@given(STORIES, st.booleans())
@settings(max_examples=examples(100), deadline=None)
def test_leases_of_a_dead_agent_expire(story: list[Step], all_policies: bool) -> None:
    node, keeper, outside = play(story, all_policies=all_policies)
    for second in range(1, 61):
        keeper.expire(node.now_us + second * SECOND)
    assert keeper.executor.leases() == ()
    as_before(keeper, outside)


@pytest.mark.slow
@given(STORIES)
@settings(max_examples=examples(100), deadline=None)
def test_a_clean_stop_leaves_nothing(story: list[Step]) -> None:
    node, keeper, outside = play(story, all_policies=True)
    node.carry_out(node.agent.stopping(node.now_us))
    held = {lease.target for lease in keeper.executor.leases()}
    known = {hold.target for hold in node.agent.held_knobs()}
    assert held <= known, "something is held that the agent does not know of"
    for second in range(1, 31):
        keeper.expire(node.now_us + second * SECOND)
    as_before(keeper, outside)


@pytest.mark.slow
@given(STORIES)
@settings(max_examples=examples(100), deadline=None)
def test_what_the_agent_believes_to_be_held_is_held(story: list[Step]) -> None:
    policy, keeper = FixedPolicy("only"), RealKeeper()
    node = RealNode(new_agent(policy, all_policies=False), PODS, cpus=2, keeper=keeper)
    for step in story:
        policy.wants = step.wants
        said: Instructions = node.tick(step.passes_s * SECOND)
        held = {lease.target: lease.value for lease in keeper.executor.leases()}
        believed = {hold.target: hold.value for hold in node.agent.held_knobs() if hold.state == "held"}
        assert believed.items() <= held.items(), said


test_first_cases = first_cases(
    test_without_desired_values_every_knob_is_restored,
    test_leases_of_a_dead_agent_expire,
    test_a_clean_stop_leaves_nothing,
    test_what_the_agent_believes_to_be_held_is_held,
    most=3,
)
