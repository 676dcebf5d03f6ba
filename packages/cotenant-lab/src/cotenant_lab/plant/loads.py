"""Loads in the plant's groups: hogs, programs whose demand follows a curve, and services with queues of requests.

A controller must be tested against work that takes all available CPU, work with a given demand at a given time, and
work whose quality is a latency. A load states how much CPU it could use in the next step, is granted some, and keeps
its own counters.
Limits: a request's CPU time is fixed; a thread that is granted less than it wants runs slower evenly over the step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import pi, sin
from typing import Protocol

import numpy as np

from cotenant.model.machine.node_state import ServiceHealth

PPM = 1_000_000


class PlantLoad(Protocol):
    """Threads in a group. A step begins with `wants`, ends with `granted`."""

    group: str
    threads: int

    def wants(self, now_us: int, step_us: int) -> int:
        """CPU time that it could use between now and the step's end, over all threads."""
        ...

    def granted(self, now_us: int, step_us: int, cpu_us: int, collision_ppm: int) -> tuple[int, int]:
        """Returns the CPU time used of `cpu_us`, and the total waiting time of its threads, microseconds.

        `collision_ppm`: probability that a thread that wakes up finds its CPUs occupied by a thread that is not
        preempted at once.
        """
        ...


@dataclass(slots=True)
class Hog:
    """Uses all CPU it gets between two instants."""

    group: str
    threads: int = 1
    from_us: int = 0
    until_us: int | None = None
    done_us: int = 0

    def wants(self, now_us: int, step_us: int) -> int:
        """As the Protocol."""
        begun = now_us >= self.from_us and (self.until_us is None or now_us < self.until_us)
        return self.threads * step_us if begun else 0

    def granted(self, now_us: int, step_us: int, cpu_us: int, collision_ppm: int) -> tuple[int, int]:
        """As the Protocol."""
        self.done_us += cpu_us
        return cpu_us, self.wants(now_us, step_us) - cpu_us


@dataclass(slots=True)
class SineLoad:
    """One thread whose demand is an oscillating share of a CPU, slot by slot; demand not met within a slot is lost."""

    group: str
    mean_ppm: int = 400_000
    swing_ppm: int = 300_000
    period_us: int = 20_000_000
    slot_us: int = 100_000
    threads: int = 1
    left_us: int = 0
    slot: int = -1
    demanded: list[int] = field(default_factory=list)  # per slot
    delivered: list[int] = field(default_factory=list)

    def wants(self, now_us: int, step_us: int) -> int:
        """As the Protocol."""
        slot = now_us // self.slot_us
        if slot != self.slot:
            self.slot = slot
            share = self.mean_ppm + self.swing_ppm * sin(2 * pi * slot * self.slot_us / self.period_us)
            self.left_us = int(share * self.slot_us / PPM)
            self.demanded.append(self.left_us)
            self.delivered.append(0)
        return min(self.left_us, step_us)

    def granted(self, now_us: int, step_us: int, cpu_us: int, collision_ppm: int) -> tuple[int, int]:
        """As the Protocol."""
        wanted = min(self.left_us, step_us)
        self.left_us -= cpu_us
        self.delivered[-1] += cpu_us
        return cpu_us, step_us - cpu_us if cpu_us < wanted else 0


@dataclass(slots=True)
class PlantService:
    """Requests that arrive at random, each with the same CPU time, served first come first served by some threads."""

    group: str
    rate_hz: float
    request_us: int
    objective_us: int
    rng: np.random.Generator
    threads: int = 1
    slice_us: int = 3000  # how long a thread that wakes up may wait for one that is running; EEVDF's base slice
    arrivals: deque[int] = field(default_factory=deque)  # of requests not yet begun
    begun: list[list[int]] = field(default_factory=list)  # per thread: [arrival, CPU time left]
    next_us: float = 0.0
    latencies: list[tuple[int, int]] = field(default_factory=list)  # when a request ended, how long it took

    def wants(self, now_us: int, step_us: int) -> int:
        """As the Protocol."""
        while self.next_us < now_us + step_us:
            if self.next_us >= now_us:
                self.arrivals.append(int(self.next_us))
            self.next_us = max(self.next_us, float(now_us)) + self.rng.exponential(1e6 / self.rate_hz)
        left = sum(request[1] for request in self.begun) + len(self.arrivals) * self.request_us
        return min(left, self.threads * step_us)

    def granted(self, now_us: int, step_us: int, cpu_us: int, collision_ppm: int) -> tuple[int, int]:
        """As the Protocol."""
        wanted = self.wants(now_us, step_us)
        if not wanted:
            return 0, 0
        speed = min(1.0, cpu_us / wanted)
        end_us, used_us, waited_us = now_us + step_us, 0, 0
        still: list[list[int]] = []
        busy = self.begun
        for thread in range(self.threads):
            cursor = float(now_us)
            request = busy[thread] if thread < len(busy) else None
            while True:
                if request is None:
                    if not self.arrivals or self.arrivals[0] >= end_us or cursor >= end_us:
                        break
                    request = [self.arrivals.popleft(), self.request_us]
                    if request[0] >= cursor:  # the thread was asleep
                        delay = self._wake_up(collision_ppm)
                        waited_us += delay
                        cursor = request[0] + delay
                if cursor >= end_us or speed <= 0:
                    still.append(request)
                    break
                finish = cursor + request[1] / speed
                if finish > end_us:
                    work = int((end_us - cursor) * speed)
                    used_us += min(work, request[1] - 1)
                    waited_us += int((end_us - cursor) * (1 - speed))
                    request[1] = max(1, request[1] - work)
                    still.append(request)
                    break
                used_us += request[1]
                waited_us += int((finish - cursor) * (1 - speed))
                self.latencies.append((int(finish), int(finish) - request[0]))
                cursor, request = finish, None
        self.begun = still
        return min(used_us, cpu_us), waited_us + (step_us * len(still) if speed <= 0 else 0)

    def _wake_up(self, collision_ppm: int) -> int:
        if self.rng.random() * PPM >= collision_ppm:
            return 0
        return int(self.rng.random() * self.slice_us)

    def health(self, now_us: int, window_us: int) -> ServiceHealth | None:
        """Its report on the last window; None without a request."""
        recent: list[int] = []
        for ended, took in reversed(self.latencies):
            if ended < now_us - 2 * window_us:  # latencies are recorded almost in order of time
                break
            if now_us - window_us <= ended < now_us:
                recent.append(took)
        if not recent:
            return None
        over = sum(took > self.objective_us for took in recent)
        return ServiceHealth(window_us, len(recent), percentile(recent, 99), over, age_us=0)


def percentile(values: list[int], percent: int) -> int:
    """The smallest value that at least `percent` % of the values do not exceed; the list must not be empty."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
