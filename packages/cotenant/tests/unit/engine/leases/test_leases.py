"""The lease state machine, step by step, over in-memory knobs that behave like a kernel's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.node.kept_knobs import KeptKnobs
from tests.fakes.node.lease_world import BURST, HALF, HIGH, QUOTA, REASON, WEIGHT, World, kinds

from cotenant.engine.leases.instructions import (
    DropLeases,
    Persist,
    Restore,
    Write,
)
from cotenant.engine.leases.leases import Leases
from cotenant.engine.leases.transitions import LEGAL, OVER, LeaseHistory
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.machine.knob import (
    Knob,
    KnobTarget,
    LeaseState,
    SetKnob,
    Vanished,
)


@pytest.fixture
def world() -> World:
    return World()


def test_original_values_are_persisted_in_one_durable_write_before_any_knob_is_written(world: World) -> None:
    assert world.hold((QUOTA, HALF), (HIGH, "8192")) == [LeaseState.HELD, LeaseState.HELD]
    assert kinds(world.executed) == [
        *("ReadCurrent", "ReadCurrent", "Persist"),
        *("Write", "ReadBack", "Write", "ReadBack"),
        *("Persist", "AuditLine", "AuditLine"),
    ]
    first, last = (step for step in world.executed if isinstance(step, Persist))
    assert (first.durable, last.durable) == (True, False)
    assert [(lease.state, lease.raw_before) for lease in first.leases] == [
        (LeaseState.INTENDED, '["cpu.max", "max 100000"]'),
        (LeaseState.INTENDED, '["memory.high", "max"]'),
    ]
    assert [lease.stands for lease in last.leases] == [HALF, "8192"]


def test_a_renewal_writes_neither_disk_nor_knob(world: World) -> None:
    world.hold((QUOTA, HALF))
    world.now_us = 90
    assert world.hold((QUOTA, HALF)) == [LeaseState.HELD]
    assert kinds(world.executed) == ["ReadCurrent"]
    world.tick(150)
    assert world.state == {QUOTA: LeaseState.HELD}
    world.tick(190)
    assert world.state == {}
    assert world.knobs.snapshot() == {}


def test_a_changed_value_keeps_the_first_original(world: World) -> None:
    world.knobs.set_outside(QUOTA, "80000 100000")
    world.hold((QUOTA, HALF))
    assert world.hold((QUOTA, "20000 100000")) == [LeaseState.HELD]
    assert world.knobs.read(QUOTA) == "20000 100000"
    assert next(step for step in world.executed if isinstance(step, Persist)).durable
    assert world.give_back(QUOTA) == [LeaseState.RESTORED]
    assert world.knobs.read(QUOTA) == "80000 100000"


def test_expiry_restores_and_records_the_cause(world: World) -> None:
    world.hold((QUOTA, HALF), ttl_us=10)
    assert world.engine.due_at_us() == 10
    world.tick(9)
    assert world.knobs.read(QUOTA) == HALF
    world.tick(10)
    assert world.knobs.read(QUOTA) == "max 100000"
    assert world.engine.due_at_us() is None
    last = world.audited[-1]
    assert (last.cause.rule, last.before, last.asked, last.after) == ("lease-expired", HALF, "max 100000", "max 100000")
    assert (last.result, last.who) == (LeaseState.RESTORED, "keeper")


def test_the_current_value_is_compared_with_the_read_back_not_with_the_request(world: World) -> None:
    world.hold((HIGH, "10000"))
    (lease,) = world.engine.leases()
    assert (lease.value, lease.stands, lease.detail) == ("10000", "8192", "reads 8192")
    assert world.hold((HIGH, "10000")) == [LeaseState.HELD]
    assert kinds(world.executed) == ["ReadCurrent"]
    assert world.give_back(HIGH) == [LeaseState.RESTORED]


@pytest.mark.parametrize("how", ["renewed", "changed", "given back", "expired"])
def test_a_foreign_value_is_left_alone(world: World, how: str) -> None:
    world.hold((QUOTA, HALF))
    world.knobs.set_outside(QUOTA, "70000 100000")
    if how == "expired":
        world.tick(100)
    else:
        states = (
            world.give_back(QUOTA)
            if how == "given back"
            else world.hold((QUOTA, HALF if how == "renewed" else "max 100000"))
        )
        assert states == [LeaseState.YIELDED]
    assert world.knobs.read(QUOTA) == "70000 100000"
    assert world.state == {}
    assert world.audited[-1].result is LeaseState.YIELDED
    assert "70000" in world.audited[-1].detail
    assert any(isinstance(step, DropLeases) for step in world.executed)


def test_a_foreign_write_of_the_original_value_counts_as_restored(world: World) -> None:
    world.hold((QUOTA, HALF))
    world.knobs.set_outside(QUOTA, "max 100000")
    before = len(world.knobs.journal)
    assert world.give_back(QUOTA) == [LeaseState.RESTORED]
    assert len(world.knobs.journal) == before


def test_after_yielding_the_next_lease_keeps_the_foreign_value_as_original(world: World) -> None:
    world.hold((QUOTA, HALF))
    world.knobs.set_outside(QUOTA, "70000 100000")
    world.hold((QUOTA, HALF))
    assert world.hold((QUOTA, HALF)) == [LeaseState.HELD]
    world.give_back(QUOTA)
    assert world.knobs.read(QUOTA) == "70000 100000"


def test_a_recreated_group_does_not_get_the_old_groups_value(world: World) -> None:
    world.knobs.set_outside(QUOTA, "80000 100000")
    world.hold((QUOTA, "max 100000"))
    world.knobs.remove("be/a")
    world.knobs.add("be/a")  # reads "max 100000", as our lease would
    assert world.hold((QUOTA, "max 100000")) == [LeaseState.GONE]
    world.hold((QUOTA, HALF))
    world.knobs.remove("be/a")
    world.knobs.add("be/a")
    world.knobs.set_outside(QUOTA, HALF)
    assert world.give_back(QUOTA) == [LeaseState.GONE]
    assert world.knobs.read(QUOTA) == HALF


def test_a_recreated_group_is_recognized_by_identity_where_its_knob_cannot_be_read(world: World) -> None:
    world.hold((QUOTA, HALF))
    world.knobs.remove("be/a")
    world.knobs.add("be/a")
    world.knobs.fail("read", QUOTA, InvalidInput("cpu.max", "?", "numbers"))
    assert world.give_back(QUOTA) == [LeaseState.GONE]
    assert not any(isinstance(step, Restore) for step in world.executed)


@pytest.mark.parametrize("when", ["before", "write", "read back", "held"])
def test_a_vanished_group_ends_its_lease(world: World, when: str) -> None:
    gone = Vanished("gone")
    if when == "before":
        world.knobs.remove("be/a")
    elif when == "write":
        world.knobs.fail("write", QUOTA, gone)
    elif when == "read back":
        world.engine.hold([SetKnob(QUOTA, HALF, REASON)], 0, 1.0)
        while stage := world.engine.next():
            for step in stage:
                world._execute(step)
                if isinstance(step, Write):
                    world.knobs.fail("read", QUOTA, gone)
        assert [answer.state for answer in world.engine.answers()] == [LeaseState.GONE]
        assert world.state == {}
        return
    states = world.hold((QUOTA, HALF))
    if when == "held":
        world.knobs.remove("be/a")
        states = world.give_back(QUOTA)
    assert states == [LeaseState.GONE]
    assert world.state == {}


def test_a_new_lease_that_the_kernel_refuses_leaves_nothing(world: World) -> None:
    world.knobs.set_outside(QUOTA, "5000 100000")
    assert world.hold((BURST, "9000"), (HIGH, "4096")) == [LeaseState.REFUSED, LeaseState.HELD]
    assert world.state == {HIGH: LeaseState.HELD}
    assert world.engine.answers()[0].detail
    assert DropLeases((BURST,)) in world.executed


def test_a_change_that_the_kernel_refuses_leaves_the_held_value_until_it_expires(world: World) -> None:
    world.hold((QUOTA, HALF))
    world.knobs.fail("write", QUOTA, InvalidInput("cpu.max", "x", "less"))
    world.now_us = 50
    assert world.hold((QUOTA, "20000 100000")) == [LeaseState.REFUSED]
    (lease,) = world.engine.leases()
    assert (lease.state, lease.value, lease.expires_at_us) == (LeaseState.HELD, HALF, 100)
    world.tick(100)
    assert world.knobs.snapshot() == {}


def test_a_partial_write_is_restored(world: World) -> None:
    half_done = Permanent("broken off")

    class HalfDone(KeptKnobs):
        def write(self, target: KnobTarget, value: str) -> None:
            super().write(target, value)
            raise half_done

    world.knobs = HalfDone(["be/a"])
    assert world.hold((QUOTA, HALF)) == [LeaseState.REFUSED]
    assert world.state == {QUOTA: LeaseState.RESTORING}
    world.tick(1)
    assert world.state == {}
    assert world.knobs.snapshot() == {}


def test_a_failed_restore_is_retried_with_backoff_and_stays_persisted(world: World) -> None:
    world.hold((QUOTA, HALF), ttl_us=10)
    world.knobs.fail("restore", QUOTA, Transient("busy"), Transient("busy"))
    world.tick(10)
    (lease,) = world.engine.leases()
    assert (lease.state, lease.detail) == (LeaseState.RESTORING, "busy")
    assert not any(isinstance(step, DropLeases) for step in world.executed)
    assert world.engine.due_at_us() == 250_010
    world.tick(250_010)
    assert world.engine.due_at_us() == 750_010
    world.tick(750_010)
    assert world.state == {}
    assert world.knobs.snapshot() == {}


def test_holding_a_knob_that_is_being_restored_keeps_its_original_value(world: World) -> None:
    world.knobs.set_outside(QUOTA, "80000 100000")
    world.hold((QUOTA, HALF))
    world.knobs.fail("restore", QUOTA, Transient("busy"))
    world.give_back(QUOTA)
    assert world.hold((QUOTA, "20000 100000")) == [LeaseState.HELD]
    world.give_back(QUOTA)
    assert world.knobs.read(QUOTA) == "80000 100000"


def test_a_restore_without_reading_happens_only_after_several_failed_readings(world: World) -> None:
    world.hold((QUOTA, HALF), ttl_us=10)
    world.knobs.set_outside(QUOTA, "70000 100000")
    world.knobs.fail("read", QUOTA, Transient("interrupted"))
    world.tick(10)
    assert world.state == {QUOTA: LeaseState.RESTORING}
    world.tick(10_000_000)
    assert world.audited[-1].result is LeaseState.YIELDED
    assert world.knobs.read(QUOTA) == "70000 100000"
    world.hold((HIGH, "4096"), ttl_us=10)
    world.knobs.fail("raw", HIGH, *[Transient("interrupted")] * 4)
    for second in range(20, 60, 10):
        assert HIGH in world.state
        world.tick(second * 1_000_000)
    assert world.state == {}
    assert world.knobs.read(HIGH) == "max"


def test_a_retried_restore_keeps_its_cause(world: World) -> None:
    world.hold((QUOTA, HALF))
    world.knobs.fail("restore", QUOTA, Transient("busy"))
    world.give_back(QUOTA)
    world.tick(10_000_000)
    assert [change.cause for change in world.audited[-2:]] == [REASON, REASON]


def test_a_foreign_write_between_two_tries_is_left_alone(world: World) -> None:
    world.hold((QUOTA, HALF))
    world.knobs.fail("restore", QUOTA, Transient("busy"))
    world.give_back(QUOTA)
    world.knobs.set_outside(QUOTA, "70000 100000")
    world.tick(10_000_000)
    assert world.state == {}
    assert world.knobs.read(QUOTA) == "70000 100000"


def test_with_a_full_disk_no_new_knob_is_written_but_renewals_and_restores_continue(world: World) -> None:
    world.hold((QUOTA, HALF))
    world.disk_full = True
    assert world.hold((QUOTA, HALF), (HIGH, "4096")) == [LeaseState.HELD, LeaseState.REFUSED]
    assert "no space" in world.engine.answers()[1].detail
    assert HIGH not in world.state
    assert world.hold((QUOTA, "20000 100000")) == [LeaseState.REFUSED]
    assert world.knobs.snapshot() == {QUOTA: HALF}
    assert world.give_back(QUOTA) == [LeaseState.RESTORED]
    assert world.knobs.snapshot() == {}


def test_two_requests_for_one_knob_are_executed_in_order(world: World) -> None:
    assert world.hold((QUOTA, HALF), (QUOTA, "20000 100000")) == [LeaseState.HELD, LeaseState.HELD]
    assert world.knobs.read(QUOTA) == "20000 100000"
    world.give_back(QUOTA)
    assert world.knobs.snapshot() == {}


def test_giving_back_what_is_not_held_answers_restored(world: World) -> None:
    assert world.give_back(QUOTA) == [LeaseState.RESTORED]
    assert not world.executed


def test_the_number_of_leases_is_bounded(world: World) -> None:
    for number in range(9):
        world.knobs.add(f"be/{number}")
    states = world.hold(*[(KnobTarget(f"be/{number}", Knob.MEMORY_HIGH), "4096") for number in range(9)])
    assert states == [LeaseState.HELD] * 8 + [LeaseState.REFUSED]


def test_a_knob_that_cannot_be_undone_is_refused(world: World) -> None:
    with pytest.raises(InvalidInput, match="can be restored"):
        world.hold((KnobTarget("be/a", Knob.MEMORY_RECLAIM), "4096"))


def test_several_knobs_are_restored_in_an_order_that_the_kernel_accepts(world: World) -> None:
    world.knobs.set_outside(QUOTA, "10000 100000")
    world.knobs.set_outside(BURST, "8000")
    world.hold((QUOTA, HALF), (BURST, "40000"))
    assert world.give_back(QUOTA, BURST) == [LeaseState.RESTORED, LeaseState.RESTORED]
    assert [target for what, target, _ in world.knobs.journal if what == "restore"] == [BURST, QUOTA]
    assert world.knobs.snapshot() == {QUOTA: "10000 100000", BURST: "8000"}


def test_a_value_is_bounded_by_the_original_and_not_by_the_held_value(world: World) -> None:
    world.engine = Leases(bound=lambda target, value, before: "too much" if int(value) > int(before) else None)
    assert world.hold((WEIGHT, "101")) == [LeaseState.REFUSED]
    assert world.hold((WEIGHT, "50")) == [LeaseState.HELD]
    assert world.hold((WEIGHT, "100")) == [LeaseState.HELD]
    assert world.hold((WEIGHT, "101")) == [LeaseState.REFUSED]
    assert world.knobs.read(WEIGHT) == "100"


# after a crash


def test_an_intended_lease_found_after_a_crash_is_restored_unconditionally(world: World) -> None:
    world.hold((QUOTA, HALF), (HIGH, "8192"))
    found = [replace(lease, state=LeaseState.INTENDED) for lease in world.engine.leases()]
    world.knobs.set_outside(QUOTA, "20000 100000")  # possibly the value that was being written
    world.engine = Leases()
    world.engine.restart(found, 0, 5.0)
    assert [answer.state for answer in world.run_round()] == [LeaseState.RESTORED] * 2
    assert world.knobs.snapshot() == {}
    assert {change.cause.rule for change in world.audited[-2:]} == {"left-behind"}


def test_a_held_lease_found_after_a_crash_yields_to_a_foreign_write(world: World) -> None:
    world.hold((QUOTA, HALF))
    found = world.engine.leases()
    world.knobs.set_outside(QUOTA, "70000 100000")
    world.engine = Leases()
    world.engine.restart(found, 0, 5.0)
    assert [answer.state for answer in world.run_round()] == [LeaseState.YIELDED]
    assert world.knobs.read(QUOTA) == "70000 100000"


def test_a_state_file_with_a_lease_that_is_over_raises(world: World) -> None:
    world.hold((QUOTA, HALF))
    over = replace(world.engine.leases()[0], state=LeaseState.RESTORED)
    with pytest.raises(Permanent, match="restored"):
        Leases().restart([over], 0, 1.0)


# the table


def test_an_illegal_change_raises_with_the_pods_history() -> None:
    history = LeaseHistory(QUOTA)
    history.transition(LeaseState.INTENDED, 1.0)
    history.transition(LeaseState.HELD, 2.0)
    with pytest.raises(Permanent, match=r"from held to refused.*1\.000 s: intended.*2\.000 s: held"):
        history.transition(LeaseState.REFUSED, 3.0)


def test_final_states_have_no_transitions() -> None:
    assert not [edge for edge in LEGAL if edge[0] in OVER]


def test_one_round_at_a_time(world: World) -> None:
    world.engine.hold([SetKnob(QUOTA, HALF, REASON)], 0, 1.0)
    with pytest.raises(Permanent, match="under way"):
        world.engine.tick(1, 1.0)
