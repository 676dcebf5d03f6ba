"""Leases of cpu.idle and of the weight that it pins."""

from __future__ import annotations

from itertools import islice

import pytest
from tests.fakes.node.lease_world import IDLE, REASON, WEIGHT, World, instructions_of, kinds

from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.leases.instructions import (
    DropLeases,
    Persist,
)
from cotenant.engine.leases.leases import Leases
from cotenant.engine.leases.table import LeaseTable
from cotenant.model.errors import Transient
from cotenant.model.machine.knob import (
    GiveBack,
    KnobLease,
    KnobTarget,
    LeaseState,
    SetKnob,
)


@pytest.fixture
def world() -> World:
    return World()


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
    table = LeaseTable(Backoff(first_s=0.25, max_s=10.0))
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
            if isinstance(step, DropLeases):
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
    world: World, steps: list[tuple[KnobTarget, str | None]]
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
            assert world.hold((IDLE, "1")) == [LeaseState.HELD]  # set again
            assert world.knobs.snapshot() == {IDLE: "1"}
            assert world.give_back(IDLE) == [LeaseState.RESTORED]
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
def test_a_held_weight_is_held_on_where_another_process_clears_idle(world: World, first: KnobTarget) -> None:
    world.knobs.set_outside(WEIGHT, "500")
    world.hold((WEIGHT, "50"))
    world.hold((IDLE, "1"))
    world.knobs.set_outside(IDLE, "0")
    values = {IDLE: "1", WEIGHT: "50"}
    second = WEIGHT if first is IDLE else IDLE
    answers = dict(
        zip((first, second), [*world.hold((first, values[first])), *world.hold((second, values[second]))], strict=True)
    )
    assert answers == {IDLE: LeaseState.HELD, WEIGHT: LeaseState.HELD}
    assert world.knobs.snapshot() == {IDLE: "1"}
    assert world.give_back(IDLE) == [LeaseState.RESTORED]
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
