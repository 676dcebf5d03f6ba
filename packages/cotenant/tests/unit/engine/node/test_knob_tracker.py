"""The knob tracker's transitions and invariants; the agent's clock, eviction limits and settings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.node.fake_node import SECOND, pod, weight

from cotenant.engine.node.clock import NodeClock
from cotenant.engine.node.evictions import Evictions
from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.knobs.knob_entry import LEGAL, KnobStatus
from cotenant.engine.node.knobs.knob_tracker import KnobTracker
from cotenant.engine.node.knobs.plan import Desired
from cotenant.engine.node.settings import AgentSettings, EvictionLimits
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.knob import LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import EvictPod, Reason
from cotenant.model.machine.verdict import PolicyVerdict

W = weight("pods/a")
REASON = Reason("r", "t")
WANTED = {W: Desired(SetKnob(W, "10", REASON), "a")}
FRESH = frozenset({"a"})


def tracker_with_held_knob() -> KnobTracker:
    tracker = KnobTracker(AgentSettings(), AgentCounts())
    tracker.change(WANTED, FRESH, SECOND)
    tracker.answered(LeaseAnswer(W, LeaseState.HELD), SECOND)
    return tracker


def test_every_status_has_legal_successors_and_can_end() -> None:
    assert set(LEGAL) == {None, *KnobStatus}
    assert all(None in LEGAL[status] for status in KnobStatus)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("target", weight("pods/b"), "is stored as"),
        ("expires_us", 10**12, "longer than a lease"),
    ],
)
def test_validate_detects_a_corrupt_entry(field: str, value: object, message: str) -> None:
    tracker = tracker_with_held_knob()
    entry = tracker.get(W)
    assert entry is not None
    setattr(entry, field, value)
    with pytest.raises(Permanent, match=message):
        tracker.validate(SECOND)


def test_the_time_to_live_defaults_to_the_agents_lease_and_is_capped_by_it() -> None:
    for ttl_us, expected_us in ((None, 180 * SECOND), (SECOND, SECOND), (200 * SECOND, 180 * SECOND)):
        tracker = KnobTracker(AgentSettings(period_us=60 * SECOND, lease_us=180 * SECOND), AgentCounts())
        changes = tracker.change({W: Desired(SetKnob(W, "10", REASON, ttl_us), "a")}, FRESH, SECOND)
        assert [wish.ttl_us for wish in changes.hold] == [expected_us]


def test_an_illegal_transition_raises() -> None:
    tracker = tracker_with_held_knob()
    entry = tracker.get(W)
    assert entry is not None
    entry.status = KnobStatus.RETURNING
    with pytest.raises(Permanent, match="cannot go from returning to held"):
        tracker._move(entry, KnobStatus.HELD)


def test_validate_detects_a_backoff_longer_than_allowed() -> None:
    tracker = tracker_with_held_knob()
    entry = tracker.get(W)
    assert entry is not None
    entry.status, entry.retry_at_us = KnobStatus.REFUSED, 10**12
    with pytest.raises(Permanent, match="backs off longer"):
        tracker.validate(SECOND)


@pytest.mark.parametrize("state", [LeaseState.RESTORED, LeaseState.YIELDED, LeaseState.GONE, LeaseState.REFUSED])
def test_any_final_answer_ends_a_release(state: LeaseState) -> None:
    tracker = tracker_with_held_knob()
    assert tracker.change({}, FRESH, 2 * SECOND).give_back
    tracker.answered(LeaseAnswer(W, state), 2 * SECOND)
    assert len(tracker) == 0


def test_a_release_is_repeated_while_the_keeper_is_restoring_until_the_lease_expires() -> None:
    tracker = tracker_with_held_knob()
    requested = []
    for second in range(2, 60):
        if tracker.change({}, FRESH, second * SECOND).give_back:
            requested.append(second)
            tracker.answered(LeaseAnswer(W, LeaseState.RESTORING, "EBUSY"), second * SECOND)
        tracker.validate(second * SECOND)
    assert requested == [2, 7, 12, 17, 22, 27]
    assert len(tracker) == 0


def test_a_knob_desired_again_during_its_release_is_requested_again() -> None:
    tracker = tracker_with_held_knob()
    tracker.change({}, FRESH, 2 * SECOND)
    assert tracker.change(WANTED, FRESH, 3 * SECOND).hold
    tracker.answered(LeaseAnswer(W, LeaseState.RESTORED), 3 * SECOND)
    tracker.answered(LeaseAnswer(W, LeaseState.HELD), 3 * SECOND)
    entry = tracker.get(W)
    assert entry is not None
    assert entry.status is KnobStatus.HELD
    assert not tracker.change(WANTED, FRESH, 4 * SECOND).hold


def test_a_lease_that_ended_with_its_group_is_requested_once_more_and_then_backs_off() -> None:
    tracker = tracker_with_held_knob()
    requested = []
    for second in range(2, 20):
        if tracker.change(WANTED, FRESH, second * SECOND).hold:
            requested.append(second)
            tracker.answered(LeaseAnswer(W, LeaseState.GONE, "no such group"), second * SECOND)
        tracker.validate(second * SECOND)
    assert requested == [11, 12, 17]


def test_knobs_of_a_new_group_are_requested_again_at_once() -> None:
    tracker = tracker_with_held_knob()
    tracker.groups_changed(frozenset({"pods/b"}), 2 * SECOND)
    assert not tracker.change(WANTED, FRESH, 2 * SECOND).hold
    tracker.groups_changed(frozenset({W.group}), 3 * SECOND)
    assert tracker.change(WANTED, FRESH, 3 * SECOND).hold


def test_a_lease_that_expired_before_its_renewal_is_requested_again() -> None:
    tracker = tracker_with_held_knob()
    tracker.change(WANTED, FRESH, 12 * SECOND)
    tracker.answered(LeaseAnswer(W, LeaseState.RESTORED, "expired"), 12 * SECOND)
    assert tracker.change(WANTED, FRESH, 13 * SECOND).hold


def test_the_clock_continues_after_going_back_and_late_events_do_not_move_it() -> None:
    clock = NodeClock()
    assert [clock.at(at) for at in (100, 200, 150, 10_000_000)] == [100, 200, 200, 10_000_000]
    assert clock.at(5_000_000) == 10_000_000
    assert clock.at(6_000_000) == 11_000_000
    assert clock.went_back == 1


def test_an_eviction_without_outcome_times_out_and_may_be_requested_again() -> None:
    limits = EvictionLimits(per_minute=9, per_hour=99, per_tenant_per_hour=99, outstanding=1)
    evictions = Evictions(limits, AgentCounts())
    a, b = pod("a", "a", QoSClass.BE), pod("b", "b", QoSClass.BE)
    verdicts = (("p", PolicyVerdict((), evictions=tuple(EvictPod(one.uid, one.key, REASON) for one in (a, b)))),)
    requested = []
    for second in range(800):
        for _, evict_pod in evictions.choose(verdicts, {a.uid: a, b.uid: b}, second * SECOND):
            requested.append((second, evict_pod.uid))
            if second >= 60:
                evictions.answered(evict_pod.uid, True, "", second * SECOND)
        evictions.validate(second * SECOND)
    assert requested == [(0, "uid-a"), (60, "uid-b"), (660, "uid-a")]
    assert evictions.paced() == {"uid-b": "1 outstanding"}


def test_validate_detects_more_evictions_than_the_limits() -> None:
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
def test_invalid_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        replace(AgentSettings(), **wrong)  # type: ignore[arg-type]


def test_invalid_eviction_limits_are_refused() -> None:
    with pytest.raises(InvalidInput):
        EvictionLimits(per_hour=-1)
    with pytest.raises(InvalidInput):
        EvictionLimits(answer_us=0)
