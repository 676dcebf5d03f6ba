"""One CPU under the schedulers of a Control Zone, in virtual time: waits, late dispatches and CPU time of its tasks.

The rules are those of bpf/zone_latency, zone_weighted and zone_throughput: order of the queues, length of a turn, who
preempts, and the second after which batch goes first. Under `weighted` a group, and not a task, has virtual time: it
joins at the clock, that is the largest key that ran, is charged a turn when a task of it queues, and gets back what the
task did not use; one that slept is a turn behind at most. A scheduler that is attached starts with none of it. Times
are microseconds.
A zone's rows give groups their weight and the length of their turns.
Limits: one CPU, no kernel threads, no cost of a switch; tasks do not block but sleep between pieces of work.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cotenant.model.zones.setting import ZoneMode
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import GroupReading, MachineSigns, ZoneReading

SLICE_US = {ZoneMode.LATENCY: 4_000, ZoneMode.WEIGHTED: 4_000, ZoneMode.THROUGHPUT: 20_000}
STARVED_US = 1_000_000
_ALWAYS_US = 1 << 60
_HEAVIEST = 1000  # of bpf/zone_weighted.bpf.c


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task. `work_us`: a piece of work, 0: it never sleeps; `wakes_per_s`: pieces a second, by a Poisson process;
    `late_us`: a wait beyond it is a late dispatch, 0: none.
    """

    group: str
    zone_class: ZoneClass
    work_us: int = 0
    wakes_per_s: float = 0.0
    late_us: int = 0


@dataclass(slots=True)
class _Task:
    spec: TaskSpec
    left_us: int = 0
    queued_us: int = 0
    key_us: int = 0  # of the weighted scheduler's order
    used_us: int = 0
    late: int = 0
    worst_us: int = 0
    pieces: deque[int] = field(default_factory=deque)  # that came while it was busy


class ZoneCpu:
    """A CPU with these tasks; `rng` draws wake-ups."""

    def __init__(self, specs: tuple[TaskSpec, ...], mode: ZoneMode, rng: np.random.Generator) -> None:
        self._mode = mode
        self._rng = rng
        self._now_us = 0
        self._tasks: list[_Task] = []
        self._wakes: list[tuple[int, int]] = []
        self._queue: list[_Task] = []
        self._running: _Task | None = None
        self._turn_ends_us = 0
        self._clock_us = 0
        self._accounts_us: dict[str, int] = {}  # virtual time by group
        self.rows: Mapping[str, ZoneRow] = {}
        self.replace(specs)

    @property
    def mode(self) -> ZoneMode:
        """The scheduler that runs."""
        return self._mode

    @mode.setter
    def mode(self, mode: ZoneMode) -> None:
        """Attach another one: all tasks are queued anew."""
        if mode is self._mode:
            return
        self._mode, self._clock_us, self._accounts_us = mode, 0, {}
        for task in self._queue:
            self._charge(task)
        running, self._running = self._running, None
        if running is not None:
            self._enqueue(running)

    def replace(self, specs: tuple[TaskSpec, ...]) -> None:
        """Other tasks from now on."""
        self._tasks = [_Task(spec) for spec in specs]
        self._wakes, self._queue, self._running = [], [], None
        for index, task in enumerate(self._tasks):
            if task.spec.work_us:
                self._wake_later(index)
            else:
                task.left_us = _ALWAYS_US
                self._enqueue(task)

    def run(self, length_us: int) -> ZoneReading:
        """So long, and what was measured meanwhile."""
        for task in self._tasks:
            task.used_us = task.late = task.worst_us = 0
        end_us = self._now_us + length_us
        while self._now_us < end_us:
            if self._running is None and self._queue:
                self._dispatch()
            until_us = min(end_us, self._wakes[0][0] if self._wakes else end_us)
            if self._running is not None:
                task = self._running
                until_us = min(until_us, self._turn_ends_us, self._now_us + task.left_us)
                self._use(task, until_us - self._now_us)
            self._now_us = until_us
            self._settle()
        return ZoneReading(length_us / 1e6, self._groups(), MachineSigns(1))

    def _use(self, task: _Task, used_us: int) -> None:
        task.used_us += used_us
        task.left_us -= used_us

    def _settle(self) -> None:
        """What ends or begins now."""
        task = self._running
        if task is not None and task.left_us <= 0:
            self._stop(task)
            if task.pieces:
                task.left_us = task.pieces.popleft()
                self._enqueue(task)
        elif task is not None and self._now_us >= self._turn_ends_us:
            self._stop(task)
            self._enqueue(task)
        while self._wakes and self._wakes[0][0] <= self._now_us:
            _, index = heapq.heappop(self._wakes)
            self._woken(self._tasks[index])
            self._wake_later(index)

    def _woken(self, task: _Task) -> None:
        if task.left_us > 0:
            task.pieces.append(task.spec.work_us)
            return
        task.left_us = task.spec.work_us
        self._enqueue(task)
        running = self._running
        if (
            self._mode is ZoneMode.LATENCY
            and running is not None
            and running.spec.zone_class is ZoneClass.BATCH
            and task.spec.zone_class is ZoneClass.SERVICE
        ):
            self._stop(running)
            self._enqueue(running)

    def _stop(self, task: _Task) -> None:
        """Take it off the CPU; its group gets back what is left of the turn."""
        self._running = None
        if self._mode is ZoneMode.WEIGHTED:
            self._accounts_us[task.spec.group] -= max(0, self._turn_ends_us - self._now_us) * 100 // self._weight(task)

    def _enqueue(self, task: _Task) -> None:
        task.queued_us = self._now_us
        self._charge(task)
        self._queue.append(task)

    def _charge(self, task: _Task) -> None:
        if self._mode is ZoneMode.WEIGHTED:
            spent_us = self._accounts_us.get(task.spec.group, self._clock_us)
            task.key_us = max(spent_us, self._clock_us - SLICE_US[ZoneMode.WEIGHTED])
            self._accounts_us[task.spec.group] = task.key_us + self._turn_us(task) * 100 // self._weight(task)

    def _weight(self, task: _Task) -> int:
        row = self.rows.get(task.spec.group)
        return min(_HEAVIEST, row.weight) if row is not None and row.weight else 100

    def _turn_us(self, task: _Task) -> int:
        row = self.rows.get(task.spec.group)
        stated = row is not None and row.slice_us and self._mode is not ZoneMode.THROUGHPUT
        return row.slice_us if row is not None and stated else SLICE_US[self._mode]

    def _dispatch(self) -> None:
        task = min(self._queue, key=self._order)
        self._queue.remove(task)
        waited_us = self._now_us - task.queued_us
        if task.spec.late_us and waited_us > task.spec.late_us:
            task.late, task.worst_us = task.late + 1, max(task.worst_us, waited_us)
        if self._mode is ZoneMode.WEIGHTED:
            self._clock_us = max(self._clock_us, task.key_us)
        self._running = task
        self._turn_ends_us = self._now_us + self._turn_us(task)

    def _order(self, task: _Task) -> tuple[float, float]:
        if self._mode is ZoneMode.LATENCY:
            batch = task.spec.zone_class is ZoneClass.BATCH
            starved = batch and self._now_us - task.queued_us > STARVED_US
            return (0.0 if starved else 2.0 if batch else 1.0), task.queued_us
        if self._mode is ZoneMode.WEIGHTED:
            return task.key_us, task.queued_us
        return 0.0, task.queued_us

    def _wake_later(self, index: int) -> None:
        pause_us = max(1, round(self._rng.exponential(1e6 / self._tasks[index].spec.wakes_per_s)))
        heapq.heappush(self._wakes, (self._now_us + pause_us, index))

    def _groups(self) -> tuple[GroupReading, ...]:
        found: dict[str, GroupReading] = {}
        for task in self._tasks:
            before = found.get(task.spec.group, GroupReading(task.spec.group, task.spec.zone_class))
            found[task.spec.group] = GroupReading(
                task.spec.group,
                task.spec.zone_class,
                before.late + task.late,
                max(before.worst_us, task.worst_us),
                before.cpu_us + task.used_us,
            )
        return tuple(found.values())
