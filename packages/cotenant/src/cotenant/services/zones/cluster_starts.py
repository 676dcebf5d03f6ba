"""When the keeper is asked to start a ControlZone of the cluster, and again.

A zone that cannot start is asked for in each period, and one in a virtual machine costs an unpacking and a boot each
time; a machine may also end by itself. A start that failed, or that was followed by an end, is repeated after a pause
that doubles up to `LONGEST_PAUSE_S`; a zone that ran for `STEADY_S` begins anew. Another source (generation or UID of
the object) is another zone, without a past. No I/O: the caller says what it sees and when.

    absent --asked--> starting --seen running--> running
    starting, running --absent--> refused, with a reason; refused --pause over--> absent
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 300.0
STEADY_S = 600.0
ENDED = "it ended on its node; `cotenant zone logs` there has more"


class _Phase(Enum):
    ABSENT = auto()
    STARTING = auto()
    RUNNING = auto()


@dataclass(slots=True)
class _Known:
    source: str
    phase: _Phase = _Phase.ABSENT
    since_s: float = 0.0
    failures: int = 0
    starts: int = 0
    next_s: float = 0.0
    message: str = ""


class ZoneStarts:
    """By zone. `source`: as the keeper lists it; times are seconds of one clock."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def absent(self, zone: str, source: str, why: str, now_s: float) -> bool:
        """The keeper does not run it; whether to ask for it now. `why`: the keeper's reason for its end, "" where it
        has none.
        """
        known = self._of(zone, source)
        if known.phase is not _Phase.ABSENT:
            if known.phase is _Phase.RUNNING and now_s - known.since_s >= STEADY_S:
                known.failures = 0
            self._failed(known, why or ENDED, now_s)
        return now_s >= known.next_s

    def asked(self, zone: str, source: str) -> None:
        """The keeper was asked for it, and has not refused."""
        known = self._of(zone, source)
        known.phase, known.message, known.starts = _Phase.STARTING, "", known.starts + 1

    def refused(self, zone: str, source: str, message: str, now_s: float) -> None:
        """The keeper was asked for it and refused."""
        self._failed(self._of(zone, source), message, now_s)

    def seen(self, zone: str, source: str, runs: bool, now_s: float) -> None:
        """The keeper has it. `runs`: its first setting was tried."""
        known = self._of(zone, source)
        known.message, known.starts = "", max(1, known.starts)  # an earlier agent may have asked
        if runs and known.phase is not _Phase.RUNNING:
            known.since_s = now_s
        known.phase = _Phase.RUNNING if runs else _Phase.STARTING

    def keep(self, zones: Collection[str]) -> None:
        """Forget all others."""
        self._known = {zone: known for zone, known in self._known.items() if zone in zones}

    def is_starting(self, zone: str) -> bool:
        """Whether it is on its way."""
        return zone in self._known and self._known[zone].phase is _Phase.STARTING

    def message(self, zone: str) -> str:
        """Why it does not run; "" where it does, or starts."""
        return self._known[zone].message if zone in self._known else ""

    def restarts(self, zone: str) -> int:
        """How often it was started again."""
        return max(0, self._known[zone].starts - 1) if zone in self._known else 0

    def _of(self, zone: str, source: str) -> _Known:
        known = self._known.get(zone)
        if known is None or known.source != source:
            known = self._known[zone] = _Known(source)
        return known

    @staticmethod
    def _failed(known: _Known, message: str, now_s: float) -> None:
        known.phase, known.message, known.failures = _Phase.ABSENT, message, known.failures + 1
        known.next_s = now_s + min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(10, known.failures - 1))
