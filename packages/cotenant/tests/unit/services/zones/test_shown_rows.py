"""A zone as `zone inspect` shows it: its rows, and what each group felt in the last reading."""

from __future__ import annotations

from cotenant.cli.zone.showing import _row as shown
from cotenant.cli.zone.showing import inspected
from cotenant.engine.zones.zone import Zone
from cotenant.model.zones.setting import Backend, ZoneSetting
from cotenant.model.zones.table import ThreadRow, ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import GroupReading, GroupResources, ZoneReading
from cotenant.services.zones.state_file import _row as stored
from cotenant.services.zones.state_file import state_of


def test_threads_with_rows_of_their_own_are_shown() -> None:
    row = ZoneRow(ZoneClass.SERVICE, threads=(ThreadRow("gc*", ZoneClass.BATCH), ThreadRow("wal", ZoneClass.SERVICE)))
    assert shown(stored(row)).endswith("late above - us, gc* batch, wal service")
    assert shown(stored(ZoneRow(ZoneClass.BATCH))) == "batch, weight own, slice usual us, late above - us"
    party = ZoneRow(ZoneClass.BATCH, party="tenant-a")
    assert shown(stored(party)).endswith("late above - us, party tenant-a")


def test_the_limits_of_a_machine_and_of_all_are_shown() -> None:
    vm = {"kernel": "7.1", "accelerator": "tcg", "cpus": 2, "memoryMib": 512, "bootSeconds": 3.5, "group": "m/box"}
    vm |= {"cpuMilli": 1500, "diskMib": 2048, "diskBytes": 96 << 20}
    zone = Zone("box", {"web": ZoneRow(ZoneClass.SERVICE)}, (ZoneSetting(Backend.WEIGHTS),))
    together = {"memoryMib": [1024, 4096], "vcpus": [3, 16], "diskMib": [2048, 8192]}
    state = {**state_of(zone, 0.0, 0.0, None), "running": True, "vm": vm, "machines": together}
    assert inspected(state)[2:4] == [
        "  limits: 1.5 CPUs at most, images take 96 of 2048 MiB",
        "  all machines of this host: 1024 of 4096 MiB, 3 of 16 vCPUs, 2048 of 8192 MiB for images",
    ]
    del state["machines"]  # of a zone that another version of the keeper wrote
    assert inspected({**state, "vm": {**vm, "cpuMilli": 0}})[2].startswith("  limits: no limit of CPU time, images")


def test_a_reading_has_what_objectives_and_stalls_said_of_each_group() -> None:
    rows = {"web": ZoneRow(ZoneClass.SERVICE), "job": ZoneRow(ZoneClass.BATCH)}
    zone = Zone("shop", rows, (ZoneSetting(Backend.WEIGHTS),))
    web = GroupReading("web", ZoneClass.SERVICE, burn=2.5, resources=GroupResources(0.25, 0.125, 1 << 20))
    state = state_of(zone, 0.0, 0.0, ZoneReading(2.0, (web, GroupReading("job", ZoneClass.BATCH, cpu_us=2_000_000))))
    assert (state["reading"]["burn"], state["reading"]["stall"]) == (2.5, 0.25)
    service, batch = inspected({**state, "running": True})[1:3]
    felt = "burn rate 2.50, waited 25.0 % for memory, 12.5 % for its disk"
    assert service.endswith(f"0 late dispatches, 0.00 CPUs, {felt}")
    assert batch.endswith("0 late dispatches, 1.00 CPUs")
