"""The lease state machine, step by step, over in-memory knobs that behave like a kernel's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pytest
from tests.fakes.kept_knobs import KeptKnobs

from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.leases.instructions import (
    Audit,
    Drop,
    Failure,
    FailureKind,
    Instruction,
    Persist,
    ReadBack,
    ReadCurrent,
    Reading,
    Restore,
    Write,
)
from cotenant.engine.leases.leases import Leases
from cotenant.engine.leases.table import LeaseTable
from cotenant.engine.leases.transitions import LEGAL, OVER, LeaseHistory
from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient
from cotenant.model.machine.knob import (
    GiveBack,
    Knob,
    KnobChange,
    KnobLease,
    LeaseAnswer,
    LeaseState,
    SetKnob,
    Target,
    Vanished,
)
from cotenant.model.machine.node_decision import Reason

REASON = Reason("test", "because")
QUOTA = Target("be/a", Knob.CPU_MAX)
BURST = Target("be/a", Knob.CPU_BURST)
HIGH = Target("be/a", Knob.MEMORY_HIGH)
WEIGHT = Target("be/a", Knob.CPU_WEIGHT)
IDLE = Target("be/a", Knob.CPU_IDLE)
HALF = "50000 100000"


class World:
    """Executes instructions, and records them."""

    def __init__(self) -> None:
        self.knobs = KeptKnobs(["be/a", "be/b"])
        self.engine = Leases(most=8)
        self.disk_full = False
        self.executed: list[Instruction] = []
        self.audited: list[KnobChange] = []
        self.now_us = 0

    def run_round(self) -> tuple[LeaseAnswer, ...]:
        self.executed = []
        while stage := self.engine.next():
            for instruction in stage:
                self.executed.append(instruction)
                self._execute(instruction)
        self.engine.validate()
        return self.engine.answers()

    def _execute(self, instruction: Instruction) -> None:
        match instruction:
            case Audit(change=change):
                self.audited.append(change)
            case Persist(durable=durable):
                if self.disk_full and durable:
                    self.engine.not_persisted("no space left on device")
                else:
                    self.engine.persisted()
            case ReadCurrent() | ReadBack() | Write() | Restore():
                try:
                    self._read_or_write(instruction)
                except CotenantError as error:
                    failure_kinds = {Vanished: FailureKind.GONE, Transient: FailureKind.TRANSIENT}
                    self.engine.failed(
                        instruction, Failure(failure_kinds.get(type(error), FailureKind.PERMANENT), str(error))
                    )

    def _read_or_write(self, instruction: ReadCurrent | ReadBack | Write | Restore) -> None:
        target = instruction.target
        match instruction:
            case Write(value=value):
                self.knobs.write(target, value)
                self.engine.written(target)
            case Restore(raw=raw):
                self.knobs.restore(target, raw)
                self.engine.written(target)
            case ReadCurrent(raw=raw) | ReadBack(raw=raw):
                kept = self.knobs.raw(target) if raw else None
                identity = self.knobs.identity(target)
                try:
                    self.engine.read(target, Reading(self.knobs.read(target), kept, identity))
                except InvalidInput as error:
                    self.engine.failed(instruction, Failure(FailureKind.PERMANENT, str(error), identity))

    def hold(self, *requests: tuple[Target, str], ttl_us: int = 100) -> list[LeaseState]:
        made = [SetKnob(target, value, REASON, ttl_us) for target, value in requests]
        self.engine.hold(made, self.now_us, 1.0, "client")
        return [answer.state for answer in self.run_round()]

    def give_back(self, *targets: Target) -> list[LeaseState]:
        self.engine.end([GiveBack(target, REASON) for target in targets], self.now_us, 2.0)
        return [answer.state for answer in self.run_round()]

    def tick(self, now_us: int) -> None:
        self.now_us = now_us
        self.engine.tick(now_us, 3.0)
        self.run_round()

    @property
    def state(self) -> dict[Target, LeaseState]:
        return {lease.target: lease.state for lease in self.engine.leases()}


@pytest.fixture
def world() -> World:
    return World()


def instructions_of(world: World) -> Iterator[Instruction]:
    while stage := world.engine.next():
        yield from stage


def kinds(asked: Sequence[Instruction]) -> list[str]:
    return [type(instruction).__name__ for instruction in asked]


def test_original_values_are_persisted_in_one_durable_write_before_any_knob_is_written(world: World) -> None:
    assert world.hold((QUOTA, HALF), (HIGH, "8192")) == [LeaseState.HELD, LeaseState.HELD]
    assert kinds(world.executed) == [
        *("ReadCurrent", "ReadCurrent", "Persist"),
        *("Write", "ReadBack", "Write", "ReadBack"),
        *("Persist", "Audit", "Audit"),
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
    assert any(isinstance(step, Drop) for step in world.executed)


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
    assert Drop((BURST,)) in world.executed


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
        def write(self, target: Target, value: str) -> None:
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
    assert not any(isinstance(step, Drop) for step in world.executed)
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
    states = world.hold(*[(Target(f"be/{number}", Knob.MEMORY_HIGH), "4096") for number in range(9)])
    assert states == [LeaseState.HELD] * 8 + [LeaseState.REFUSED]


def test_a_knob_that_cannot_be_undone_is_refused(world: World) -> None:
    with pytest.raises(InvalidInput, match="can be restored"):
        world.hold((Target("be/a", Knob.MEMORY_RECLAIM), "4096"))


def test_several_knobs_are_restored_in_an_order_that_the_kernel_accepts(world: World) -> None:
    world.knobs.set_outside(QUOTA, "10000 100000")
    world.knobs.set_outside(BURST, "8000")
    world.hold((QUOTA, HALF), (BURST, "40000"))
    assert world.give_back(QUOTA, BURST) == [LeaseState.RESTORED, LeaseState.RESTORED]
    assert [target for what, target, _ in world.knobs.journal if what == "restore"] == [BURST, QUOTA]
    assert world.knobs.snapshot() == {QUOTA: "10000 100000", BURST: "8000"}


# cpu.idle and the weight that it pins


def test_a_new_lease_of_a_weight_hidden_by_idle_is_refused_for_a_foreign_write(world: World) -> None:
    world.knobs.set_outside(WEIGHT, "500")
    world.hold((WEIGHT, "50"))
    world.hold((IDLE, "1"))
    assert world.hold((WEIGHT, "50"), (IDLE, "1")) == [LeaseState.HELD, LeaseState.HELD]
    assert kinds(world.executed) == ["ReadCurrent", "ReadCurrent"]
    assert world.give_back(WEIGHT, IDLE) == [LeaseState.RESTORED, LeaseState.RESTORED]
    assert world.knobs.snapshot() == {WEIGHT: "500"}


def test_a_held_weight_is_written_again_when_idle_goes_off(world: World) -> None:
    world.hold((WEIGHT, "50"), (IDLE, "1"))  # cpu.idle's own undo has the weight as it was before both
    assert world.give_back(IDLE) == [LeaseState.RESTORED]
    assert world.knobs.snapshot() == {WEIGHT: "50"}
    assert world.hold((WEIGHT, "50")) == [LeaseState.HELD]
    world.give_back(WEIGHT)
    assert world.knobs.snapshot() == {}


def test_a_weight_given_back_under_idle_is_restored_with_it(world: World) -> None:
    world.knobs.set_outside(WEIGHT, "500")
    world.hold((WEIGHT, "50"))
    world.hold((IDLE, "1"), ttl_us=1000)
    assert world.give_back(WEIGHT) == [LeaseState.HELD]
    world.tick(500)
    assert set(world.state) == {WEIGHT, IDLE}
    world.tick(1000)
    assert world.state == {}
    assert world.knobs.snapshot() == {WEIGHT: "500"}


def test_a_weight_given_back_under_idle_is_due_no_earlier_than_idle(world: World) -> None:
    """At the end of its own lease it could not be restored: to be due then would be a busy loop until idle ends."""
    world.hold((WEIGHT, "50"), ttl_us=1000)
    world.hold((IDLE, "1"), ttl_us=5000)
    world.give_back(WEIGHT)
    assert world.engine.due_at_us() == 5000
    world.tick(1000)
    assert set(world.state) == {WEIGHT, IDLE}
    assert world.engine.due_at_us() == 5000
    world.tick(5000)
    assert world.state == {}


@pytest.mark.parametrize(
    ("weight_us", "idle_us", "due_us"),
    [(1000, 5000, 5000), (5000, 1000, 5000), (3000, None, 3000)],
    ids=["idle ends later", "its own lease ends later", "idle is over"],
)
def test_a_deferred_weight_is_due_at_its_own_time_or_with_idle(
    weight_us: int, idle_us: int | None, due_us: int
) -> None:
    table = LeaseTable(Backoff(first_s=0.25, most_s=10.0))
    for target, expires_us in ((WEIGHT, weight_us), (IDLE, idle_us)):
        if expires_us is not None:
            table.add(KnobLease(target, "100", "50", REASON, LeaseState.INTENDED, 0.0, expires_us), 0.0)
    table.deferred_weights.add(WEIGHT)
    assert table.due_us(WEIGHT) == due_us


def test_a_renewed_weight_is_due_at_its_own_time_again(world: World) -> None:
    world.hold((WEIGHT, "50"), ttl_us=1000)
    world.hold((IDLE, "1"), ttl_us=5000)
    world.give_back(WEIGHT)
    world.hold((WEIGHT, "50"), ttl_us=2000)
    assert world.engine.due_at_us() == 2000


@pytest.mark.parametrize("off", [False, True], ids=["alone", "with idle off"])
def test_a_new_lease_of_a_weight_hidden_by_idle_is_refused(world: World, off: bool) -> None:
    world.knobs.set_outside(WEIGHT, "500")
    world.hold((IDLE, "1"))
    requests = ((IDLE, "0"), (WEIGHT, "50")) if off else ((WEIGHT, "50"),)
    assert world.hold(*requests)[-1] is LeaseState.REFUSED
    assert WEIGHT not in world.state
    world.give_back(IDLE)
    assert world.knobs.snapshot() == {WEIGHT: "500"}


def test_a_weight_requested_after_idle_in_one_batch_is_restored_with_it(world: World) -> None:
    world.knobs.set_outside(WEIGHT, "500")
    assert world.hold((IDLE, "1"), (WEIGHT, "50")) == [LeaseState.HELD, LeaseState.REFUSED]
    world.tick(1)
    world.give_back(IDLE)
    assert world.state == {}
    assert world.knobs.snapshot() == {WEIGHT: "500"}


def test_the_minimum_weight_is_restored_although_idle_reads_the_same(world: World) -> None:
    world.knobs.set_outside(WEIGHT, "1")
    world.hold((WEIGHT, "50"))
    world.hold((IDLE, "1"))
    world.give_back(IDLE, WEIGHT)
    assert world.knobs.snapshot() == {WEIGHT: "1"}


def test_a_foreign_weight_is_noticed_before_idle_hides_it(world: World) -> None:
    world.hold((WEIGHT, "50"))
    world.knobs.set_outside(WEIGHT, "300")
    assert world.hold((IDLE, "1")) == [LeaseState.HELD]
    assert WEIGHT not in world.state
    world.give_back(IDLE)
    assert world.knobs.snapshot() == {WEIGHT: "300"}


@pytest.mark.parametrize("last", ["write idle on", "restore idle"])
def test_a_weight_with_idle_is_restored_after_a_crash_at_any_step(last: str) -> None:
    steps_of_one_round = 12
    for dies_after in range(steps_of_one_round):
        world = World()
        world.knobs.set_outside(WEIGHT, "500")
        world.hold((WEIGHT, "50"))
        on_disk = {lease.target: lease for lease in world.engine.leases()}
        if last == "restore idle":
            world.hold((IDLE, "1"))
            on_disk = {lease.target: lease for lease in world.engine.leases()}
            world.engine.end([GiveBack(IDLE, REASON)], 0, 1.0)
        else:
            world.engine.hold([SetKnob(IDLE, "1", REASON)], 0, 1.0)
        for step in islice(instructions_of(world), dies_after):
            world._execute(step)
            if isinstance(step, Persist):
                on_disk.update((lease.target, lease) for lease in step.leases)
            if isinstance(step, Drop):
                on_disk = {target: lease for target, lease in on_disk.items() if target not in step.targets}
        world.engine = Leases()
        world.engine.restart(on_disk.values(), 0, 1.0)
        world.run_round()
        assert world.knobs.snapshot() == {WEIGHT: "500"}, dies_after
        assert world.state == {}


@pytest.mark.parametrize(
    "steps",
    [
        [(IDLE, "1"), (IDLE, "0"), (WEIGHT, "50"), (IDLE, "1")],
        [(IDLE, "1"), (IDLE, "0"), (WEIGHT, "50"), (IDLE, None)],
        [(WEIGHT, "50"), (IDLE, "1"), (IDLE, "0"), (WEIGHT, None), (IDLE, "1"), (IDLE, None)],
        [(WEIGHT, "50"), (IDLE, "1"), (WEIGHT, "2"), (IDLE, None)],
        [(WEIGHT, "50"), (IDLE, "1"), (WEIGHT, None), (IDLE, "0")],
    ],
)
def test_the_value_of_one_lease_is_never_the_original_of_the_other(
    world: World, steps: list[tuple[Target, str | None]]
) -> None:
    world.knobs.set_outside(WEIGHT, "500")
    for target, value in steps:
        if value is None:
            world.give_back(target)
        else:
            world.hold((target, value))
    world.give_back(IDLE, WEIGHT)
    assert world.state == {}
    assert world.knobs.snapshot() == {WEIGHT: "500"}
    assert not [change for change in world.audited if change.result is LeaseState.YIELDED]


def test_the_weight_comes_back_where_one_batch_sets_and_clears_idle(world: World) -> None:
    world.knobs.set_outside(WEIGHT, "500")
    world.hold((IDLE, "0"), (IDLE, "1"), (IDLE, "0"))
    assert world.knobs.snapshot() == {WEIGHT: "500"}
    world.give_back(IDLE)
    assert world.knobs.snapshot() == {WEIGHT: "500"}


@pytest.mark.parametrize("how", ["renewed", "given back", "expired", "restarted"])
def test_the_weight_comes_back_where_another_process_clears_idle(world: World, how: str) -> None:
    """The kernel then sets the default weight, which no process wrote."""
    world.knobs.set_outside(WEIGHT, "500")
    world.hold((IDLE, "1"))
    world.knobs.set_outside(IDLE, "0")
    assert world.knobs.read(WEIGHT) == "100"
    match how:
        case "renewed":
            assert world.hold((IDLE, "1")) == [LeaseState.YIELDED]
        case "given back":
            assert world.give_back(IDLE) == [LeaseState.RESTORED]
        case "expired":
            world.tick(100)
        case _:
            found = world.engine.leases()
            world.engine = Leases()
            world.engine.restart(found, 0, 5.0)
            world.run_round()
    assert world.state == {}
    assert world.knobs.snapshot() == {WEIGHT: "500"}


@pytest.mark.parametrize("first", [IDLE, WEIGHT])
def test_a_held_weight_is_held_on_where_another_process_clears_idle(world: World, first: Target) -> None:
    world.knobs.set_outside(WEIGHT, "500")
    world.hold((WEIGHT, "50"))
    world.hold((IDLE, "1"))
    world.knobs.set_outside(IDLE, "0")
    values = {IDLE: "1", WEIGHT: "50"}
    second = WEIGHT if first is IDLE else IDLE
    answers = dict(
        zip((first, second), [*world.hold((first, values[first])), *world.hold((second, values[second]))], strict=True)
    )
    assert answers == {IDLE: LeaseState.YIELDED, WEIGHT: LeaseState.HELD}
    assert world.knobs.snapshot() == {WEIGHT: "50"}
    assert world.give_back(WEIGHT) == [LeaseState.RESTORED]
    assert world.knobs.snapshot() == {WEIGHT: "500"}


def test_a_weight_that_another_process_writes_after_it_cleared_idle_stays(world: World) -> None:
    world.knobs.set_outside(WEIGHT, "500")
    world.hold((IDLE, "1"))
    world.knobs.set_outside(IDLE, "0")
    world.knobs.set_outside(WEIGHT, "300")
    assert world.give_back(IDLE) == [LeaseState.RESTORED]
    assert world.knobs.snapshot() == {WEIGHT: "300"}


def test_a_weight_that_another_process_writes_while_idle_is_held_off_stays(world: World) -> None:
    world.knobs.set_outside(WEIGHT, "500")
    world.hold((IDLE, "1"))
    world.hold((IDLE, "0"))
    assert world.knobs.snapshot() == {WEIGHT: "500"}
    world.knobs.set_outside(WEIGHT, "300")
    assert world.give_back(IDLE) == [LeaseState.RESTORED]
    assert world.knobs.snapshot() == {WEIGHT: "300"}


def test_an_original_weight_that_cannot_be_written_after_idle_is_tried_again(world: World) -> None:
    world.knobs.set_outside(WEIGHT, "500")
    world.hold((IDLE, "1"), ttl_us=10)
    world.knobs.fail("restore", WEIGHT, Transient("busy"))
    world.tick(10)
    assert world.state == {IDLE: LeaseState.RESTORING}
    assert "cpu.weight: busy" in world.engine.leases()[0].detail
    assert world.hold((WEIGHT, "50")) == [LeaseState.REFUSED]  # its original is not in place
    world.tick(10_000_000)
    assert world.state == {}
    assert world.knobs.snapshot() == {WEIGHT: "500"}


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
