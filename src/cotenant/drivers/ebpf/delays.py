"""Run delay of groups by the probe, for the node's sensor: what schedstat gives, without a look at each task.

Problem: the sensor asks for groups at each tick, and the probe must be told of them before it counts; a pair of victim and culprit costs 1.5 us a tick,
and best-effort work is nobody's victim. Choice: of the groups asked for, those are watched that `late_us` gives a threshold for; the tree
below them is looked at every `LOOK_AGAIN` readings. Limits: a group's counter begins at 0 when it is first asked for; a new group below a watched one,
or one made anew under its name, is counted some readings late. What a group's own quota withheld is in the delay, as schedstat has it; the reading itself has
the two apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cotenant.drivers.ebpf.runqueue import RunQueue
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.run_queue import RunQueueReading

LOOK_AGAIN = 4


def _all_silent(group: str) -> int | None:
    return 0


class ProbeDelays:
    """Meets `drivers/cgroup/sensor.RunDelays`; `reading` has all that the probe told at the last tick.

    `late_us`: the wait above which a group's task is told as late, 0 for never; None for a group that is not to be watched at all.
    """

    def __init__(self, probe: RunQueue, late_us: Callable[[str], int | None] = _all_silent) -> None:
        self._probe = probe
        self._late_us = late_us
        self._watched: Mapping[str, int | None] = {}
        self._age = 0  # readings since the probe was last told
        self.reading: RunQueueReading | None = None

    def read(self, groups: Sequence[str], now_us: int) -> Mapping[str, int]:
        """Microseconds by group since it was first asked for; those that are gone or not watched are left out."""
        watched = {group: late_us for group in groups if (late_us := self._late_us(group)) is not None}
        self._age += 1
        if watched != self._watched or self._age >= LOOK_AGAIN:
            self._probe.watch(watched)
            self._watched, self._age = watched, 0
        self.reading = self._probe.read()
        return {
            entry.group: entry.waits.sum_us + entry.throttled_us
            for entry in self.reading.groups
            if entry.group in watched
        }

    def gaps(self) -> tuple[Gap, ...]:
        """What could not be told: nothing, unless the probe ran out of room."""
        if self.reading is None or not self.reading.unattributed_us:
            return ()
        return (Gap("who ran during all waits", "fewer pairs of groups than the probe has room for"),)
