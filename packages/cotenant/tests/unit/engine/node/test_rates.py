"""From counters to rates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.node.rates import Rates
from cotenant.model.machine.counters import GroupCounters, HostCounters, NodeSample, Pressure, Stall
from cotenant.model.machine.node_state import GroupUse
from cotenant.model.machine.run_queue import Blame, RunQueueReading

SECOND = 1_000_000
HOST = HostCounters(4, 0, 1000, 400)


def sample(at_s: float, *groups: GroupCounters, host: HostCounters = HOST, **more: object) -> NodeSample:
    return NodeSample(round(at_s * SECOND), 0.0, host, groups, **more)  # type: ignore[arg-type]


def use_of(rates: Rates, taken: NodeSample, group: str = "g") -> GroupUse:
    made = rates.advance(taken)
    assert made is not None
    return made.groups[group]


def test_the_first_sample_has_levels_and_no_rates() -> None:
    rates = Rates()
    made = rates.advance(sample(1, GroupCounters("g", cpu_us=5, memory_bytes=7, working_set_bytes=6, tasks=2)))
    assert made is not None
    assert made.interval_us == 0
    assert made.groups["g"] == GroupUse("g", memory_bytes=7, working_set_bytes=6, tasks=2)
    assert (made.host.cpu_m, made.host.memory_used_bytes) == (None, 600)


def test_every_rate_of_a_group() -> None:
    rates = Rates()
    before = GroupCounters(
        "g", 0, 10, 2, 0, 0, 1, 1, 100, 0, 1000, 0, 1, 10, 10, Pressure(Stall(0, 0), Stall(0, 0), Stall(0, 0))
    )
    after = GroupCounters(
        "g",
        cpu_us=3 * SECOND,
        periods=30,
        throttled_periods=7,
        throttled_us=9,
        run_delay_us=SECOND,
        memory_bytes=5,
        working_set_bytes=4,
        refaults=300,
        oom_kills=0,
        io_read_bytes=5000,
        io_written_bytes=2000,
        tasks=3,
        cycles=310,
        instructions=210,
        pressure=Pressure(Stall(500_000, 0), Stall(200_000, 100_000), Stall(50_000, 0)),
    )
    rates.advance(sample(1, before))
    assert use_of(rates, sample(3, after)) == GroupUse(
        "g",
        cpu_m=1500,
        throttled_ppm=250_000,
        run_delay_ppm=500_000,
        cpu_stall_ppm=250_000,
        memory_stall_ppm=100_000,
        memory_full_stall_ppm=50_000,
        io_stall_ppm=25_000,
        memory_bytes=5,
        working_set_bytes=4,
        refaults_per_s=100,
        io_read_bps=2000,
        io_written_bps=1000,
        tasks=3,
        cpi_milli=1500,
    )


def test_an_unchanged_group_has_the_same_rates_as_a_compared_one() -> None:
    still = GroupCounters("g", 5, 10, 2, 7, 3, 100, 90, 4, 0, 8, 9, 2, 10, 20, Pressure(Stall(1, 0), None, Stall(2, 1)))
    reused, compared = Rates(), Rates()
    for second in range(1, 6):
        mine = use_of(reused, sample(second, still))
        assert mine == use_of(compared, sample(second, replace(still)))
    assert (mine.cpu_m, mine.throttled_ppm, mine.memory_stall_ppm) == (0, 0, None)
    moved = replace(still, cpu_us=5 + SECOND)
    assert use_of(reused, sample(6, moved)).cpu_m == 1000


def test_io_that_is_read_seldom_keeps_its_last_rate_and_then_covers_the_time_between() -> None:
    rates = Rates()
    rates_seen = []
    for second in range(13):
        read = second // 4 * 4
        span = 4 if second == read else 0
        counters = GroupCounters("g", io_read_bytes=0, io_written_bytes=read * 100, io_span=span)
        use = use_of(rates, sample(second, counters))
        rates_seen.append((use.io_read_bps, use.io_written_bps))
    assert rates_seen == [(None, None)] * 4 + [(0, 100)] * 9


def test_io_that_grew_since_before_the_first_sample_has_no_rate() -> None:
    rates = Rates()
    rates.advance(sample(1, GroupCounters("g", io_written_bytes=0)))
    assert use_of(rates, sample(2, GroupCounters("g", io_written_bytes=800, io_span=8))).io_written_bps is None
    assert use_of(rates, sample(3, GroupCounters("g", io_written_bytes=900))).io_written_bps == 100


def test_every_rate_of_the_machine() -> None:
    rates = Rates()
    rates.advance(sample(1))
    after = replace(
        HOST,
        cpu_busy_us=6 * SECOND,
        cpu_steal_us=SECOND,
        network_received_bytes=20,
        network_sent_bytes=40,
        pressure=Pressure(Stall(1, 0), None, None),
    )
    made = rates.advance(sample(3, host=after))
    assert made is not None
    host = made.host
    assert (host.cpu_m, host.steal_ppm, host.network_received_bps, host.network_sent_bps) == (3000, 125_000, 10, 20)
    assert host.cpu_stall_ppm is None  # no previous sample


@pytest.mark.parametrize("smaller", [0, 999])
def test_a_counter_that_went_back_is_a_reset_and_not_a_rate(smaller: int) -> None:
    rates = Rates()
    rates.advance(sample(1, GroupCounters("g", cpu_us=1000)))
    made = rates.advance(sample(2, GroupCounters("g", cpu_us=smaller)))
    assert made is not None
    assert made.groups["g"].cpu_m is None
    assert (made.resets, made.recreated) == (1, {"g"})
    assert use_of(rates, sample(3, GroupCounters("g", cpu_us=smaller + 500_000))).cpu_m == 500


def test_a_new_group_is_not_recreated_where_no_counter_restarted() -> None:
    rates = Rates()
    rates.advance(sample(1))
    made = rates.advance(sample(2, GroupCounters("g", cpu_us=1000)))
    assert made is not None
    assert made.recreated == frozenset()


def test_more_cpu_than_the_machine_has_is_unknown() -> None:
    rates = Rates()
    rates.advance(sample(1, GroupCounters("g", cpu_us=0)))
    assert use_of(rates, sample(2, GroupCounters("g", cpu_us=10**15))).cpu_m is None


def test_a_counter_that_runs_ahead_of_the_clock_by_a_tick_counts_as_all_cpus() -> None:
    rates = Rates()
    rates.advance(sample(1, GroupCounters("g", cpu_us=0)))
    assert use_of(rates, sample(2, GroupCounters("g", cpu_us=4 * SECOND + 4000))).cpu_m == 4000


def test_a_counter_missing_once_is_unknown_once() -> None:
    rates = Rates()
    rates.advance(sample(1, GroupCounters("g", cpu_us=0)))
    assert use_of(rates, sample(2, GroupCounters("g"))).cpu_m is None
    assert use_of(rates, sample(3, GroupCounters("g", cpu_us=9))).cpu_m is None
    assert use_of(rates, sample(4, GroupCounters("g", cpu_us=250_009))).cpu_m == 250


def test_a_group_that_misses_a_sample_is_compared_over_the_longer_time() -> None:
    rates = Rates()
    rates.advance(sample(1, GroupCounters("g", cpu_us=0)))
    rates.advance(sample(2))
    assert use_of(rates, sample(3, GroupCounters("g", cpu_us=SECOND))).cpu_m == 500


def test_a_group_that_is_gone_is_forgotten() -> None:
    rates = Rates()
    rates.advance(sample(1, GroupCounters("g", cpu_us=0)))
    for at in range(2, 8):
        rates.advance(sample(at))
    assert len(rates) == 0
    assert use_of(rates, sample(9, GroupCounters("g", cpu_us=SECOND))).cpu_m is None


def test_a_stopped_clock_compares_nothing_and_keeps_the_older_sample() -> None:
    rates = Rates(50_000)
    rates.advance(sample(1, GroupCounters("g", cpu_us=0)))
    assert rates.advance(sample(1, GroupCounters("g", cpu_us=300_000))) is None
    assert rates.advance(sample(1.04, GroupCounters("g", cpu_us=300_000))) is None
    assert use_of(rates, sample(2, GroupCounters("g", cpu_us=500_000))).cpu_m == 500


def test_a_clock_that_went_back_restarts() -> None:
    rates = Rates()
    rates.advance(sample(100, GroupCounters("g", cpu_us=0)))
    made = rates.advance(sample(50, GroupCounters("g", cpu_us=1000)))
    assert made is not None
    assert (made.interval_us, made.groups["g"].cpu_m) == (0, None)
    assert use_of(rates, sample(51, GroupCounters("g", cpu_us=101_000))).cpu_m == 100


def test_a_jump_ahead_and_a_late_tick_are_averages() -> None:
    rates = Rates()
    rates.advance(sample(1, GroupCounters("g", cpu_us=0)))
    made = rates.advance(sample(101, GroupCounters("g", cpu_us=50 * SECOND)))
    assert made is not None
    assert (made.interval_us, made.groups["g"].cpu_m) == (100 * SECOND, 500)


def test_no_period_means_not_throttled_and_no_instruction_no_ratio() -> None:
    rates = Rates()
    still = GroupCounters("g", periods=5, throttled_periods=1, cycles=7, instructions=7)
    rates.advance(sample(1, still))
    use = use_of(rates, sample(2, still))
    assert (use.throttled_ppm, use.cpi_milli) == (0, None)


def test_a_group_named_twice_in_one_sample_has_its_levels() -> None:
    rates = Rates()
    made = rates.advance(sample(1, GroupCounters("g", cpu_us=0), GroupCounters("g", cpu_us=5, tasks=9)))
    assert made is not None
    assert made.groups["g"] == GroupUse("g", tasks=9)


def test_blame_covers_the_interval() -> None:
    rates = Rates()
    first = RunQueueReading(0, blame=(Blame("v", "a", 100), Blame("v", "b", 50)))
    second = RunQueueReading(0, blame=(Blame("v", "a", 400), Blame("v", "b", 50), Blame("v", "c", 7)))
    made = rates.advance(sample(1, run_queue=first))
    assert made is not None
    assert made.blame is None
    made = rates.advance(sample(2, run_queue=second))
    assert made is not None
    assert made.blame == (Blame("v", "a", 300), Blame("v", "c", 7))
    made = rates.advance(sample(3))
    assert made is not None
    assert made.blame is None


def test_best_effort_traffic_has_a_rate_only_while_its_class_exists() -> None:
    rates = Rates()
    rates_seen = []
    for second, sent in enumerate((None, 1000, 4000, 4500, 200, None, 900)):
        found = rates.advance(sample(second, best_effort_sent_bytes=sent))
        assert found is not None
        rates_seen.append(found.best_effort_sent_bps)
    assert rates_seen == [None, None, 3000, 500, None, None, None]  # a recreated class counts from 0
