"""Every mover under windows and freezes: nothing is begun outside of a window, what was begun ends there, and within a
second of a freeze nothing acts. Clocks are the cases'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.fakes.cluster.sizing_world import NOW_S, World
from tests.fakes.processes.migration_world import MigrationWorld
from tests.unit.engine.manager.test_pools import DAY_S, TICK_S, Days
from tests.unit.engine.node.recovery.test_ladder import Run

from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.manager.instructions import WriteAmounts
from cotenant.engine.migration.instructions import CreateJob, EvictJobPod, Instruction, RequestEviction, StartSurge
from cotenant.engine.rebalancer.permitting import MovePermits
from cotenant.engine.sizing.scene import ResizePod
from cotenant.model.autonomy.autonomy import Action, ActionWindow, Autonomy, AutonomyRung, Freeze
from cotenant.model.groups.migration import JobPhase
from cotenant.model.machine.node_metric import Use
from cotenant.model.machine.node_state import NodeState
from cotenant.model.sizes.right_sizing import SizingMode, SizingOutcome, SizingPhase

HOUR_S = 3600.0
EVERY_DAY = frozenset(range(7))
FREEZE = Autonomy("freeze", freeze=Freeze("outage", "ada"))
BEGINS = (CreateJob, EvictJobPod, RequestEviction, StartSurge)


def open_at(from_s: float, seconds: float) -> Autonomy:
    """A window of every day (UTC) from the minute of this time on."""
    at = datetime.fromtimestamp(from_s, UTC)
    begin = at.hour * 60 + at.minute
    return Autonomy("window", windows=(ActionWindow(EVERY_DAY, begin, (begin + round(seconds / 60)) % 1440, UTC),))


# ---- windows


def test_sizes_begin_inside_of_a_window_and_end_outside_of_it() -> None:
    world, begun_s = World(mode=SizingMode.ACT), list[float]()
    world.engine.permissions.seen(open_at(NOW_S + 600, 300))

    def noted() -> bool:
        change = world.status.change
        if change is not None and change.phase is SizingPhase.FIRST and change.since_s == world.now_s:
            begun_s.append(world.now_s - NOW_S)
        return False

    world.run(595, noted)
    assert (world.status.state, world.resized, begun_s) == ("waiting", [], [])
    world.run(310, noted)
    assert begun_s
    assert 600 <= begun_s[0] < 900
    assert world.phase() is not None  # it is not over when the window closes
    assert world.run(7200, lambda: bool(world.status.receipts))
    assert world.status.receipts[0].outcome is SizingOutcome.DONE
    assert world.sizes() == {world.status.receipts[0].after}
    begun_s.clear()
    world.use = Use(1900, 900 << 20)
    world.now_s += 2 * HOUR_S  # what is paused after a change is over
    world.run(900, noted)
    assert (world.status.state, begun_s) == ("waiting", [])
    world.now_s = NOW_S + DAY_S + 540
    world.run(600, noted)
    assert begun_s
    assert begun_s[0] >= DAY_S + 600


def test_a_pool_begins_to_lend_inside_of_a_window_and_follows_its_measurements_outside_of_it() -> None:
    world = Days("act")
    midnight_s = world.now_s
    world.manager.autonomy_seen(open_at(midnight_s + 2 * HOUR_S, HOUR_S))

    def until_h(hour: float, used: int) -> None:
        while world.now_s + TICK_S <= midnight_s + hour * HOUR_S:
            world.measure(a=used)
            world.step(TICK_S)
            inside = 2 <= (world.now_s - midnight_s) / HOUR_S % 24 < 3
            assert inside or had or not world.lent(), world.now_s

    had = False
    until_h(1.9, 20_000)
    assert (world.lent(), world.status.state) == ({}, "waiting")
    assert world.status.message == "Autonomy window: outside of its windows"
    until_h(2.9, 20_000)
    assert world.lent()["batch-cpu"] == 40_000
    had = True
    until_h(5, 50_000)
    assert world.lent()["batch-cpu"] == 10_000
    world.restart()
    world.manager.autonomy_seen(open_at(midnight_s + 2 * HOUR_S, HOUR_S))
    until_h(8, 20_000)
    assert world.lent()["batch-cpu"] == 40_000  # a rise, at night, of what was begun
    world.manager.autonomy_seen(Autonomy("low", ceiling=AutonomyRung.SUGGEST))
    until_h(9, 20_000)
    assert world.lent() == {}
    world.manager.autonomy_gone("low")
    had = False
    until_h(25.9, 20_000)
    assert world.lent() == {}
    until_h(26.9, 20_000)
    assert world.lent()["batch-cpu"] == 40_000


class Permitted(MigrationWorld):
    """Asks before each write that begins something, as the rebalancer's process does."""

    permits: MovePermits

    def permitted(self, *objects: Autonomy) -> None:
        permissions = Permissions()
        for found in objects:
            permissions.seen(found)
        self.permits = MovePermits(permissions, lambda: ())

    def _carry_out(self, what: Instruction) -> str:
        if isinstance(what, BEGINS) and (why := self.permits.holds(what.job, self.now_s)):
            return why
        return super()._carry_out(what)


def test_moves_begin_inside_of_a_window_and_end_outside_of_it() -> None:
    world = Permitted()
    window = open_at(1080.0, 120.0)  # the world begins at 1000
    world.permitted(window)
    assert not world.permits.leave("default", 1000.0).may_create
    assert world.permits.leave("default", 1100.0).may_create
    world.job(suggested=True, allowed_by="ada")  # approved outside of the window
    while world.now_s < 1077.0:
        world.run(1)
    assert world.evicted == []
    while not world.evicted:
        world.run(1)
        assert world.now_s < 1203.0
    world.run(60)
    world.check()
    assert world.jobs["job"].phase is JobPhase.SUCCEEDED
    begun = Permitted()  # created inside, and not yet carried out when it closes
    begun.permitted(window)
    begun.now_s = 1199.0
    begun.job(allowed_by="mode act")
    begun.run(60)
    begun.check()
    assert begun.jobs["job"].phase is JobPhase.SUCCEEDED


def held_by(permissions: Permissions, now_s: Callable[[], float]) -> Callable[[NodeState], NodeState]:
    def change(state: NodeState) -> NodeState:
        names = {entry.pod.namespace for entry in state.pods}
        return replace(state, held=permissions.held(Action.RECOVERY, names, now_s()))

    return change


@pytest.mark.slow
def test_recovery_begins_inside_of_a_window_and_what_is_in_force_ends_outside_of_it() -> None:
    run, permissions, begun_s = Run(), Permissions(), dict[int, int]()
    permissions.seen(open_at(60.0, 60.0))
    run.change = held_by(permissions, lambda: float(run.node.at_s))
    for _ in range(300):  # in trouble since second 20, again and again
        run.second()
        for incident in run.memory.incidents:
            if incident.lease is not None:
                begun_s.setdefault(incident.lease.since_us, run.node.at_s)
    assert begun_s
    assert all(60 <= at_s < 120 for at_s in begun_s.values())
    assert all(incident.lease is None for incident in run.memory.incidents)
    assert run.verdict.knobs == ()


# ---- freezes: what each mover does in the second after one, and without it


def sizes_act(freeze: Autonomy | None) -> bool:
    world = World(mode=SizingMode.ACT)
    world.reach(SizingPhase.FIRST)
    due = [write for write in world.engine.decide(world.now_s + 1) if isinstance(write, ResizePod)]
    if freeze is not None:
        world.engine.permissions.seen(freeze)
    later = [write for write in world.engine.decide(world.now_s + 2) if isinstance(write, ResizePod)]
    return any(world.engine.may_resize(write, world.now_s + 2) for write in (*due, *later))


def lending_acts(freeze: Autonomy | None) -> bool:
    world = Days("act")
    world.live(0.1, a=50_000)
    before = world.lent()
    world.measure(a=10_000)
    world.now_s += TICK_S
    due = world.manager.decide(world.now_s)
    if freeze is not None:
        world.manager.autonomy_seen(freeze)
    later = world.manager.decide(world.now_s + 1)
    writes = [write for write in (*due, *later) if isinstance(write, WriteAmounts)]
    return any(
        world.manager.may_write(write, world.now_s + 1)
        and any((amount or 0) > before.get(name, 0) for name, amount in write.amounts.items())
        for write in writes
    )


def moves_act(freeze: Autonomy | None) -> bool:
    world = Permitted()
    world.permitted()
    world.job(allowed_by="mode act")
    world.act()
    if freeze is not None:
        world.permits.permissions.seen(freeze)
    may_create = world.permits.leave("default", world.now_s + 1).may_create
    for _ in range(60):
        world.act()
        world.turn()
    return bool(world.evicted) or may_create


def recovery_acts(freeze: Autonomy | None) -> bool:
    run, permissions = Run(), Permissions()
    run.change = held_by(permissions, lambda: float(run.node.at_s))
    run.seconds(run.node.from_s)  # the trouble comes with the next one
    if freeze is not None:
        permissions.seen(freeze)
    run.seconds(60)
    return any(incident.proofs for incident in run.memory.incidents)


@pytest.mark.parametrize("acts", [sizes_act, lending_acts, moves_act, recovery_acts])
@pytest.mark.parametrize("action", [None, *Action])
def test_a_frozen_mover_does_nothing_more_and_another_s_freeze_is_not_its_own(
    acts: Callable[[Autonomy | None], bool], action: Action | None
) -> None:
    own = {"sizes_act": Action.SIZES, "lending_acts": Action.LENDING, "moves_act": Action.MOVES}
    freeze = replace(FREEZE, actions=frozenset() if action is None else frozenset({action}))
    is_its_own = action in (None, own.get(acts.__name__, Action.RECOVERY))
    assert acts(freeze) is not is_its_own
    assert acts(None)
