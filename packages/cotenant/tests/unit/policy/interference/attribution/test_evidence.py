"""What each signal shows, over histories written down by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from typing import Any

import pytest

from cotenant.model.resources import Amounts
from cotenant.policy.interference.attribution.activity import ActivityMeasure, Own
from cotenant.policy.interference.attribution.bystanders import fellow_sufferers, without_activity
from cotenant.policy.interference.attribution.evidence import (
    Split,
    activity_of,
    by_blame,
    by_fit,
    min_activity,
    rise_from,
    split,
    suspects,
)
from cotenant.policy.interference.attribution.samples import AttributionSample, NodeSamples, ServiceSample
from cotenant.policy.interference.attribution.settings import AttributionSettings, EvidenceSignal
from cotenant.policy.interference.series import BlameSample

SETTINGS = AttributionSettings()
SECOND = 1_000_000
LATENCY = EvidenceSignal.LATENCY


def sample(second: int, services: Mapping[str, ServiceSample], **fields: Any) -> AttributionSample:
    made = AttributionSample(second * SECOND, SECOND, services, {}, None, 0, 0)
    return replace(made, **fields)


def service(level: int | None = None, uid: str = "web", **fields: Any) -> ServiceSample:
    levels = {} if level is None else {LATENCY: level}
    return replace(ServiceSample(uid, levels, 1000, 0), **fields)


def history(*levels: int, **fields: Any) -> NodeSamples:
    """`levels`: of the service's latency, in thousandths of its objective, one a second."""
    return NodeSamples(
        tuple(sample(at, {"web": service(level * 1000, **fields)}) for at, level in enumerate(levels, start=1))
    )


def seconds(pairs: Any) -> list[int]:
    return [one.at_us // SECOND for one, _ in pairs]


def parts_of(samples: NodeSamples, settings: AttributionSettings = SETTINGS) -> Split:
    parts = split(samples, "web", settings)
    assert parts is not None
    return parts


def test_samples_are_bad_above_the_threshold_and_calm_up_to_it() -> None:
    parts = parts_of(history(500, 1000, 700, 1001, 3000))
    assert (parts.signal, parts.threshold_ppm, parts.uid) == (LATENCY, 1_000_000, "web")
    assert (seconds(parts.pairs), seconds(parts.bad), seconds(parts.calm)) == ([1, 2, 3, 4, 5], [4, 5], [1, 2, 3])
    assert parts.level_ppm == round((1_001_000 + 3_000_000) / 2)


def test_few_calm_samples_are_none_and_without_a_bad_one_there_is_nothing_to_explain() -> None:
    assert seconds(parts_of(history(500, 500, 2000)).calm) == []
    assert split(history(500, 500, 500), "web", SETTINGS) is None
    assert split(history(500, 2000), "other", SETTINGS) is None
    assert split(NodeSamples(), "web", SETTINGS) is None


@pytest.mark.parametrize(
    ("levels", "bad"),
    [
        ((2, 0, 0, 0, 0, 0, 2, 2), [7, 8]),  # five calm ones end an earlier trouble
        ((2, 0, 0, 0, 0, 2, 2), [1, 6, 7]),
        ((2, 0, 2, 0, 0, 0, 0, 2, 0, 0), [1, 3, 8]),
        ((2, 2, 0, 0, 0, 0, 0, 0, 2, 0), [9]),
        ((2, 0, 0, 0, 0, 0, 0, 0), [1]),  # still the last one
    ],
)
def test_an_earlier_trouble_is_not_the_present_one(levels: tuple[int, ...], bad: list[int]) -> None:
    assert seconds(parts_of(history(*(1000 * level for level in levels))).bad) == bad


def test_samples_without_the_deciding_signal_say_nothing() -> None:
    known = history(500, 500, 500, 2000)
    silent = sample(5, {"web": service(None)})
    last = sample(6, {"web": service(2_000_000)})
    parts = parts_of(NodeSamples((*known.samples, silent, last)))
    assert (seconds(parts.pairs), seconds(parts.bad)) == ([1, 2, 3, 4, 6], [4, 6])


def grown(before: dict[str, Any], during: dict[str, Any]) -> int | None:
    calm = [sample(at, {"web": service(500_000, **before)}) for at in (1, 2, 3)]
    bad = [sample(at, {"web": service(2_000_000, **during)}) for at in (4, 5)]
    return parts_of(NodeSamples((*calm, *bad))).growth_ppm()


def test_demand_grows_by_requests_else_by_instructions_else_by_use() -> None:
    assert grown({"rate_milli": 100, "cpu_m": 1000}, {"rate_milli": 150, "cpu_m": 9000}) == 500_000
    with_cpi = {LATENCY: 500_000, EvidenceSignal.CPI: 1_000_000}, {LATENCY: 2_000_000, EvidenceSignal.CPI: 2_000_000}
    assert grown({"levels": with_cpi[0], "cpu_m": 1000}, {"levels": with_cpi[1], "cpu_m": 3000}) == 500_000
    assert grown({"cpu_m": 1000}, {"cpu_m": 750}) == -250_000
    assert grown({"rate_milli": 100, "cpu_m": 1000}, {"cpu_m": 2000}) == 1_000_000  # not known of all samples
    assert grown({"cpu_m": 0}, {"cpu_m": 750}) is None
    assert parts_of(history(500, 2000)).growth_ppm() is None


def test_the_rise_of_the_machines_waiting_for_disks() -> None:
    stalls = (100, None, 300, 900, None)
    samples = history(500, 500, 500, 2000, 2000).samples
    told = tuple(replace(one, disk_stall_ppm=stall) for one, stall in zip(samples, stalls, strict=True))
    assert parts_of(NodeSamples(told)).disk_pressure_rise_ppm() == 700
    assert parts_of(NodeSamples(samples)).disk_pressure_rise_ppm() == 0


# ---- candidates


def active(**by_uid: tuple[int, ...]) -> NodeSamples:
    """Three calm samples and three bad ones, with the milli-CPU of pods in each."""
    samples = history(500, 500, 500, 2000, 2000, 2000).samples
    return NodeSamples(
        tuple(
            replace(one, activity={uid: used[i] for uid, used in by_uid.items() if used[i]})
            for i, one in enumerate(samples)
        )
    )


def test_suspects_are_the_most_active_pods_in_the_bad_samples() -> None:
    parts = parts_of(
        active(web=(9,) * 6, a=(900, 900, 900, 0, 0, 59), b=(0, 0, 0, 60, 0, 0), c=(0, 0, 0, 30, 30, 30), d=(0,) * 6)
    )
    assert suspects(parts, SETTINGS) == ("b", "c")  # 20 mCPU on average suffice
    assert suspects(parts, replace(SETTINGS, max_suspects=1)) == ("c",)
    assert suspects(parts, replace(SETTINGS, min_suspect_cpu_m=21)) == ("c",)
    equal = parts_of(active(z=(0, 0, 0, 90, 0, 0), y=(0, 0, 0, 0, 90, 0), x=(0, 0, 0, 0, 0, 99)))
    assert suspects(equal, replace(SETTINGS, max_suspects=2)) == ("x", "y")


def test_disks_have_a_measure_of_their_own() -> None:
    samples = active(a=(0, 0, 0, 900, 900, 900)).samples
    parts = parts_of(NodeSamples(tuple(replace(one, disk={"b": 1 << 20}) for one in samples)))
    assert suspects(parts, SETTINGS, ActivityMeasure.DISK) == ("b",)
    assert suspects(parts, SETTINGS) == suspects(parts, SETTINGS, ActivityMeasure.WORK) == ("a",)
    assert [min_activity(SETTINGS, means) for means in ActivityMeasure] == [20, 20, 1 << 20, 50, 50, 100 << 20]


def test_pods_that_suffer_too_are_taken_out_of_the_history() -> None:
    samples = tuple(replace(one, disk={"a": 5, "b": 6}) for one in active(a=(5,) * 6, b=(6,) * 6).samples)
    known = NodeSamples(samples, {("web", LATENCY): None})  # type: ignore[dict-item]
    without = without_activity(known, frozenset({"a"}))
    assert [(one.activity, one.disk) for one in without.samples] == [({"b": 6}, {"b": 6})] * 6
    assert without.usual is known.usual


def beside(growth: int, rate: bool = True, level: int = 2_000_000) -> NodeSamples:
    """Another service in trouble, whose requests grew by so many per cent."""
    samples = []
    for at, one in enumerate(history(500, 500, 500, 2000, 2000, 2000).samples):
        is_bad = at >= 3
        requests = 1000 + 10 * growth * is_bad
        other = service(level if is_bad else 500_000, "db", rate_milli=requests if rate else None, cpu_m=requests)
        samples.append(replace(one, services={**one.services, "db": other}))
    return NodeSamples(tuple(samples))


def test_another_service_in_trouble_suffers_too_unless_its_requests_grew() -> None:
    assert fellow_sufferers(beside(0), "web", SETTINGS) == {"db"}
    assert fellow_sufferers(beside(19), "web", SETTINGS) == {"db"}
    assert fellow_sufferers(beside(20), "web", SETTINGS) == frozenset()
    assert fellow_sufferers(beside(0), "db", SETTINGS) == frozenset()  # of "web" the requests are not known
    assert fellow_sufferers(beside(0, rate=False), "web", SETTINGS) == frozenset()
    assert fellow_sufferers(beside(0, level=900_000), "web", SETTINGS) == frozenset()
    assert fellow_sufferers(NodeSamples(), "web", SETTINGS) == frozenset()


# ---- blame


def blamed(*waits: tuple[dict[str, int], int, int] | None) -> Split:
    """Three calm samples and three bad ones: who ran (us) while the service waited, others, itself; None = no probe."""
    samples = []
    for one, wait in zip(history(500, 500, 500, 2000, 2000, 2000).samples, waits, strict=True):
        blame = None
        if wait is not None:
            by_pod, others, itself = wait
            blame = {"web": BlameSample("web", Amounts.of(by_pod), others, itself)}
        samples.append(replace(one, blame=blame))
    return parts_of(NodeSamples(tuple(samples)))


def test_blame_is_the_excess_waiting_per_cpu_time_of_the_service() -> None:
    calm, bad = ({"a": 10_000}, 20_000, 0), ({"a": 40_000, "b": 30_000}, 20_000, 40_000)
    found = by_blame(blamed(calm, calm, calm, bad, bad, bad), SETTINGS)
    assert found is not None
    assert found.signal is EvidenceSignal.BLAME
    # the service used one second of CPU a sample: excess a 0.03, b 0.03, itself 0.04, others 0
    assert found.shares == pytest.approx({"a": 0.3, "b": 0.3, Own.LOAD: 0.4, Own.OUTSIDE: 0.0})


def test_blame_needs_the_probe_and_enough_waiting() -> None:
    nothing: tuple[dict[str, int], int, int] = ({}, 0, 0)
    some, enough = ({"a": 49_999}, 0, 0), ({"a": 50_000}, 0, 0)
    assert by_blame(blamed(*[nothing] * 3, *[some] * 3), SETTINGS) is None
    assert by_blame(blamed(*[nothing] * 3, *[enough] * 3), SETTINGS) is not None
    assert by_blame(blamed(*[None] * 6), SETTINGS) is None
    unprobed = by_blame(blamed(None, None, None, None, enough, enough), SETTINGS)
    assert unprobed is not None
    assert unprobed.shares["a"] == 1.0
    idle = blamed(*[nothing] * 3, *[enough] * 3)
    still = tuple((one, replace(of, cpu_m=0)) for one, of in idle.bad)
    assert by_blame(replace(idle, bad=still), SETTINGS) is None


# ---- fits


def fitted(samples: NodeSamples, signal: EvidenceSignal = LATENCY, settings: AttributionSettings = SETTINGS) -> Any:
    return by_fit(parts_of(samples, settings), signal, 1_000_000, settings, (ActivityMeasure.CPU,))


def test_the_one_whose_activity_follows_the_trouble_explains_it() -> None:
    found = fitted(active(a=(100, 100, 100, 900, 900, 900), b=(300, 500, 400, 300, 500, 400)))
    assert found.shares["a"] > 0.9
    assert found.shares["b"] < 0.05
    assert sum(found.shares.values()) <= 1.0 + 1e-9
    assert found.by_disk == {}
    assert set(found.shares) == {"a", "b", Own.LOAD, Own.OUTSIDE}


def test_what_happens_outside_the_pods_and_what_the_hypervisor_takes_are_one_candidate() -> None:
    for name in ("outside_m", "steal_ppm"):
        samples = [replace(one, **{name: 100 + 900 * (i >= 3)}) for i, one in enumerate(active().samples)]
        assert fitted(NodeSamples(tuple(samples))).shares[Own.OUTSIDE] > 0.9


def test_its_own_load_is_a_candidate() -> None:
    samples = [
        replace(one, services={"web": replace(one.services["web"], rate_milli=100 + 400 * (i >= 3))})
        for i, one in enumerate(active(a=(50,) * 6).samples)
    ]
    assert fitted(NodeSamples(tuple(samples))).shares[Own.LOAD] > 0.9


def test_the_part_of_a_pods_disk_use_is_told_apart() -> None:
    used = (100, 100, 100, 900, 900, 900)
    samples = [
        replace(one, disk={"b": (1 << 21) * (1 + 3 * (i >= 3))})
        for i, one in enumerate(active(a=used, b=(500,) * 6).samples)
    ]
    parts = parts_of(NodeSamples(tuple(samples)))
    found = by_fit(parts, LATENCY, 1_000_000, SETTINGS, (ActivityMeasure.CPU, ActivityMeasure.DISK))
    assert found is not None
    assert found.by_disk == {"b": pytest.approx(found.shares["b"])}
    assert found.shares["a"] == pytest.approx(found.shares["b"], rel=0.05)  # both rose alike
    alone = by_fit(parts, LATENCY, 1_000_000, SETTINGS, (ActivityMeasure.DISK,))
    assert alone is not None
    assert alone.by_disk["b"] > 0.9


def test_without_enough_samples_or_without_a_rise_a_fit_says_nothing() -> None:
    assert fitted(NodeSamples(history(500, 500, 500, 2000, 2000).samples)) is None  # five where six are needed
    assert fitted(history(500, 500, 2000, 2000, 2000, 2000)) is None  # two calm ones
    assert fitted(active()) is not None
    levels = [{LATENCY: 500_000 + 1_500_000 * (i >= 3), EvidenceSignal.STALL: 1_000_000} for i in range(6)]
    flat = NodeSamples(tuple(sample(i + 1, {"web": service(None, levels=level)}) for i, level in enumerate(levels)))
    assert fitted(flat, EvidenceSignal.STALL) is None  # at its threshold, it has not risen
    assert fitted(flat, EvidenceSignal.RUN_DELAY) is None
    risen = [{**level, EvidenceSignal.STALL: level[LATENCY] * 2} for level in levels]
    rose = NodeSamples(tuple(sample(i + 1, {"web": service(None, levels=level)}) for i, level in enumerate(risen)))
    assert fitted(rose, EvidenceSignal.STALL) is not None


def test_the_usual_level_gives_way_to_what_the_calm_samples_say() -> None:
    stalls = [10_000 * i for i in range(10)] + [500_000] * 4
    samples = [
        sample(
            i + 1,
            {"web": service(None, levels={LATENCY: 500_000 + 1_500_000 * (i >= 10), EvidenceSignal.STALL: stall})},
        )
        for i, stall in enumerate(stalls)
    ]
    parts = parts_of(NodeSamples(tuple(samples)))
    deviation = sqrt(sum((10_000 * i - 45_000) ** 2 for i in range(10)) / 10)
    expected = round(45_000 + 3 * deviation * sqrt(1 / 4 + 1 / 10))
    assert rise_from(parts, EvidenceSignal.STALL, 900_000, SETTINGS) == expected
    assert rise_from(parts, EvidenceSignal.STALL, expected - 1, SETTINGS) == expected - 1
    assert rise_from(parts, LATENCY, 1_100_000, SETTINGS) == 1_100_000  # the objective stands
    assert rise_from(parts, EvidenceSignal.STALL, 900_000, replace(SETTINGS, usual_samples=11)) == 900_000
    assert rise_from(replace(parts, signal=EvidenceSignal.CPI), EvidenceSignal.STALL, 900_000, SETTINGS) == 900_000
    calm = replace(parts, calm=tuple((one, replace(of, levels={EvidenceSignal.STALL: 0})) for one, of in parts.calm))
    assert rise_from(calm, EvidenceSignal.STALL, 900_000, SETTINGS) == 20_000  # not below the floor


def test_activity_is_averaged_over_the_window_that_the_latency_describes() -> None:
    samples = [
        replace(one, services={"web": replace(one.services["web"], window_us=2 * SECOND, age_us=SECOND // 2)})
        for one in active(a=(0, 0, 0, 600, 0, 300)).samples
    ]
    parts = parts_of(NodeSamples(tuple(samples)))
    # each window ends half a second ago and has parts of three samples: a quarter, a half and a quarter of it
    expected = [0, 0, 0, 600 / 4, 600 / 2, (600 + 300) / 4]
    assert activity_of(parts, "a", ActivityMeasure.CPU) == pytest.approx(expected)
    waits = replace(parts, signal=EvidenceSignal.RUN_DELAY)
    assert activity_of(waits, "a", ActivityMeasure.CPU) == [0, 0, 0, 600, 0, 300]


def test_work_is_use_as_if_its_cycles_per_instruction_never_changed() -> None:
    cpi = (1000, 1000, None, 2000, 2000, 4000)
    samples = [
        replace(one, cpi_milli={} if at is None else {"a": at})
        for one, at in zip(active(a=(100,) * 6).samples, cpi, strict=True)
    ]
    parts = replace(parts_of(NodeSamples(tuple(samples))), signal=EvidenceSignal.RUN_DELAY)
    assert activity_of(parts, "a", ActivityMeasure.WORK) == pytest.approx([200, 200, 100, 100, 100, 50])
    assert activity_of(parts, "b", ActivityMeasure.WORK) == [0] * 6
