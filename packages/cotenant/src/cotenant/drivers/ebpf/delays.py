"""Run delay of groups from the eBPF probe, for the node's sensor: the same figure as schedstat, without reading each
task.

The sensor asks for groups at each tick, and the probe must be configured with them before it counts; a pair of victim
and culprit costs 1.5 us per tick, and best-effort work is never a victim. Of the requested groups, those with a
threshold from `late_us` are watched; the tree below them is listed every `RESCAN` readings.
Limits: a group's counter begins at 0 when it is first requested; a new group below a watched one, or a recreated one,
is counted some readings late. Time throttled by a group's own quota is included in the delay, as in schedstat; the
reading itself has the two separate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cotenant.drivers.ebpf.runqueue import RunQueue
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.run_queue import RunQueueReading

RESCAN = 4


def _never_late(group: str) -> int | None:
    return 0


class ProbeDelays:
    """Implements `drivers/cgroup/sensor.RunDelays`; `reading` is the probe's complete last reading.

    `late_us`: the wait above which a group's task is reported as late, 0 for never; None for a group that is not
    watched.
    """

    def __init__(self, probe: RunQueue, late_us: Callable[[str], int | None] = _never_late) -> None:
        self._probe = probe
        self._late_us = late_us
        self._watched: Mapping[str, int | None] = {}
        self._age = 0  # readings since the probe was last configured
        self.reading: RunQueueReading | None = None

    def read(self, groups: Sequence[str], now_us: int) -> Mapping[str, int]:
        """Microseconds by group since it was first requested; groups that are gone or not watched are left out."""
        watched = {group: late_us for group in groups if (late_us := self._late_us(group)) is not None}
        self._age += 1
        if watched != self._watched or self._age >= RESCAN:
            self._probe.watch(watched)
            self._watched, self._age = watched, 0
        self.reading = self._probe.read()
        return {
            entry.group: entry.waits.sum_us + entry.throttled_us
            for entry in self.reading.groups
            if entry.group in watched
        }

    def gaps(self) -> tuple[Gap, ...]:
        """A gap where the probe's tables overflowed."""
        if self.reading is None or not self.reading.unattributed_us:
            return ()
        return (Gap("blame of some waits", "fewer pairs of groups than the probe's table holds"),)
