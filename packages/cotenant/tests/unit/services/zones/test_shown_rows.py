from __future__ import annotations

from cotenant.cli.zone.showing import _row as shown
from cotenant.model.zones.table import ThreadRow, ZoneClass, ZoneRow
from cotenant.services.zones.state_file import _row as stored


def test_threads_with_rows_of_their_own_are_shown() -> None:
    row = ZoneRow(ZoneClass.SERVICE, threads=(ThreadRow("gc*", ZoneClass.BATCH), ThreadRow("wal", ZoneClass.SERVICE)))
    assert shown(stored(row)).endswith("late above - us, gc* batch, wal service")
    assert shown(stored(ZoneRow(ZoneClass.BATCH))) == "batch, weight own, slice usual us, late above - us"
