"""Workload profiles by axis: what sums say, what they cannot tell, and when a profile is worth a write."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.model.cluster.workload_profile import (
    AxisReading,
    FigureSource,
    Overall,
    ProfileAxis,
    ProfileFigure,
    Reading,
    Unknown,
    WorkloadBound,
)
from cotenant.policy.interference import axes
from cotenant.policy.interference.axes import MIN_WINDOWS, AxisMoments, Learned, ShareMoments, differs


def windows(slope: float, count: int = 400, own_follows: float = 0.0, seed: int = 1) -> ShareMoments:
    """Windows of a pod whose log signal rises by `slope` over the others' share, and by 2 over its own."""
    rng = np.random.default_rng(seed)
    moments = ShareMoments()
    for _ in range(count):
        others = rng.uniform(0.0, 0.8)
        own = own_follows * others + rng.uniform(0.05, 0.2)
        moments.add(own, others, 2.0 * own + slope * others + 0.1 * rng.normal(), 60.0)
    return moments


def test_the_slope_is_found_beside_the_pods_own_load() -> None:
    for follows in (0.0, 0.2):
        found = windows(0.4, own_follows=follows).slope(axes.NO_LATENCY)
        assert isinstance(found, ProfileFigure)
        true = round(1000 * (np.exp(0.4) - 1))
        assert found.low <= true <= found.high
        assert found.high - found.low < 200


def test_an_insensitive_pod_has_an_interval_down_to_0() -> None:
    found = windows(0.0).slope(axes.NO_LATENCY)
    assert isinstance(found, ProfileFigure)
    assert found.low == 0
    assert found.value < 60


def test_few_windows_or_neighbours_that_never_change_tell_nothing() -> None:
    few = windows(0.4, count=MIN_WINDOWS - 1).slope(axes.NO_LATENCY)
    assert isinstance(few, Unknown)
    assert "19 windows of 20" in few.because
    constant = ShareMoments()
    for i in range(100):
        constant.add(0.1 + 0.001 * (i % 7), 0.5, 1.0, 60.0)
    told = constant.slope(axes.NO_LATENCY)
    assert isinstance(told, Unknown)
    assert "varied by 0.0 %" in told.because
    together = ShareMoments()
    for i in range(100):
        together.add(0.01 * (i % 50), 0.01 * (i % 50), 1.0, 60.0)
    assert isinstance(together.slope(axes.NO_LATENCY), Unknown)


def test_old_windows_give_way() -> None:
    moments = ShareMoments()
    for _ in range(100):
        moments.add(0.0, 0.0, 0.1, 60.0)
    for _ in range(100):
        moments.add(0.0, 0.0, 0.5, axes.MEMORY_S)
    found = moments.mean(axes.NO_USE)
    assert isinstance(found, ProfileFigure)
    assert found.value == pytest.approx(500, abs=5)


def test_a_machine_without_a_pmu_cannot_tell_cache_and_memory_bandwidth() -> None:
    sums = AxisMoments()
    rng = np.random.default_rng(0)
    for _ in range(100):
        others = rng.uniform(0, 0.8)
        sums.add((0.2, 0.1, others), (0.5 + others, None, 0.1 + others), starting=False, age_s=60.0)
    found = sums.readings()
    assert set(found) == set(ProfileAxis)
    assert found[ProfileAxis.CACHE].sensitivity == axes.NO_PMU
    assert found[ProfileAxis.MEMORY_BANDWIDTH] == AxisReading(axes.NO_CACHE_USE, axes.NO_BANDWIDTH)
    assert found[ProfileAxis.CPU].tendency == ProfileFigure(200, 200, 200, 100, FigureSource.LEARNED)
    assert found[ProfileAxis.MEMORY].tendency == ProfileFigure(100, 100, 100, 100, FigureSource.LEARNED)
    for axis in (ProfileAxis.CPU, ProfileAxis.RUN_QUEUE):
        assert isinstance(found[axis].sensitivity, ProfileFigure)


def test_a_profile_is_written_again_only_after_a_material_change() -> None:
    base = ProfileFigure(400, 350, 450, 100, FigureSource.LEARNED)

    def told(reading: Reading) -> Learned:
        return {ProfileAxis.CPU: AxisReading(reading, base)}, Overall(base, base), {WorkloadBound.DISK: base}

    for value, changed in ((400, False), (439, False), (361, False), (440, True), (360, True)):
        near = replace(base, value=value, low=300, high=500, samples=150)
        assert differs(told(base), told(near)) is changed
    assert differs(told(base), told(replace(base, samples=200)))
    assert differs(told(base), told(Unknown("x")))
    assert differs(told(base), (*told(base)[:2], {WorkloadBound.DISK: replace(base, value=440, low=300, high=500)}))
    assert not differs(told(Unknown("1 window")), told(Unknown("2 windows")))
    assert differs(({}, Overall(base, base), {}), told(base))
