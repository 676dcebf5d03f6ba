"""Knobs that another process puts back to what stood before, or to their default: written again; a value of its own
is left alone.
"""

from __future__ import annotations

import pytest
from tests.fakes.node.lease_world import HALF, HIGH, IDLE, QUOTA, WEIGHT, World

from cotenant.engine.leases.instructions import ReadBack, ReadCurrent, Restore, Write
from cotenant.engine.leases.table import MAX_PUT_BACKS, PUT_BACK_WINDOW_US
from cotenant.model.machine.knob import KnobTarget, LeaseState

LIFTED = "max 100000"


@pytest.fixture
def world() -> World:
    return World()


def check(world: World, *targets: KnobTarget) -> None:
    world.engine.check(targets, world.now_us, 4.0)
    world.run_round()


@pytest.mark.parametrize("before", [LIFTED, "80000 100000"])
@pytest.mark.parametrize("how", ["checked", "renewed"])
def test_what_stood_before_is_replaced_at_once(world: World, before: str, how: str) -> None:
    world.knobs.set_outside(QUOTA, before)
    world.hold((QUOTA, HALF))
    world.knobs.set_outside(QUOTA, before)
    if how == "checked":
        check(world, QUOTA)
    else:
        assert world.hold((QUOTA, HALF)) == [LeaseState.HELD]
    assert world.knobs.read(QUOTA) == HALF
    world.give_back(QUOTA)
    assert world.knobs.read(QUOTA) == before


def test_the_default_of_an_owner_that_knows_nothing_else_is_replaced_too(world: World) -> None:
    """systemd writes "max" whatever stood before."""
    world.knobs.set_outside(QUOTA, "80000 100000")
    world.hold((QUOTA, HALF))
    world.knobs.set_outside(QUOTA, "max 50000")
    check(world, QUOTA)
    assert world.knobs.read(QUOTA) == HALF
    assert world.give_back(QUOTA) == [LeaseState.RESTORED]
    assert world.knobs.read(QUOTA) == "80000 100000"


def test_a_value_of_its_own_is_left_to_the_next_renewal(world: World) -> None:
    """Whoever renews has to hear of it: a check keeps the lease."""
    world.hold((QUOTA, HALF))
    world.knobs.set_outside(QUOTA, "70000 100000")
    check(world, QUOTA)
    assert world.knobs.read(QUOTA) == "70000 100000"
    assert world.hold((QUOTA, HALF)) == [LeaseState.YIELDED]
    assert "a value of its own" in world.audited[-1].detail


def test_a_check_does_not_lengthen_a_lease(world: World) -> None:
    world.hold((QUOTA, HALF), ttl_us=100)
    world.now_us = 60
    world.knobs.set_outside(QUOTA, LIFTED)
    check(world, QUOTA)
    (lease,) = world.engine.leases()
    assert lease.expires_at_us == 100
    world.tick(100)
    assert world.state == {}
    assert world.knobs.snapshot() == {}


def test_a_check_of_what_is_not_held_or_has_expired_does_nothing(world: World) -> None:
    check(world, QUOTA, HIGH)
    world.hold((QUOTA, HALF), ttl_us=100)
    world.knobs.set_outside(QUOTA, LIFTED)
    world.now_us = 100
    check(world, QUOTA)
    assert world.knobs.read(QUOTA) == LIFTED


def test_the_lease_says_how_often(world: World) -> None:
    world.hold((QUOTA, HALF))
    for _ in range(3):
        world.knobs.set_outside(QUOTA, LIFTED)
        check(world, QUOTA)
    world.hold((QUOTA, HALF))
    (lease,) = world.engine.leases()
    assert "3 times" in lease.detail


def test_one_that_never_stops_is_yielded_to(world: World) -> None:
    world.hold((QUOTA, HALF), ttl_us=10**9)
    for _ in range(MAX_PUT_BACKS):
        world.knobs.set_outside(QUOTA, LIFTED)
        check(world, QUOTA)
        assert world.knobs.read(QUOTA) == HALF
    world.knobs.set_outside(QUOTA, LIFTED)
    check(world, QUOTA)
    assert world.knobs.read(QUOTA) == LIFTED
    assert world.hold((QUOTA, HALF)) == [LeaseState.YIELDED]
    assert "times in a minute" in world.audited[-1].detail


def test_one_each_second_is_not_contested(world: World) -> None:
    world.hold((QUOTA, HALF), ttl_us=10**10)
    for second in range(1000):
        world.now_us = second * 1_000_000
        world.knobs.set_outside(QUOTA, LIFTED)
        check(world, QUOTA)
        assert world.knobs.read(QUOTA) == HALF
    assert PUT_BACK_WINDOW_US == 60_000_000


def test_idle_and_the_weight_beside_it_come_back_as_before(world: World) -> None:
    world.knobs.set_outside(WEIGHT, "500")
    world.hold((IDLE, "1"))
    world.knobs.set_outside(IDLE, "0")
    check(world, IDLE)
    assert world.knobs.snapshot() == {IDLE: "1"}
    world.give_back(IDLE)
    assert world.knobs.snapshot() == {WEIGHT: "500"}


def test_one_that_was_overtaken_between_write_and_reading_is_written_again(world: World) -> None:
    world.hold((QUOTA, HALF))
    lease = world.engine._table.leases[QUOTA]
    world.knobs.set_outside(QUOTA, LIFTED)
    world.engine._table.leases[QUOTA] = type(lease)(
        **{name: getattr(lease, name) for name in lease.__dataclass_fields__} | {"stands": LIFTED}
    )
    check(world, QUOTA)
    assert world.knobs.read(QUOTA) == HALF


class Overtaken(World):
    """Another process writes between our write and our reading of it."""

    foreign = ""

    def _read_or_write(self, instruction: ReadCurrent | ReadBack | Write | Restore) -> None:
        if isinstance(instruction, ReadBack) and self.foreign:
            self.knobs.set_outside(instruction.target, self.foreign)
            self.foreign = ""
        super()._read_or_write(instruction)


@pytest.mark.parametrize(("target", "ours", "other"), [(QUOTA, HALF, "70000 100000"), (HIGH, "1048576", "9437184")])
def test_a_value_of_its_own_that_overtook_ours_is_not_taken_for_ours(target: KnobTarget, ours: str, other: str) -> None:
    world = Overtaken()
    world.foreign = other
    assert world.hold((target, ours)) == [LeaseState.HELD]
    assert world.hold((target, ours)) == [LeaseState.YIELDED]
    assert world.knobs.read(target) == other


@pytest.mark.parametrize(("target", "ours", "shown"), [(QUOTA, HALF, "50100 100000"), (HIGH, "1050000", "1048576")])
def test_the_kernels_form_of_our_value_stays_ours(target: KnobTarget, ours: str, shown: str) -> None:
    world = Overtaken()
    world.foreign = shown
    assert world.hold((target, ours)) == [LeaseState.HELD]
    assert world.hold((target, ours)) == [LeaseState.HELD]


def test_what_is_put_back_between_write_and_reading_is_written_again() -> None:
    world = Overtaken()
    world.foreign = LIFTED
    world.hold((QUOTA, HALF))
    assert world.hold((QUOTA, HALF)) == [LeaseState.HELD]
    assert world.knobs.read(QUOTA) == HALF
