"""Cycles and instructions from a recording that perf made elsewhere: for tests, and for trying policies on machines without counters.

Problem: most virtual machines have no PMU, and the search for antagonists must be tried on cycles per instruction all the same. Choice: what perf
itself writes, as CSV (`perf stat -x, -I 1000 -e cycles,instructions --for-each-cgroup A,B -a`) or as JSON lines (`-j` for `-x,`), is played back, an
interval a reading. Limits: perf has scaled the values already; "<not counted>" adds nothing, "<not supported>" makes a gap.

Source: perf-stat(1), CSV FORMAT and JSON FORMAT; checked against perf 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import Gap

CYCLES, INSTRUCTIONS = "cycles", "instructions"
NOT_COUNTED, NOT_SUPPORTED = "<not counted>", "<not supported>"
_EVENT = re.compile(r"(?:[\w.]+/)?([\w.-]+)/?(?::\w+)?")  # "cycles", "cycles:u", "cpu_core/cycles/"


class _JsonLine(msgspec.Struct):
    """One line of `perf stat -j -I`; what else is in it is not read."""

    interval: float
    event: str
    counter_value: str = msgspec.field(name="counter-value")
    cgroup: str = ""


@dataclass(slots=True)
class Interval:
    """What was counted up to one instant since the one before, by (group, event)."""

    at_us: int
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    unsupported: set[str] = field(default_factory=set)


def parse(text: str, name: str = "recording") -> tuple[Interval, ...]:
    """All intervals of a recording, in order. Raises `InvalidInput` with the line."""
    intervals: list[Interval] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        at_us, value, event, group = _fields(line, f"{name}:{number}")
        if not intervals or intervals[-1].at_us != at_us:
            if intervals and at_us < intervals[-1].at_us:
                raise InvalidInput(f"{name}:{number}", at_us, "a time not before the line above")
            intervals.append(Interval(at_us))
        if value == NOT_SUPPORTED:
            intervals[-1].unsupported.add(event)
        elif value != NOT_COUNTED:
            try:
                count = round(float(value))
            except (ValueError, OverflowError) as error:
                raise InvalidInput(f"{name}:{number}", value, "a count") from error
            key = group.strip("/"), event
            intervals[-1].counts[key] = intervals[-1].counts.get(key, 0) + count
    return tuple(intervals)


def _fields(line: str, where: str) -> tuple[int, str, str, str]:
    """Time in microseconds, value, event, group."""
    try:
        if line.lstrip().startswith("{"):
            told = msgspec.json.decode(line, type=_JsonLine)
            time, value, event, group = told.interval, told.counter_value, told.event, told.cgroup
        else:
            words = line.split(",")
            time, value, event, group = float(words[0]), words[1], words[3], words[4]
        at_us = round(time * 1e6)
    except (ValueError, IndexError, OverflowError, msgspec.MsgspecError) as error:
        raise InvalidInput(
            where, line, "a line of `perf stat -x, -I MS --for-each-cgroup ...` or of the same with -j"
        ) from error
    match = _EVENT.fullmatch(event)
    return at_us, value, match[1] if match else event, group


class RecordedCycles:
    """Meets `drivers/cgroup/sensor.Cycles`: each reading moves on by one interval of the recording, up to its end."""

    def __init__(self, intervals: Sequence[Interval]) -> None:
        self._intervals = intervals
        self._next = 0
        self._totals: dict[str, tuple[int, int]] = {}

    @classmethod
    def from_file(cls, path: Path) -> RecordedCycles:
        """From a file that perf wrote. Raises `InvalidInput`."""
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput("recording", str(path), "a file that perf stat wrote", str(error)) from error
        return cls(parse(text, path.name))

    def read(self, groups: Sequence[str]) -> Mapping[str, tuple[int, int]]:
        """Cycles and instructions by group since the recording began; groups without any are left out."""
        if self._next < len(self._intervals):
            counts = self._intervals[self._next].counts
            self._next += 1
            for group in {group for group, _ in counts}:
                cycles, instructions = self._totals.get(group, (0, 0))
                self._totals[group] = (
                    cycles + counts.get((group, CYCLES), 0),
                    instructions + counts.get((group, INSTRUCTIONS), 0),
                )
        return {group: self._totals[group] for group in groups if group in self._totals}

    def gaps(self) -> tuple[Gap, ...]:
        """Events that the machine which recorded did not have."""
        missing = {event for interval in self._intervals[: self._next] for event in interval.unsupported}
        return tuple(Gap(event, "a hardware performance counter where it was recorded") for event in sorted(missing))
