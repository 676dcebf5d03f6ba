"""That nothing is looked at while the same wishes stand must change nothing that the keeper is told."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.fake_node import SECOND, weight

from cotenant.engine.node.holding import Holding
from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.plan import Wanted
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.machine.knob import Knob, LeaseAnswer, LeaseState, SetKnob, Target
from cotenant.model.machine.node_decision import Reason

TARGETS = (weight("pods/a"), weight("pods/b"), Target("pods/a", Knob.MEMORY_RECLAIM))


def wish(target: Target, value: str, policy: str = "p") -> Wanted:
    return Wanted(SetKnob(target, value, Reason("r", f"{policy} wants {value}"), 9 * SECOND), policy)


WISHES: tuple[Mapping[Target, Wanted], ...] = (
    {},
    {TARGETS[0]: wish(TARGETS[0], "10")},
    {target: wish(target, "10") for target in TARGETS[:2]},
    {TARGETS[0]: wish(TARGETS[0], "20", "q"), TARGETS[1]: wish(TARGETS[1], "10")},
    {target: wish(target, "4096") for target in TARGETS},
)
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("tick"), st.integers(0, len(WISHES) - 1), st.integers(1, 4)),
        st.tuples(st.just("answer"), st.sampled_from(TARGETS), st.sampled_from(list(LeaseState))),
        st.tuples(st.just("all held")),
        st.tuples(st.just("unreachable")),
        st.tuples(st.just("found")),
        st.tuples(st.just("came")),
    ),
    max_size=40,
)


@given(happenings)
def test_the_same_wishes_again_are_as_wishes_that_are_new(story: list[tuple[object, ...]]) -> None:
    looks, rests = Holding(AgentSettings(), AgentCounts()), Holding(AgentSettings(), AgentCounts())
    now_us = SECOND
    for happening in story:
        match happening:
            case ("tick", int(which), int(times)):
                for _ in range(times):
                    now_us += SECOND
                    fresh = frozenset({"p", "q"})
                    told = rests.change(WISHES[which], fresh, now_us)
                    assert told == looks.change(dict(WISHES[which]), fresh, now_us)
                    rests.validate(now_us)
            case ("answer", Target() as target, LeaseState() as state):
                for holding in (looks, rests):
                    holding.answered(LeaseAnswer(target, state, "said so"), now_us)
            case ("all held",):
                for holding in (looks, rests):
                    for entry in holding.entries():
                        while holding.get(entry.target) is entry and entry.asks:
                            holding.answered(LeaseAnswer(entry.target, LeaseState.HELD), now_us)
            case ("unreachable",):
                looks.unreachable()
                rests.unreachable()
            case ("found",):
                looks.found((), now_us)
                rests.found((), now_us)
            case ("came",):
                looks.ask_again(frozenset({"pods/a"}), now_us)
                rests.ask_again(frozenset({"pods/a"}), now_us)
        assert looks.entries() == rests.entries()
