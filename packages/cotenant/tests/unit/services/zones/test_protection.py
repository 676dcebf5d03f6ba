"""Leases of memory.low and io.weight for a zone's rows, and the waits that ask for them."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.services.zones.test_runner import MemoryKeeper

from cotenant.model.machine.counters import GroupCounters, Pressure, Stall
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.services.zones.protection import NO_PRESSURE, NOT_PROTECTED, Protection, ResourceWaits, guard

SERVICE = ZoneRow(ZoneClass.SERVICE)


def test_groups_above_have_the_sum_of_what_is_protected_below() -> None:
    rows = {
        "pods/a/web": ZoneRow(ZoneClass.SERVICE, memory_low_bytes=300, io_weight=800),
        "pods/a/db": ZoneRow(ZoneClass.SERVICE, memory_low_bytes=200),
        "pods/b/batch": ZoneRow(ZoneClass.BATCH),
    }
    wanted = {wish.target: wish.value for wish in Protection(MemoryKeeper()).wanted(rows)}
    assert wanted == {
        KnobTarget("pods", Knob.MEMORY_LOW): "500",
        KnobTarget("pods/a", Knob.MEMORY_LOW): "500",
        KnobTarget("pods/a/db", Knob.MEMORY_LOW): "200",
        KnobTarget("pods/a/web", Knob.MEMORY_LOW): "300",
        KnobTarget("pods/a/web", Knob.IO_WEIGHT): "default 800",
    }


def test_what_rows_ask_for_no_more_is_given_back() -> None:
    async def main() -> None:
        keeper = MemoryKeeper()
        protection = Protection(keeper)
        await protection.protect({"web": SERVICE})
        assert not keeper.fake.held
        await protection.protect({"web": ZoneRow(ZoneClass.SERVICE, memory_low_bytes=300, io_weight=800)})
        assert {target.knob for target in keeper.fake.held} == {Knob.MEMORY_LOW, Knob.IO_WEIGHT}
        await protection.protect({"web": ZoneRow(ZoneClass.SERVICE, io_weight=800)})
        assert {target.knob for target in keeper.fake.held} == {Knob.IO_WEIGHT}
        await protection.protect({})
        assert not keeper.fake.held

    asyncio.run(main())


def counters(group: str, memory_us: int, io_us: int) -> GroupCounters:
    pressure = Pressure(memory=Stall(memory_us, 0), io=Stall(io_us, 0))
    return GroupCounters(group, memory_bytes=7, pressure=pressure)


def test_waits_are_shares_of_the_time_between_two_readings() -> None:
    now_s = [10.0]
    waits = ResourceWaits(lambda: now_s[0])
    waits.seen([counters("web", 500, 500)])
    assert waits.latest == {}
    now_s[0] = 12.0
    waits.seen([counters("web", 1_000_500, 500_500), counters("new", 0, 0), GroupCounters("old kernel")])
    assert waits.latest.keys() == {"web"}
    found = waits.latest["web"]
    assert (found.memory_stall, found.io_stall, found.memory_bytes) == (0.5, 0.25, 7)
    now_s[0] = 13.0
    waits.seen([counters("web", 0, 0)])  # the group was made again
    assert waits.latest["web"].memory_stall == 0.0


def test_steps_of_reclaim_reach_the_keeper_and_a_refusal_is_said_once() -> None:
    async def main() -> None:
        keeper, said = MemoryKeeper(), list[str]()
        protection = Protection(keeper, said.append)
        await protection.reclaim((("batch", 4096), ("other", 8192)))
        assert [(wish.target, wish.value) for wish in keeper.fake.once] == [
            (KnobTarget("batch", Knob.MEMORY_RECLAIM), "4096"),
            (KnobTarget("other", Knob.MEMORY_RECLAIM), "8192"),
        ]
        assert not keeper.fake.held
        keeper.fake.refuses = lambda wish: "needs Linux 5.19"
        for _ in range(3):
            await protection.reclaim((("batch", 4096),))
            await protection.protect({"web": ZoneRow(ZoneClass.SERVICE, memory_low_bytes=300)})
        assert said == [
            "/batch:memory.reclaim is not set: needs Linux 5.19",
            "/web:memory.low is not set: needs Linux 5.19",
        ]
        keeper.fake.refuses = lambda wish: ""
        await protection.protect({"web": ZoneRow(ZoneClass.SERVICE, memory_low_bytes=300)})
        assert KnobTarget("web", Knob.MEMORY_LOW) not in protection.refused

    asyncio.run(main())


def test_groups_without_pressure_are_said_once() -> None:
    said: list[str] = []
    waits = ResourceWaits(warn=said.append)
    waits.seen([GroupCounters("web", memory_bytes=7)])
    waits.seen([GroupCounters("web", memory_bytes=7)])
    assert said == [NO_PRESSURE]
    said.clear()
    waits = ResourceWaits(warn=said.append)
    waits.seen([counters("web", 0, 0), GroupCounters("old kernel")])
    assert not said


@pytest.mark.parametrize("version", [1, None])
def test_a_host_without_cgroup_v2_for_memory_says_what_does_not_hold(version: int | None) -> None:
    said: list[str] = []
    assert guard(version, MemoryKeeper(), said.append, said.append) is None
    assert said == [NOT_PROTECTED]
    assert guard(2, MemoryKeeper(), said.append, said.append) is not None
    assert len(said) == 1
