"""What is kept of each interval, and what is usual."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, pvariance
from typing import Any

import numpy as np
import pytest
from tests.unit.policy.nodeqos.nodes import health, in_use, node

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.node_state import Alarm, HostUse, NodeState, PodUse
from cotenant.policy.interference.attribution.samples import (
    AttributionSample,
    NodeSamples,
    ServiceSample,
    UsualLevel,
    extended,
)
from cotenant.policy.interference.attribution.settings import (
    FLOORS_PPM,
    MAX_SAMPLES,
    AttributionSettings,
    EvidenceSignal,
)

SECOND = 1_000_000
SETTINGS = AttributionSettings()
WEB = "uid-web"


def web(**signals: int) -> PodUse:
    return in_use("web", 1000, signals=signals, objective_p99_us=100_000)


def state(second: int, *pods: PodUse, **fields: Any) -> NodeState:
    return node(pods, at_s=second, **fields)


def service(second: int, entry: PodUse, settings: AttributionSettings = SETTINGS) -> ServiceSample:
    return extended(NodeSamples(), state(second, entry), settings).samples[0].services[WEB]


# ---- one interval


def test_what_a_sample_has_of_its_pods() -> None:
    hog = in_use(
        "hog", 700, QoSClass.BE, signals={"io_read_bps": 5, "io_written_bps": 6, "cpi_milli": 900}, workload="Job x/y"
    )
    idle = in_use("idle", None, QoSClass.BE, signals={"cpi_milli": 0})
    made = state(3, web(cpu_stall_ppm=7), hog, idle)
    made = replace(made, host=replace(made.host, cpu_m=2000, steal_ppm=9, io_stall_ppm=11))
    (found,) = extended(NodeSamples(), made, SETTINGS).samples
    assert (found.at_us, found.length_us, found.outside_m, found.steal_ppm) == (3 * SECOND, SECOND, 300, 9)
    assert found.activity == {WEB: 1000, "uid-hog": 700}
    assert (found.disk, found.cpi_milli, found.disk_stall_ppm) == ({"uid-hog": 11}, {"uid-hog": 900}, 11)
    assert (found.workloads, set(found.services), found.blame) == ({"uid-hog": "Job x/y"}, {WEB}, None)
    less = replace(made, host=HostUse(cpus=2, cpu_m=None, memory_total_bytes=1, memory_used_bytes=1))
    (found,) = extended(NodeSamples(), less, SETTINGS).samples
    assert (found.outside_m, found.steal_ppm, found.disk_stall_ppm) == (0, 0, None)


def test_the_levels_of_a_service() -> None:
    entry = web(cpi_milli=1500, run_delay_ppm=30_000, cpu_stall_ppm=40_000, io_stall_ppm=0, throttled_ppm=5)
    found = service(1, entry)
    assert set(found.levels) == {
        EvidenceSignal.CPI,
        EvidenceSignal.RUN_DELAY,
        EvidenceSignal.STALL,
        EvidenceSignal.IO_STALL,
    }
    assert (found.levels[EvidenceSignal.STALL], found.levels[EvidenceSignal.IO_STALL]) == (40_000, 0)
    assert (found.cpu_m, found.throttled_ppm, found.rate_milli, found.burn_milli) == (1000, 5, None, None)
    only = service(1, entry, replace(SETTINGS, signals=(EvidenceSignal.STALL, EvidenceSignal.BLAME)))
    assert set(only.levels) == {EvidenceSignal.STALL}


def test_without_an_objective_hardly_any_wait_is_none() -> None:
    bare = replace(web(run_delay_ppm=19_999), pod=replace(web().pod, objective_p99_us=None))
    assert service(1, bare).levels[EvidenceSignal.RUN_DELAY] == 0
    waits = replace(bare, use=replace(bare.use, run_delay_ppm=20_000))
    assert service(1, waits).levels[EvidenceSignal.RUN_DELAY] > 0
    assert service(1, web(run_delay_ppm=19_999)).levels[EvidenceSignal.RUN_DELAY] > 0


def test_its_report_counts_while_it_is_fresh_and_of_enough_requests() -> None:
    told = replace(health(150_000, 1000, 30), self_p99_us=40_000)
    found = service(1, replace(web(), health=told))
    assert found.levels == {EvidenceSignal.LATENCY: 1_500_000, EvidenceSignal.SELF_TIME: 400_000}
    assert (found.rate_milli, found.burn_milli, found.window_us, found.age_us) == (1_000_000, 3000, SECOND, 0)
    own = service(1, replace(web(), health=replace(told, budget_ppm=60_000, self_p99_us=None)))
    assert (own.burn_milli, set(own.levels)) == (500, {EvidenceSignal.LATENCY})
    for old, is_used in ((15 * SECOND, True), (15 * SECOND + 1, False)):
        aged = service(1, replace(web(), health=replace(told, age_us=old)))
        assert (EvidenceSignal.LATENCY in aged.levels, aged.rate_milli is not None) == (is_used, is_used)
    for requests, is_used in ((20, True), (19, False)):
        few = service(1, replace(web(), health=replace(told, requests=requests, over_objective=0)))
        assert (EvidenceSignal.LATENCY in few.levels, few.rate_milli) == (is_used, requests * 1000)
        assert (few.window_us > 0) is is_used
    bare = replace(web(), pod=replace(web().pod, objective_p99_us=None), health=told)
    assert (service(1, bare).levels, service(1, bare).rate_milli) == ({}, 1_000_000)
    assert service(1, replace(web(), health=replace(told, window_us=0))).rate_milli is None


# ---- the window


def test_samples_of_the_last_minute_are_kept() -> None:
    history = NodeSamples()
    for second in range(1, 100):
        history = extended(history, state(second, web()), SETTINGS)
    assert [one.at_us // SECOND for one in history.samples] == list(range(40, 100))
    many = NodeSamples()
    for tick in range(MAX_SAMPLES + 10):
        many = extended(many, replace(state(0, web()), at_us=1 + tick), SETTINGS)
    assert [one.at_us for one in many.samples] == list(range(11, MAX_SAMPLES + 11))


def test_what_is_no_new_interval_adds_nothing_and_a_clock_that_goes_back_starts_anew() -> None:
    history = NodeSamples()
    for second in (1, 2, 3):
        history = extended(history, state(second, web(cpu_stall_ppm=5)), SETTINGS)
    assert extended(history, state(4, web(), interval_us=0), SETTINGS) is history
    assert extended(history, state(4, web(), alarms=(Alarm(1, "", "cpu"),)), SETTINGS) is history
    for second in (3, 2):
        back = extended(history, state(second, web(cpu_stall_ppm=5)), SETTINGS)
        assert len(back.samples) == 1
        assert back.usual[WEB, EvidenceSignal.STALL].samples == 4


# ---- what is usual


@pytest.mark.parametrize("count", [1, 5, 60])
def test_the_usual_level_is_the_mean_and_deviation_of_calm_samples(count: int) -> None:
    levels = [int(level) for level in np.random.default_rng(count).integers(0, 100_000, count)]
    found = UsualLevel()
    for level in levels:
        found = found.with_level(level)
    assert (found.samples, found.mean) == (count, pytest.approx(fmean(levels)))
    assert found.variance == pytest.approx(pvariance(levels))
    if count < SETTINGS.usual_samples:
        assert found.threshold_ppm(SETTINGS) is None
    else:
        assert found.threshold_ppm(SETTINGS) == round(fmean(levels) + 3 * pvariance(levels) ** 0.5)


def test_after_sixty_samples_the_latest_weigh_a_sixtieth() -> None:
    found = UsualLevel(60, 600.0, 0.0).with_level(1200)
    assert (found.samples, found.mean, found.variance) == (60, 610.0, pytest.approx(600 * 590 / 60))
    assert UsualLevel(10, 5.0, -1.0).threshold_ppm(SETTINGS) == 5


def learned(seconds: int, entry: PodUse, settings: AttributionSettings = SETTINGS) -> NodeSamples:
    history = NodeSamples()
    for second in range(1, seconds + 1):
        history = extended(history, state(second, entry), settings)
    return history


def test_nothing_is_learned_in_trouble_or_where_its_own_quota_throttles() -> None:
    calm = learned(3, web(cpu_stall_ppm=9_000))
    assert calm.usual[WEB, EvidenceSignal.STALL] == UsualLevel(3, 9_000, 0)
    assert learned(3, web(cpu_stall_ppm=9_000, throttled_ppm=100_000)).usual
    assert not learned(3, web(cpu_stall_ppm=9_000, throttled_ppm=100_001)).usual
    missed = replace(web(cpu_stall_ppm=9_000), health=health(150_000))
    assert learned(9, missed).usual[WEB, EvidenceSignal.STALL].samples == 2  # the third bad one is trouble
    gone = extended(calm, state(4), SETTINGS)
    assert not gone.usual


def test_a_single_bad_sample_counts_as_the_threshold() -> None:
    calm = learned(12, web(cpu_stall_ppm=9_000))
    jumped = extended(calm, state(13, web(cpu_stall_ppm=900_000)), SETTINGS)
    assert jumped.usual[WEB, EvidenceSignal.STALL] == UsualLevel(13, 9_000, 0)


def test_thresholds_have_floors_and_cycles_need_a_usual_level() -> None:
    empty = NodeSamples()
    for signal, floor in FLOORS_PPM.items():
        expected = None if signal is EvidenceSignal.CPI else floor
        assert empty.threshold_ppm(WEB, signal, SETTINGS) == expected
    usual = NodeSamples(
        usual={(WEB, EvidenceSignal.CPI): UsualLevel(10, 70.0, 4.0), (WEB, EvidenceSignal.STALL): UsualLevel(9, 1e6, 0)}
    )
    assert usual.threshold_ppm(WEB, EvidenceSignal.CPI, SETTINGS) == 76
    assert usual.threshold_ppm(WEB, EvidenceSignal.STALL, SETTINGS) == FLOORS_PPM[EvidenceSignal.STALL]
    assert usual.threshold_ppm("other", EvidenceSignal.CPI, SETTINGS) is None


def row(*levels: dict[EvidenceSignal, int]) -> NodeSamples:
    return NodeSamples(
        tuple(
            AttributionSample(i * SECOND, SECOND, {WEB: ServiceSample(WEB, level, 1000, 0)}, {}, None, 0, 0)
            for i, level in enumerate(levels)
        )
    )


def test_the_first_signal_that_the_last_sample_has_decides() -> None:
    slow, own, stall = {EvidenceSignal.LATENCY: 1}, {EvidenceSignal.SELF_TIME: 1}, {EvidenceSignal.STALL: 1}
    assert row(slow, stall).deciding(WEB, SETTINGS) is EvidenceSignal.STALL
    assert row({**stall, **slow}).deciding(WEB, SETTINGS) is EvidenceSignal.LATENCY
    assert row(own).deciding(WEB, SETTINGS) is EvidenceSignal.SELF_TIME
    assert (
        row({**own, **slow}).deciding(WEB, SETTINGS) is EvidenceSignal.LATENCY
    )  # the whole decides, where it is known
    assert (
        row({EvidenceSignal.CPI: 5, **stall}).deciding(WEB, SETTINGS) is EvidenceSignal.STALL
    )  # its usual level is not known
    assert row({}).deciding(WEB, SETTINGS) is None
    assert row(slow).deciding("other", SETTINGS) is None
    assert NodeSamples().deciding(WEB, SETTINGS) is None


@pytest.mark.parametrize(
    ("bad", "is_in_trouble"), [("..xxx", True), ("x.x.x", True), (".x.x.", False), ("xxxx...", False), ("xx", False)]
)
def test_trouble_is_three_bad_samples_of_the_last_five(bad: str, is_in_trouble: bool) -> None:
    found = row(*({EvidenceSignal.LATENCY: 1_000_001 if letter == "x" else 1_000_000} for letter in bad))
    assert found.in_trouble(WEB, SETTINGS) is is_in_trouble
    assert not found.in_trouble("other", SETTINGS)
