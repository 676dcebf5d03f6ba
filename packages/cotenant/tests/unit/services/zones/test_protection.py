"""Leases of memory.low and io.weight for a zone's rows, and the waits that ask for them."""

from __future__ import annotations

import asyncio

from tests.unit.services.zones.test_runner import MemoryKeeper

from cotenant.model.machine.counters import GroupCounters, Pressure, Stall
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.services.zones.protection import Protection, ResourceWaits

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
