"""Problems of a node that its groups' waits show, in the form of Kubernetes' conditions.

A node that is Ready can have a disk that answers after seconds, or tasks that free memory instead of working. A
condition is true from its limit on and false again when it has been below half of it for a minute, so that neither a
value at the limit nor a problem that comes and goes flaps: it changes twice a minute at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.engine.node.loads import Loads
from cotenant.model.machine.run_queue import WaitHistogram
from cotenant.model.machine.stalls import StallReading

_SLOW_US = 500_000
_MIN_WAITS = 5  # fewer have no percentile
_RECLAIM_SHARE = 0.05
_HELD_US = 60_000_000


@dataclass(frozen=True, slots=True)
class NodeProblem:
    """A condition. `type`, `reason`: words without spaces; `message`: with the group that has most of it."""

    type: str
    is_true: bool
    reason: str
    message: str


class Problems:
    """`seen`: every condition after a reading. `cpus`: of the machine."""

    def __init__(self, cpus: int) -> None:
        self._cpus = cpus
        self._before: StallReading | None = None
        # of those that are true: when one was last at half of its limit or above, and what it said then
        self._true: dict[str, tuple[int, str]] = {}

    def seen(self, reading: StallReading, loads: Mapping[str, Loads]) -> tuple[NodeProblem, ...]:
        """Of the time since the last reading; the first one has no waits to tell of."""
        before, self._before = self._before, reading
        earlier = {} if before is None else {group.group: group for group in before.groups}
        length_us = 0 if before is None else reading.at_us - before.at_us
        blocked = {
            group.group: group.blocked.since(earlier[group.group].blocked)
            for group in reading.groups
            if group.group in earlier and group.blocked is not earlier[group.group].blocked
        }
        reclaim = {
            group.group: group.reclaim.since(earlier[group.group].reclaim)
            for group in reading.groups
            if group.group in earlier and group.reclaim is not earlier[group.group].reclaim
        }
        return (
            self._blocked_tasks(loads, reading.at_us),
            self._slow_waits(blocked, reading.at_us),
            self._reclaim(reclaim, length_us, reading.at_us),
        )

    def _blocked_tasks(self, loads: Mapping[str, Loads], at_us: int) -> NodeProblem:
        total = sum(load.uninterruptible[0] for load in loads.values())
        worst = max(loads, key=lambda group: loads[group].uninterruptible[0], default="")
        message = f"{total:.2f} tasks in uninterruptible sleep over a minute, {self._cpus} CPUs; most in {worst or '/'}"
        return self._problem("BlockedTasks", total / self._cpus, "TasksWaitForDevices", "FewTasksWait", message, at_us)

    def _slow_waits(self, blocked: Mapping[str, WaitHistogram], at_us: int) -> NodeProblem:
        late = {group: waits.percentile_us(99) or 0 for group, waits in blocked.items() if waits.count >= _MIN_WAITS}
        worst = max(late, key=lambda group: late[group], default="")
        slowest_us = late.get(worst, 0)
        message = f"99 of 100 waits of {worst or '/'} end within {slowest_us / 1000:.1f} ms"
        return self._problem("SlowBlockIo", slowest_us / _SLOW_US, "WaitsAreLong", "WaitsAreShort", message, at_us)

    def _reclaim(self, reclaim: Mapping[str, WaitHistogram], length_us: int, at_us: int) -> NodeProblem:
        total_us = sum(waits.sum_us for waits in reclaim.values())
        worst = max(reclaim, key=lambda group: reclaim[group].sum_us, default="")
        share = total_us / length_us if length_us > 0 else 0.0
        message = f"{100 * share:.1f} % of a CPU's time went into freeing memory; most in {worst or '/'}"
        return self._problem("DirectReclaim", share / _RECLAIM_SHARE, "TasksFreeMemory", "MemoryIsFree", message, at_us)

    def _problem(self, kind: str, of_limit: float, bad: str, good: str, message: str, at_us: int) -> NodeProblem:
        if of_limit >= (0.5 if kind in self._true else 1.0):
            self._true[kind] = at_us, message
        elif kind in self._true and at_us - self._true[kind][0] >= _HELD_US:
            del self._true[kind]
        if kind in self._true:
            return NodeProblem(kind, True, bad, self._true[kind][1])
        return NodeProblem(kind, False, good, message)
