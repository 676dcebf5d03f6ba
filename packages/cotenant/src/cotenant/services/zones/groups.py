"""Groups as a zone's file lists them, each with the row that it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.zones.apart import check_party
from cotenant.model.zones.table import LONGEST_LATE_US, ThreadRow, ZoneClass, ZoneRow


class GroupClass(StrEnum):
    """Class of a group, as written in the file."""

    SERVICE = "service"
    BATCH = "batch"


def late_us_of(late_ms: float) -> int:
    """Of a file's milliseconds. Raises `InvalidInput`."""
    if not 0 <= late_ms <= LONGEST_LATE_US / 1000:  # refuses NaN, too
        raise InvalidInput("late_ms", late_ms, f"0 to {LONGEST_LATE_US // 1000} milliseconds")
    return round(late_ms * 1000)


@dataclass(frozen=True, slots=True)
class ZoneThreads:
    """Threads of a group by `name`, `*` at its end for any ending. `slice_us` 0: the scheduler's own."""

    name: str
    kind: GroupClass
    slice_us: int = 0

    def __post_init__(self) -> None:
        self.row()

    def row(self) -> ThreadRow:
        """As part of the group's row."""
        return ThreadRow(self.name, ZoneClass[self.kind.name], self.slice_us)


def row_of(
    kind: GroupClass,
    weight: int,
    slice_us: int,
    late_ms: float,
    threads: tuple[ZoneThreads, ...] = (),
    party: str = "",
) -> ZoneRow:
    """The row of the policy table. Raises `InvalidInput`."""
    check_party("party", party)
    own = tuple(entry.row() for entry in threads)
    return ZoneRow(ZoneClass[kind.name], weight, slice_us, late_us_of(late_ms), threads=own, party=party)


@dataclass(frozen=True, slots=True)
class ZoneGroup:
    """One group. `kind`: its class. `late_ms`: a task that waits for a CPU longer than this is a late dispatch; 0:
    none. `slice_us`, `weight` 0: the scheduler's own; `threads`: those of another class; `party`: in the zone's rules
    `apart`.
    """

    group: str
    kind: GroupClass
    late_ms: float = 0.0
    slice_us: int = 0
    weight: int = 0
    threads: tuple[ZoneThreads, ...] = ()
    party: str = ""

    def __post_init__(self) -> None:
        if not self.group or self.group.startswith("/") or "\n" in self.group:
            raise InvalidInput("group", self.group, "a path below the cgroup tree's root, as in kubepods.slice/web")
        KnobTarget(self.group, Knob.CPU_WEIGHT)  # refuses "..", empty parts and NUL
        self.row()

    def row(self) -> ZoneRow:
        """The row of the policy table."""
        return row_of(self.kind, self.weight, self.slice_us, self.late_ms, self.threads, self.party)
