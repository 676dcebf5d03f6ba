"""Rates over random samples, compared with what the whole history of samples says."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from cotenant.engine.node.rates import NodeRates, Rates
from cotenant.model.machine.counters import GroupCounters, HostCounters, NodeSample, Pressure, Stall
from cotenant.model.machine.node_state import GroupUse, HostUse
from cotenant.model.machine.run_queue import Blame, RunQueueReading

SECOND = 1_000_000
MISSED, LONGEST_SPAN = 5, 32
ABSOLUTE = 100_000  # microseconds of CPU time per CPU beyond the clock that are believed


def drawn(random: Random, at_us: int) -> NodeSample:
    """A sample with anything in it: absent groups and counters, counters that shrink, I/O that was not read."""

    def counter() -> int | None:
        return random.choice((None, *(random.randrange(4) * random.choice((1, 70_003, SECOND)) for _ in range(4))))

    def stall() -> Stall | None:
        return random.choice((None, Stall(random.randrange(3 * SECOND), random.randrange(2 * SECOND))))

    def pressure() -> Pressure:
        return Pressure(stall(), stall(), stall())

    def level() -> int:
        return random.randrange(3 * SECOND)

    host = HostCounters(
        random.choice((0, 1, 4)),
        level(),
        1000,
        random.choice((0, 400, 1001)),
        cpu_steal_us=level(),
        network_received_bytes=level(),
        network_sent_bytes=level(),
        pressure=pressure(),
        disk_read_bytes=level(),
        disk_written_bytes=level(),
        disk_busy_us=random.choice((None, level())),
        disks=("8:0", "8:16")[: random.randrange(3)],
    )
    groups = tuple(
        GroupCounters(
            name,
            **{field: counter() for field in COUNTERS},
            pressure=pressure(),
            io_span=random.choice((0, 1)) if random.random() < 0.8 else random.choice((2, 3, 31, 32, 33)),
        )
        for name in "abc"
        if random.random() < 0.6
    )
    blame = tuple(Blame("v", culprit, random.randrange(9)) for culprit in "xy" if random.random() < 0.8)
    reading = random.choice((None, RunQueueReading(0, blame=blame)))
    return NodeSample(at_us, 0.0, host, groups, run_queue=reading, best_effort_sent_bytes=counter())


COUNTERS = (
    *("cpu_us", "periods", "throttled_periods", "run_delay_us", "memory_bytes", "working_set_bytes", "refaults"),
    *("io_read_bytes", "io_written_bytes", "tasks", "cycles", "instructions"),
)


class Reference:
    """The same by looking at all samples since the clock last went back."""

    def __init__(self, min_us: int) -> None:
        self._min_us = min_us
        self._past: list[NodeSample] = []
        self._uses: list[dict[str, GroupUse]] = []
        self._resets = 0

    def advance(self, taken: NodeSample) -> NodeRates | None:
        if self._past and 0 <= taken.at_us - self._past[-1].at_us < self._min_us:
            return None
        if self._past and taken.at_us < self._past[-1].at_us:
            self._past, self._uses = [], []
        self._resets = 0
        last = self._past[-1] if self._past else None
        interval_us = taken.at_us - last.at_us if last else 0
        uses = {counters.group: self._use(counters, taken) for counters in taken.groups}
        host = self._host(last, taken, interval_us)
        sent = self._rate(last.best_effort_sent_bytes, taken.best_effort_sent_bytes, interval_us) if last else None
        lost = {counters.group for counters in taken.groups if counters.cpu_us is not None}
        recreated = frozenset(group for group in lost if uses[group].cpu_m is None) if self._resets else frozenset()
        self._past.append(taken)
        self._uses.append(uses)
        return NodeRates(interval_us, host, uses, _blame(last, taken), self._resets, sent, recreated)

    def _use(self, now: GroupCounters, taken: NodeSample) -> GroupUse:
        levels = GroupUse(
            now.group, memory_bytes=now.memory_bytes, working_set_bytes=now.working_set_bytes, tasks=now.tasks
        )
        for at in range(len(self._past) - 1, max(-1, len(self._past) - 1 - MISSED), -1):
            for before in self._past[at].groups:
                if before.group == now.group:
                    return self._compared(levels, before, now, at, taken)
        return levels

    def _compared(
        self, levels: GroupUse, before: GroupCounters, now: GroupCounters, at: int, taken: NodeSample
    ) -> GroupUse:
        span_us = taken.at_us - self._past[at].at_us
        read, written = self._uses[at][now.group].io_read_bps, self._uses[at][now.group].io_written_bps
        if now.io_span:
            io_us = span_us
            if now.io_span > 1:
                known = now.io_span <= min(len(self._past), LONGEST_SPAN)
                io_us = taken.at_us - self._past[-now.io_span].at_us if known else 0
            read = self._rate(before.io_read_bytes, now.io_read_bytes, io_us)
            written = self._rate(before.io_written_bytes, now.io_written_bytes, io_us)
        delay = self._grown(before.run_delay_us, now.run_delay_us)
        throttled = self._grown(before.throttled_periods, now.throttled_periods)
        periods = self._grown(before.periods, now.periods)
        cycles, done = self._grown(before.cycles, now.cycles), self._grown(before.instructions, now.instructions)
        share = None
        if throttled is not None and periods is not None:
            share = min(SECOND, throttled * SECOND // periods) if periods else 0
        return replace(
            levels,
            cpu_m=_cpu_m(self._grown(before.cpu_us, now.cpu_us), span_us, taken.host.cpus),
            throttled_ppm=share,
            run_delay_ppm=None if delay is None else delay * SECOND // span_us,
            refaults_per_s=self._rate(before.refaults, now.refaults, span_us),
            io_read_bps=read,
            io_written_bps=written,
            cpi_milli=cycles * 1000 // done if cycles is not None and done else None,
            **self._stalls(before.pressure, now.pressure, span_us),
        )

    def _host(self, last: NodeSample | None, taken: NodeSample, interval_us: int) -> HostUse:
        now = taken.host
        use = HostUse(
            now.cpus, None, now.memory_total_bytes, max(0, now.memory_total_bytes - now.memory_available_bytes)
        )
        if last is None:
            return use
        before, cpus = last.host, max(1, now.cpus)
        steal = self._grown(before.cpu_steal_us, now.cpu_steal_us)
        busy = self._grown(before.disk_busy_us, now.disk_busy_us)
        moved = now.disk_read_bytes + now.disk_written_bytes
        time_us = interval_us * max(1, len(now.disks))
        return replace(
            use,
            disk_bps=self._rate(before.disk_read_bytes + before.disk_written_bytes, moved, interval_us),
            disks=now.disks,
            disk_busy_ppm=None if busy is None or not interval_us else min(SECOND, busy * SECOND // time_us),
            cpu_m=_cpu_m(self._grown(before.cpu_busy_us, now.cpu_busy_us), interval_us, now.cpus),
            steal_ppm=None if steal is None else min(SECOND, steal * SECOND // (interval_us * cpus)),
            network_received_bps=self._rate(before.network_received_bytes, now.network_received_bytes, interval_us),
            network_sent_bps=self._rate(before.network_sent_bytes, now.network_sent_bytes, interval_us),
            **self._stalls(before.pressure, now.pressure, interval_us),
        )

    def _stalls(self, before: Pressure, now: Pressure, span_us: int) -> dict[str, int | None]:
        made: dict[str, int | None] = {}
        for name, resource, kind in (
            ("cpu_stall_ppm", "cpu", "some_us"),
            ("memory_stall_ppm", "memory", "some_us"),
            ("memory_full_stall_ppm", "memory", "full_us"),
            ("io_stall_ppm", "io", "some_us"),
        ):
            grown = self._grown(
                getattr(getattr(before, resource), kind, None), getattr(getattr(now, resource), kind, None)
            )
            made[name] = None if grown is None else min(SECOND, grown * SECOND // span_us)
        return made

    def _grown(self, before: int | None, now: int | None) -> int | None:
        if before is None or now is None:
            return None
        self._resets += now < before
        return now - before if now >= before else None

    def _rate(self, before: int | None, now: int | None, span_us: int) -> int | None:
        grown = self._grown(before, now)
        return None if grown is None or span_us == 0 else grown * SECOND // span_us


def _cpu_m(grown_us: int | None, span_us: int, cpus: int) -> int | None:
    most = max(1, cpus)
    if grown_us is None or grown_us > most * (span_us + ABSOLUTE):
        return None
    return min(grown_us * 1000 // span_us, most * 1000)


def _blame(last: NodeSample | None, taken: NodeSample) -> tuple[Blame, ...] | None:
    if last is None or last.run_queue is None or taken.run_queue is None:
        return None
    before = {blame.culprit: blame.ran_us for blame in last.run_queue.blame}
    grown = [replace(blame, ran_us=blame.ran_us - before.get(blame.culprit, 0)) for blame in taken.run_queue.blame]
    return tuple(blame for blame in grown if blame.ran_us > 0)


@pytest.mark.parametrize("min_us", [0, 1, 300_000])
def test_rates_are_those_of_the_whole_history(min_us: int) -> None:
    random = Random(min_us)
    for _ in range(4):
        rates, reference = Rates(min_us), Reference(max(1, min_us))
        at_us = SECOND
        last: NodeSample | None = None
        for _ in range(40):
            at_us += random.choice((0, 1, 299_999, 300_000, SECOND, SECOND, 2 * SECOND, 9 * SECOND))
            if random.random() < 0.02:
                at_us -= random.choice((1, 5 * SECOND))
            taken = drawn(random, at_us)
            if last is not None and random.random() < 0.4 and all(counters.io_span < 2 for counters in last.groups):
                taken = replace(taken, groups=last.groups)  # the very same values: nothing moved
            last = taken
            assert rates.advance(taken) == reference.advance(taken)


def test_samples_a_microsecond_apart_are_compared_by_default() -> None:
    rates = Rates()
    host = HostCounters(1, 0, 1, 1)
    assert rates.advance(NodeSample(0, 0.0, host)) is not None
    assert rates.advance(NodeSample(0, 0.0, host)) is None
    made = rates.advance(NodeSample(1, 0.0, replace(host, network_sent_bytes=3)))
    assert made is not None
    assert made.host.network_sent_bps == 3 * SECOND
