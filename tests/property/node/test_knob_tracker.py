"""Skipping the per-knob checks while the desired values do not change must not change the requests to the keeper."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.node.fake_node import SECOND, weight
from tests.property.few import first_cases

from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.knobs.knob_tracker import KnobTracker
from cotenant.engine.node.knobs.plan import Desired
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.machine.knob import Knob, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason

TARGETS = (weight("pods/a"), weight("pods/b"), KnobTarget("pods/a", Knob.MEMORY_RECLAIM))


def desired(target: KnobTarget, value: str, policy: str = "p") -> Desired:
    return Desired(SetKnob(target, value, Reason("r", f"{policy} wants {value}"), 9 * SECOND), policy)


PLANS: tuple[Mapping[KnobTarget, Desired], ...] = (
    {},
    {TARGETS[0]: desired(TARGETS[0], "10")},
    {target: desired(target, "10") for target in TARGETS[:2]},
    {TARGETS[0]: desired(TARGETS[0], "20", "q"), TARGETS[1]: desired(TARGETS[1], "10")},
    {target: desired(target, "4096") for target in TARGETS},
)
event_lists = st.lists(
    st.one_of(
        st.tuples(st.just("tick"), st.integers(0, len(PLANS) - 1), st.integers(1, 4)),
        st.tuples(st.just("answer"), st.sampled_from(TARGETS), st.sampled_from(list(LeaseState))),
        st.tuples(st.just("all held")),
        st.tuples(st.just("unreachable")),
        st.tuples(st.just("found")),
        st.tuples(st.just("created")),
    ),
    max_size=40,
)


@pytest.mark.slow
@given(event_lists)
def test_unchanged_desired_values_give_the_same_requests_as_a_fresh_mapping(events: list[tuple[object, ...]]) -> None:
    checked, cached = KnobTracker(AgentSettings(), AgentCounts()), KnobTracker(AgentSettings(), AgentCounts())
    now_us = SECOND
    for event in events:
        match event:
            case ("tick", int(which), int(times)):
                for _ in range(times):
                    now_us += SECOND
                    fresh = frozenset({"p", "q"})
                    changes = cached.change(PLANS[which], fresh, now_us)
                    assert changes == checked.change(dict(PLANS[which]), fresh, now_us)
                    cached.validate(now_us)
            case ("answer", KnobTarget() as target, LeaseState() as state):
                for tracker in (checked, cached):
                    tracker.answered(LeaseAnswer(target, state, "detail"), now_us)
            case ("all held",):
                for tracker in (checked, cached):
                    for entry in tracker.entries():
                        while tracker.get(entry.target) is entry and entry.pending:
                            tracker.answered(LeaseAnswer(entry.target, LeaseState.HELD), now_us)
            case ("unreachable",):
                checked.unreachable()
                cached.unreachable()
            case ("found",):
                checked.leases_found((), now_us)
                cached.leases_found((), now_us)
            case ("created",):
                checked.groups_changed(frozenset({"pods/a"}), now_us)
                cached.groups_changed(frozenset({"pods/a"}), now_us)
        assert checked.entries() == cached.entries()


test_first_cases = first_cases(
    test_unchanged_desired_values_give_the_same_requests_as_a_fresh_mapping,
)
