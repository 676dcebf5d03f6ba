"""What groups wait for besides a CPU, kept over time: load averages, histograms, the last long waits, conditions.

One watch for a command and for the agent. Long waits are kept in a ring for each group, so that a busy group does not
push out the rare waits of another; and where there are too many rings, one of the parent with most of them goes, so
that a pod with many groups does not push out those of another pod.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from cotenant.engine.node.loads import LoadAverages, Loads
from cotenant.engine.node.problems import NodeProblem, Problems
from cotenant.model.machine.stalls import GroupStalls, LongWait, StallReading

RING = 64  # long waits of a group
MAX_GROUPS = 1024  # that have a ring


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
    uncounted: int = 0


class StallWatch:
    """`view`: read now; `last`: the view before, or one of now where there is none. `cpus`: of the machine;
    `system_us`: a group's CPU time in the kernel, with the groups below it.
    """

    def __init__(
        self,
        probe: StallProbe,
        cpus: int | None = None,
        system_us: Callable[[str], int | None] = lambda group: None,
    ) -> None:
        self.system_us = system_us
        self._probe = probe
        self._loads = LoadAverages()
        self._problems = Problems(cpus or os.cpu_count() or 1)
        self._rings: dict[str, deque[LongWait]] = {}
        self._families: Counter[str] = Counter()  # rings by the parent of their groups
        self._last: StallView | None = None
        self._keeping = Lock()  # a look may run in a thread beside a question

    def view(self) -> StallView:
        """The view now."""
        reading = self._probe.read()
        counts = {group.group: (group.runnable, group.uninterruptible) for group in reading.groups}
        loads = self._loads.seen(reading.at_us, counts)
        with self._keeping:
            for wait in self._probe.long_waits():
                self._keep(wait)
        problems = self._problems.seen(reading, loads)
        self._last = StallView(reading.groups, loads, problems, reading.lost, reading.uncounted)
        return self._last

    def last(self) -> StallView:
        """The newest view."""
        return self._last if self._last is not None else self.view()

    def ring(self, group: str | None = None) -> list[LongWait]:
        """The long waits kept, of one group or of all, oldest first."""
        with self._keeping:
            waits = [wait for name, ring in self._rings.items() if group in (None, name) for wait in ring]
        return sorted(waits, key=lambda wait: wait.at_us)

    def _keep(self, wait: LongWait) -> None:
        ring = self._rings.pop(wait.group, None)
        if ring is None:
            ring = deque(maxlen=RING)
            self._families[_parent(wait.group)] += 1
        ring.append(wait)
        self._rings[wait.group] = ring  # of its family, the group that waited last is the last to be forgotten
        if len(self._rings) > MAX_GROUPS:
            largest = max(self._families, key=lambda parent: self._families[parent])
            del self._rings[next(group for group in self._rings if _parent(group) == largest)]
            self._families[largest] -= 1
            self._families += Counter()  # without those of no ring


def _parent(group: str) -> str:
    return group.rpartition("/")[0]
