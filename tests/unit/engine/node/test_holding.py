"""What the engine's accounts notice, and what its clock does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.fake_node import SECOND, pod, weight

from cotenant.engine.node.clock import NodeClock
from cotenant.engine.node.evictions import Evictions
from cotenant.engine.node.holding import LEGAL, Holding, Standing
from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.plan import Wanted
from cotenant.engine.node.settings import AgentSettings, EvictionLimits
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.knob import LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import EvictPod, Reason
from cotenant.model.machine.verdict import Verdict

W = weight("pods/a")
REASON = Reason("r", "t")
WANTED = {W: Wanted(SetKnob(W, "10", REASON), "a")}
FRESH = frozenset({"a"})


def held() -> Holding:
    holding = Holding(AgentSettings(), AgentCounts())
    holding.change(WANTED, FRESH, SECOND)
    holding.answered(LeaseAnswer(W, LeaseState.HELD), SECOND)
    return holding


def test_every_standing_has_its_legal_followers_and_can_end() -> None:
    assert set(LEGAL) == {None, *Standing}
    assert all(None in LEGAL[standing] for standing in Standing)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("target", weight("pods/b"), "is kept as"),
        ("expires_us", 10**12, "longer than a lease"),
    ],
)
def test_an_entry_that_is_wrong_is_noticed(field: str, value: object, message: str) -> None:
    holding = held()
    entry = holding.get(W)
    assert entry is not None
    setattr(entry, field, value)
    with pytest.raises(Permanent, match=message):
        holding.validate(SECOND)


def test_a_wish_that_says_no_time_is_held_for_the_agents_lease_and_another_for_no_longer() -> None:
    for said_us, told_us in ((None, 180 * SECOND), (SECOND, SECOND), (200 * SECOND, 180 * SECOND)):
        holding = Holding(AgentSettings(period_us=60 * SECOND, lease_us=180 * SECOND), AgentCounts())
        changes = holding.change({W: Wanted(SetKnob(W, "10", REASON, said_us), "a")}, FRESH, SECOND)
        assert [wish.ttl_us for wish in changes.hold] == [told_us]


def test_an_illegal_step_raises_with_the_story() -> None:
    holding = held()
    entry = holding.get(W)
    assert entry is not None
    entry.standing = Standing.RETURNING
    with pytest.raises(Permanent, match="cannot go from returning to held"):
        holding._move(entry, Standing.HELD)


def test_a_rest_with_something_asked_or_without_an_end_is_noticed() -> None:
    holding = held()
    entry = holding.get(W)
    assert entry is not None
    entry.standing, entry.rest_until_us = Standing.REFUSED, 10**12
    with pytest.raises(Permanent, match="rests longer"):
        holding.validate(SECOND)


@pytest.mark.parametrize("state", [LeaseState.RESTORED, LeaseState.YIELDED, LeaseState.GONE, LeaseState.REFUSED])
def test_giving_back_ends_with_any_last_answer(state: LeaseState) -> None:
    holding = held()
    assert holding.change({}, FRESH, 2 * SECOND).give_back
    holding.answered(LeaseAnswer(W, state), 2 * SECOND)
    assert len(holding) == 0


def test_a_keeper_that_is_still_restoring_is_asked_again_until_the_lease_is_over() -> None:
    holding = held()
    asked = []
    for second in range(2, 60):
        if holding.change({}, FRESH, second * SECOND).give_back:
            asked.append(second)
            holding.answered(LeaseAnswer(W, LeaseState.RESTORING, "EBUSY"), second * SECOND)
        holding.validate(second * SECOND)
    assert asked == [2, 7, 12, 17, 22, 27]
    assert len(holding) == 0


def test_wanted_again_while_it_goes_back_it_is_told_anew() -> None:
    holding = held()
    holding.change({}, FRESH, 2 * SECOND)
    assert holding.change(WANTED, FRESH, 3 * SECOND).hold
    holding.answered(LeaseAnswer(W, LeaseState.RESTORED), 3 * SECOND)
    holding.answered(LeaseAnswer(W, LeaseState.HELD), 3 * SECOND)
    entry = holding.get(W)
    assert entry is not None
    assert entry.standing is Standing.HELD
    assert not holding.change(WANTED, FRESH, 4 * SECOND).hold


def test_a_lease_that_ended_with_its_group_is_told_once_more_and_then_rests() -> None:
    holding = held()
    told = []
    for second in range(2, 20):
        if holding.change(WANTED, FRESH, second * SECOND).hold:
            told.append(second)
            holding.answered(LeaseAnswer(W, LeaseState.GONE, "no such group"), second * SECOND)
        holding.validate(second * SECOND)
    assert told == [11, 12, 17]


def test_what_is_held_of_a_group_that_came_is_told_again_at_once() -> None:
    holding = held()
    holding.ask_again(frozenset({"pods/b"}), 2 * SECOND)
    assert not holding.change(WANTED, FRESH, 2 * SECOND).hold
    holding.ask_again(frozenset({W.group}), 3 * SECOND)
    assert holding.change(WANTED, FRESH, 3 * SECOND).hold


def test_a_lease_that_was_over_before_its_renewal_is_told_anew() -> None:
    holding = held()
    holding.change(WANTED, FRESH, 12 * SECOND)
    holding.answered(LeaseAnswer(W, LeaseState.RESTORED, "expired"), 12 * SECOND)
    assert holding.change(WANTED, FRESH, 13 * SECOND).hold


def test_a_clock_that_goes_back_goes_on_and_late_events_do_not_move_it() -> None:
    clock = NodeClock()
    assert [clock.at(at) for at in (100, 200, 150, 10_000_000)] == [100, 200, 200, 10_000_000]
    assert clock.at(5_000_000) == 10_000_000
    assert clock.at(6_000_000) == 11_000_000
    assert clock.went_back == 1


def test_an_eviction_without_an_answer_or_an_end_gives_way_to_the_next_and_may_be_asked_again() -> None:
    limits = EvictionLimits(per_minute=9, per_hour=99, per_tenant_per_hour=99, outstanding=1)
    evictions = Evictions(limits, AgentCounts())
    a, b = pod("a", "a", QoSClass.BE), pod("b", "b", QoSClass.BE)
    wishes = (("p", Verdict((), evictions=tuple(EvictPod(one.uid, one.key, REASON) for one in (a, b)))),)
    asked = []
    for second in range(800):
        for _, wish in evictions.choose(wishes, {a.uid: a, b.uid: b}, second * SECOND):
            asked.append((second, wish.uid))
            if second >= 60:
                evictions.answered(wish.uid, True, "", second * SECOND)
        evictions.validate(second * SECOND)
    assert asked == [(0, "uid-a"), (60, "uid-b"), (660, "uid-a")]
    assert evictions.paced() == {"uid-b": "1 asked to leave and still here"}


def test_an_eviction_beyond_the_limits_is_noticed() -> None:
    evictions = Evictions(EvictionLimits(), AgentCounts())
    evictions._history.extend([(SECOND, "t")] * 3)
    with pytest.raises(Permanent, match="more evictions"):
        evictions.validate(SECOND)


@pytest.mark.parametrize(
    "wrong",
    [
        {"period_us": 0},
        {"lease_us": 2 * SECOND},
        {"refused_us": 10, "refused_most_us": 5},
        {"roots": ("/pods",)},
        {"roots": ("pods/../..",)},
        {"reserved_cpu_m": -1},
        {"best_effort_group": "be/"},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        replace(AgentSettings(), **wrong)  # type: ignore[arg-type]


def test_limits_of_evictions_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidInput):
        EvictionLimits(per_hour=-1)
    with pytest.raises(InvalidInput):
        EvictionLimits(answer_us=0)
