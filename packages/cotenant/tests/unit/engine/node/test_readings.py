"""Which knobs are read at which tick."""

from __future__ import annotations

from tests.fakes.node.fake_node import SECOND, weight

from cotenant.engine.node.knobs.readings import KnobReadings
from cotenant.model.machine.knob import Knob, KnobTarget

AGE = 10 * SECOND
MANY = [weight(f"g{i:03}") for i in range(100)]


def readings(*targets: KnobTarget) -> KnobReadings:
    made = KnobReadings(AGE, SECOND)
    made.track(set(targets))
    return made


def test_unknown_values_are_due_at_once_in_order() -> None:
    assert readings(*reversed(MANY)).due(0) == tuple(MANY)


def test_old_values_are_read_a_few_at_a_time_and_none_grows_older_than_twice_the_age() -> None:
    made = readings(*MANY)
    read_at = dict.fromkeys(MANY, 0)
    made.read(made.due(0), dict.fromkeys(MANY, "100"), 0)
    most = 0
    for second in range(1, 100):
        now = second * SECOND
        due = made.due(now)
        most = max(most, len(due))
        made.read(due, dict.fromkeys(due, "100"), now)
        read_at.update(dict.fromkeys(due, now))
        assert now - min(read_at.values()) < 2 * AGE
    assert most == 20


def test_an_unreadable_knob_is_unknown_and_not_retried_at_every_tick() -> None:
    a, b = weight("a"), weight("b")
    made = readings(a, b)
    made.read((a, b), {a: "1", b: "2"}, 0)
    assert made.values() == {a: "1", b: "2"}
    made.read((a, b), {b: "2"}, AGE)
    assert made.values() == {b: "2"}
    assert made.due(AGE + SECOND) == ()
    assert made.due(2 * AGE) == (a, b)


def test_for_a_new_group_only_values_read_just_now_are_known() -> None:
    a, b, other = weight("a"), KnobTarget("a", Knob.CPU_IDLE), weight("b")
    made = readings(a, b, other)
    made.read((a, b, other), {a: "1", b: "0", other: "2"}, 0)
    made.read((a,), {a: "3"}, SECOND)
    made.forget_groups(frozenset({"a"}), SECOND)
    assert made.values() == {a: "3", other: "2"}
    assert made.due(SECOND) == (b,)


def test_knobs_no_longer_tracked_are_forgotten() -> None:
    a, b = weight("a"), weight("b")
    made = readings(a, b)
    made.read((a, b), {a: "1", b: "2"}, 0)
    made.track({b})
    made.confirmed(a, "5", 1)
    assert (len(made), dict(made.values())) == (1, {b: "2"})


def test_returned_values_are_immutable() -> None:
    a = weight("a")
    made = readings(a)
    made.confirmed(a, "1", 0)
    before = made.values()
    made.confirmed(a, "2", 1)
    assert (before[a], made.values()[a]) == ("1", "2")
    made.forget(a)
    assert made.values() == {}
    assert made.due(1) == (a,)
