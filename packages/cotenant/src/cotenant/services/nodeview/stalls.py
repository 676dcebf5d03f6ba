"""What groups wait for besides a CPU, kept over time: load averages, histograms, the last long waits, conditions.

One watch for a command and for the agent's metrics. Long waits are kept in a ring for each group, so that a busy group
does not push out the rare waits of another.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from cotenant.engine.node.loads import LoadAverages, Loads
from cotenant.engine.node.problems import NodeProblem, Problems
from cotenant.model.machine.stalls import GroupStalls, LongWait, StallReading

RING = 64  # long waits of a group
_MAX_GROUPS = 1024  # that have a ring


class StallProbe(Protocol):
    """`drivers/ebpf/stalls.StallTracer`."""

    def read(self) -> StallReading:
        """All groups now."""
        ...

    def long_waits(self) -> list[LongWait]:
        """Those since the last call."""
        ...


@dataclass(frozen=True, slots=True)
class StallView:
    """What is known after a reading."""

    groups: tuple[GroupStalls, ...]
    loads: dict[str, Loads]
    problems: tuple[NodeProblem, ...]
    lost: int


class StallWatch:
    """`look`: read now. `cpus`: of the machine."""

    def __init__(self, probe: StallProbe, cpus: int | None = None) -> None:
        self._probe = probe
        self._loads = LoadAverages()
        self._problems = Problems(cpus or os.cpu_count() or 1)
        self._rings: dict[str, deque[LongWait]] = {}

    def view(self) -> StallView:
        """The view now."""
        reading = self._probe.read()
        counts = {group.group: (group.runnable, group.uninterruptible) for group in reading.groups}
        loads = self._loads.seen(reading.at_us, counts)
        for wait in self._probe.long_waits():
            ring = self._rings.pop(wait.group, None) or deque(maxlen=RING)
            ring.append(wait)
            self._rings[wait.group] = ring  # the group that waited last is the last to be forgotten
            if len(self._rings) > _MAX_GROUPS:
                del self._rings[next(iter(self._rings))]
        return StallView(reading.groups, loads, self._problems.seen(reading, loads), reading.lost)

    def ring(self, group: str | None = None) -> list[LongWait]:
        """The long waits kept, of one group or of all, oldest first."""
        waits = [wait for name, ring in self._rings.items() if group in (None, name) for wait in ring]
        return sorted(waits, key=lambda wait: wait.at_us)
