"""What of batch's memory a zone reclaims over time: steps while their rows stand, an end where they bring nothing.

A group whose memory is in use has it back before the next reading, and each further step would only make it read its
pages again. So after `MAX_VAIN` steps in a row that left less than a quarter of what they asked for, the group is let
alone until it has another row. A service that waits no more while it grows would wait again as soon as it has used up
what was reclaimed; so between waits the steps are what services grew by. A series that did not help them is not begun
again for `ban_s`, doubled each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.model.zones.state import ReclaimGroups
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import ZoneReading
from cotenant.policy.zone.reclaiming import PAGE, next_step

MAX_VAIN = 3
_PART = 4  # of a step that must be gone at the next reading
_MAX_BAN_FACTOR = 64


@dataclass(slots=True)
class ReclaimSeries:
    """Steps of one group under one row. `asked_bytes`: of all steps; `vain`: steps in a row that brought nothing."""

    to_bytes: int
    asked_bytes: int = 0
    vain: int = 0
    last_step: int = 0
    last_bytes: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the group is let alone: its memory is in use."""
        return self.vain >= MAX_VAIN


class Reclaiming:
    """`series`: of the groups whose rows ask for it now."""

    def __init__(self, ban_s: float) -> None:
        self.series: dict[str, ReclaimSeries] = {}
        self._ban_s = ban_s
        self._until_s = 0.0
        self._undone = 0
        self._services_bytes: int | None = None

    def may_begin(self, now_s: float) -> bool:
        """Whether another series may be tried."""
        return now_s >= self._until_s

    def undone(self, now_s: float) -> None:
        """A series did not help."""
        self._until_s = now_s + self._ban_s * min(2**self._undone, _MAX_BAN_FACTOR)
        self._undone += 1

    def after(self, reading: ZoneReading, rows: Mapping[str, ZoneRow], stall: float) -> tuple[ReclaimGroups, ...]:
        """The steps after a reading, under the rows in force: whole ones while services wait for memory more than
        `stall` of the time, else no more than services grew by.
        """
        waits, grown = (reading.memory_stall or 0.0) > stall, self._grown(reading)
        self.series = {
            group: series
            for group, series in self.series.items()
            if group in rows and rows[group].reclaim_to_bytes == series.to_bytes
        }
        for name, row in rows.items():
            if row.reclaim_to_bytes:
                self.series.setdefault(name, ReclaimSeries(row.reclaim_to_bytes))
        steps: list[tuple[str, int]] = []
        for group in reading.groups:
            series, found = self.series.get(group.group), group.resources
            if series is None or found is None:
                continue
            row = rows[group.group]
            if series.last_step:
                gone = series.last_bytes - found.memory_bytes
                series.vain = series.vain + 1 if gone < series.last_step // _PART else 0
            step = 0 if series.is_over else next_step(row, found, reading.length_s)
            step = step if waits else min(step, grown // len(self.series) // PAGE * PAGE)
            series.last_step, series.last_bytes = step, found.memory_bytes
            if step:
                series.asked_bytes += step
                steps.append((group.group, step))
        return (ReclaimGroups(tuple(steps)),) if steps else ()

    def _grown(self, reading: ZoneReading) -> int:
        """How many bytes services have more than at the last reading."""
        now = sum(
            group.resources.memory_bytes
            for group in reading.groups
            if group.zone_class is ZoneClass.SERVICE and group.resources is not None
        )
        before, self._services_bytes = self._services_bytes, now
        return 0 if before is None else max(0, now - before)
