"""The keeper within a process: serialized rounds, expiry, restore at stop; and the dry-run keeper."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.fakes.node.kept_knobs import KeptKnobs
from tests.fakes.waiting import patience, soon

from cotenant.drivers.leasefile.audit import AuditTrail, changes
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.model.errors import Transient
from cotenant.model.machine.knob import GiveBack, Knob, KnobScope, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.dry_run import DryRunKnobs, NoStateFile
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.local_keeper import GroupWatch, LocalKeeper
from cotenant.services.knobs.rules import KnobRules, Requester

REASON = Reason("test", "because")
QUOTA = KnobTarget("be/a", Knob.CPU_MAX)
HALF = "50000 100000"
REQUESTER = Requester("uid 7, pid 8", ("be/agent",))


class World:
    def __init__(self, folder: Path, watch: GroupWatch | None = None) -> None:
        self.folder = folder
        self.now_us = 0
        self.knobs = KeptKnobs(["be/a", "be/agent", "system"])
        self.file = LeaseFile(folder, "boot")
        clock = Clock(lambda: self.now_us, lambda: 1.0)
        self.keeper = LocalKeeper(
            LeaseExecutor({KnobScope.CGROUP: self.knobs}, self.file, AuditTrail(folder), clock, KnobRules(("be",))),
            watch,
            last_rest_s=0,
        )

    async def hold(self, *requests: tuple[KnobTarget, str], ttl_us: int = 100) -> list[LeaseState]:
        made = [SetKnob(target, value, REASON, ttl_us) for target, value in requests]
        return [answer.state for answer in await self.keeper.hold(made, REQUESTER)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.file.close()


class Followers:
    """Records which groups' tasks were to follow."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    def follow(self, groups: Sequence[str]) -> int:
        self.calls.append(tuple(groups))
        if len(self.calls) == 1:
            raise OSError("a group vanished")
        return 0


def test_tasks_of_groups_that_are_held_idle_follow_again_for_new_tasks_and_are_let_go_with_the_lease(
    tmp_path: Path,
) -> None:
    tasks, now_us = Followers(), 0
    knobs, clock = KeptKnobs(["be/a"]), Clock(lambda: now_us, lambda: 1.0)
    executor = LeaseExecutor(
        {KnobScope.CGROUP: knobs}, NoStateFile(), AuditTrail(tmp_path), clock, KnobRules(("be",)), tasks=tasks
    )
    idle = SetKnob(KnobTarget("be/a", Knob.CPU_IDLE), "1", REASON, 10_000_000)
    executor.hold([SetKnob(QUOTA, HALF, REASON, 10_000_000)], REQUESTER)
    assert tasks.calls == []  # nothing is idle
    assert executor.hold([idle], REQUESTER)[0].state is LeaseState.HELD  # although following failed
    executor.hold([idle], REQUESTER)
    assert tasks.calls == [("be/a",)]  # the same groups, and no time has passed
    now_us = 600_000
    executor.hold([idle], REQUESTER)
    assert tasks.calls == [("be/a",)] * 2
    executor.give_all_back(REASON)
    executor.tick()
    assert tasks.calls == [("be/a",), ("be/a",), ()]


def test_tasks_of_a_kubelets_best_effort_group_follow_while_anything_is_held_on_it(tmp_path: Path) -> None:
    tasks, group = Followers(), "kubepods/besteffort"
    clock = Clock(lambda: 0, lambda: 1.0)
    knobs = KeptKnobs([group, "kubepods/burstable"])
    executor = LeaseExecutor(
        {KnobScope.CGROUP: knobs}, NoStateFile(), AuditTrail(tmp_path), clock, KnobRules(("kubepods",)), tasks=tasks
    )
    executor.hold([SetKnob(KnobTarget("kubepods/burstable", Knob.CPU_MAX), HALF, REASON, 10_000_000)], REQUESTER)
    assert tasks.calls == []
    executor.hold([SetKnob(KnobTarget(group, Knob.CPU_MAX), HALF, REASON, 10_000_000)], REQUESTER)
    assert tasks.calls == [(group,)]
    executor.give_all_back(REASON)
    assert tasks.calls == [(group,), ()]


def test_answers_come_in_the_order_of_the_requests_whatever_was_refused(world: World) -> None:
    async def use() -> list[LeaseState]:
        states = await world.hold(
            (KnobTarget("system", Knob.CPU_MAX), HALF),
            (QUOTA, HALF),
            (KnobTarget("be/a", Knob.MEMORY_RECLAIM), "8192"),
            (QUOTA, "20"),
            (KnobTarget("be/gone", Knob.CPU_MAX), HALF),
            (KnobTarget("be/agent", Knob.CPU_MAX), HALF),  # the client's own group
        )
        assert await world.keeper.read(
            [QUOTA, KnobTarget("system", Knob.CPU_MAX), KnobTarget("be/gone", Knob.CPU_MAX)]
        ) == (
            HALF,
            None,
            None,
        )
        await world.keeper.stop()
        return states

    refused, held = LeaseState.REFUSED, LeaseState.HELD
    assert asyncio.run(use()) == [refused, held, LeaseState.RESTORED, refused, LeaseState.GONE, refused]
    assert world.knobs.reclaimed_bytes == {"be/a": 8192}
    assert world.knobs.snapshot() == {}
    recorded = [(str(change.target), change.who, change.result) for change in changes(world.folder)]
    assert ("/system:cpu.max", "uid 7, pid 8", refused) in recorded
    assert ("/be/a:memory.reclaim", "uid 7, pid 8", LeaseState.RESTORED) in recorded
    assert recorded[-1] == ("/be/a:cpu.max", "keeper", LeaseState.RESTORED)


def test_expired_leases_are_restored_without_a_request(world: World) -> None:
    async def use() -> None:
        running = asyncio.create_task(world.keeper.run())
        await world.hold((QUOTA, HALF), ttl_us=1)
        world.now_us = 5
        while await world.keeper.leases():
            await asyncio.sleep(0)
        assert world.knobs.snapshot() == {}
        running.cancel()
        await world.keeper.stop()

    asyncio.run(asyncio.wait_for(use(), patience(10)))


def test_a_cancelled_caller_leaves_no_round_half_done(world: World) -> None:
    async def use() -> None:
        call = asyncio.create_task(world.hold((QUOTA, HALF)))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        (lease,) = await world.keeper.leases()
        assert lease.state is LeaseState.HELD
        await world.keeper.give_back([GiveBack(QUOTA, REASON)])
        await world.keeper.stop()

    asyncio.run(use())
    assert world.knobs.snapshot() == {}


def test_stop_retries_and_returns_what_could_not_be_restored(world: World) -> None:
    async def use(failures: int) -> Sequence[object]:
        await world.hold((QUOTA, HALF))
        world.knobs.fail("restore", QUOTA, *[Transient("busy")] * failures)
        return await world.keeper.stop()

    assert asyncio.run(use(3)) == ()
    assert world.knobs.snapshot() == {}
    world.file.close()
    world.__init__(world.folder)  # type: ignore[misc]
    (left,) = asyncio.run(use(99))
    assert (left.target, left.state, left.detail) == (QUOTA, LeaseState.RESTORING, "busy")  # type: ignore[attr-defined]
    assert [lease.target for lease in world.file.leases()] == [QUOTA]


@pytest.mark.parametrize("operation", ["read", "raw", "write", "restore"])
def test_an_unexpected_error_fails_only_its_knob_and_all_others_are_restored(operation: str, world: World) -> None:
    other = KnobTarget("be/agent", Knob.CPU_WEIGHT)

    async def use() -> None:
        await world.hold((QUOTA, HALF))
        world.knobs.fail(operation, other, ValueError("invalid literal"))
        (answer,) = await world.keeper.hold([SetKnob(other, "50", REASON, 100)])
        if operation != "restore":
            assert (answer.state, answer.detail) == (LeaseState.REFUSED, "ValueError: invalid literal")
        for world.now_us in (200, 20_000_000):
            await world.keeper.tick()
        assert world.knobs.snapshot() == {}
        assert await world.keeper.leases() == ()
        await world.keeper.stop()

    asyncio.run(use())


def test_a_slow_one_shot_write_delays_no_other_and_is_not_started_twice(world: World) -> None:
    order, over = (KnobTarget("be/a", Knob.MEMORY_RECLAIM), "4096"), threading.Event()
    write = world.knobs.write

    def slow(target: KnobTarget, value: str) -> None:
        if target == order[0]:
            over.wait(patience(10))
        write(target, value)

    world.knobs.write = slow  # type: ignore[method-assign]

    async def use() -> list[list[LeaseState]]:
        states = [await world.hold(order, (QUOTA, HALF)), await world.hold(order, (QUOTA, "20000 100000"))]
        over.set()
        await soon("the one-shot write ends", lambda: not world.keeper._one_shots)
        states.append(await world.hold(order))
        await world.keeper.stop()
        return states

    under_way, held = LeaseState.INTENDED, LeaseState.HELD
    assert asyncio.run(use()) == [[under_way, held], [under_way, held], [LeaseState.RESTORED]]
    assert world.knobs.reclaimed_bytes == {"be/a": 8192}


def test_a_dry_run_keeper_answers_and_records_but_writes_nothing(tmp_path: Path) -> None:
    knobs = KeptKnobs(["be/a"])
    clock = Clock(lambda: 0, lambda: 1.0)
    keeper = LocalKeeper(
        LeaseExecutor(
            {KnobScope.CGROUP: DryRunKnobs(knobs)}, NoStateFile(), AuditTrail(tmp_path), clock, KnobRules(("be",))
        )
    )

    async def use() -> None:
        for _ in range(2):
            (answer,) = await keeper.hold([SetKnob(QUOTA, HALF, REASON)])
            assert answer.state is LeaseState.HELD
        (gone,) = await keeper.hold([SetKnob(KnobTarget("be/gone", Knob.CPU_MAX), HALF, REASON)])
        assert gone.state is LeaseState.GONE
        assert await keeper.read([QUOTA]) == (HALF,)
        (answer,) = await keeper.give_back([GiveBack(QUOTA, REASON)])
        assert answer.state is LeaseState.RESTORED
        assert await keeper.stop() == ()

    asyncio.run(use())
    assert knobs.journal == []
    assert [(change.before, change.after, change.result) for change in changes(tmp_path)] == [
        ("max 100000", HALF, LeaseState.HELD),
        ("", "", LeaseState.GONE),
        (HALF, "max 100000", LeaseState.RESTORED),
    ]


def test_an_overlaid_value_ends_with_its_group(tmp_path: Path) -> None:
    knobs = KeptKnobs(["be/a"])
    dry = DryRunKnobs(knobs)
    clock = Clock(lambda: 0, lambda: 1.0)
    executor = LeaseExecutor({KnobScope.CGROUP: dry}, NoStateFile(), AuditTrail(tmp_path), clock, KnobRules(("be",)))
    executor.hold([SetKnob(QUOTA, HALF, REASON)])
    knobs.remove("be/a")
    executor.give_back([GiveBack(QUOTA, REASON)])
    assert not dry._overlay
    knobs.add("be/a")
    executor.hold([SetKnob(QUOTA, HALF, REASON)])
    knobs.remove("be/a")
    knobs.add("be/a")
    assert dry.read(QUOTA) == "max 100000"


def test_a_repeated_refusal_is_recorded_once(world: World) -> None:
    system = KnobTarget("system", Knob.CPU_MAX)

    async def use() -> None:
        for _ in range(5):
            await world.hold((system, HALF), (QUOTA, "20"))
        await world.hold((QUOTA, HALF))
        await world.hold((QUOTA, "20"))
        await world.hold((system, "max 100000"))
        await world.keeper.stop()

    asyncio.run(use())
    recorded = [(str(change.target), change.asked, change.result) for change in changes(world.folder)]
    refused = LeaseState.REFUSED
    assert recorded == [
        ("/system:cpu.max", HALF, refused),
        ("/be/a:cpu.max", "20", refused),
        ("/be/a:cpu.max", HALF, LeaseState.HELD),
        ("/be/a:cpu.max", "20", refused),
        ("/system:cpu.max", "max 100000", refused),
        ("/be/a:cpu.max", "max 100000", LeaseState.RESTORED),
    ]


def test_a_jump_of_the_wall_clock_neither_ends_nor_prolongs_a_lease(tmp_path: Path) -> None:
    now = {"us": 0, "wall": 1e9}
    knobs = KeptKnobs(["be/a"])
    clock = Clock(lambda: int(now["us"]), lambda: now["wall"])
    executor = LeaseExecutor({KnobScope.CGROUP: knobs}, NoStateFile(), AuditTrail(tmp_path), clock, KnobRules(("be",)))
    executor.hold([SetKnob(QUOTA, HALF, REASON, 100)])
    for wall in (2e9, 5e8, 0.0):
        now["wall"] = wall
        executor.tick()
        assert knobs.read(QUOTA) == HALF
    now["us"] = 100
    executor.tick()
    assert knobs.read(QUOTA) == "max 100000"


class Written:
    """A watch whose groups a test names."""

    def __init__(self) -> None:
        self.descriptor, self._at = os.pipe()
        self.followed: frozenset[KnobTarget] = frozenset()
        self.unwatched: frozenset[str] = frozenset()
        self._groups: set[str] = set()

    def tell(self, group: str) -> None:
        self._groups.add(group)
        os.write(self._at, b"x")

    def follow(self, targets: Iterable[KnobTarget]) -> None:
        self.followed = frozenset(targets)

    def written(self) -> frozenset[str]:
        os.read(self.descriptor, 64)
        found, self._groups = frozenset(self._groups), set()
        return found


@pytest.mark.parametrize("is_watched", [True, False])
def test_what_another_process_puts_back_is_written_again(is_watched: bool, tmp_path: Path) -> None:
    """With a watch when it says so, without one within a second."""
    watch = Written()
    world = World(tmp_path, watch if is_watched else None)

    async def use() -> None:
        running = asyncio.create_task(world.keeper.run())
        assert await world.hold((QUOTA, HALF)) == [LeaseState.HELD]
        world.knobs.set_outside(QUOTA, "max 100000")
        if is_watched:
            watch.tell("be/a")
        await soon("written again", lambda: world.knobs.read(QUOTA) == HALF)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await world.keeper.stop()

    asyncio.run(use())
    assert world.knobs.snapshot() == {}
    assert watch.followed == ({QUOTA} if is_watched else frozenset())
    world.file.close()
