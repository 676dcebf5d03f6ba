"""What sums of windows say, against the windows themselves."""

from __future__ import annotations

from math import expm1, log, log1p, sqrt

import numpy as np
import pytest

from cotenant.model.cluster.workload_profile import FigureSource, ProfileAxis, ProfileFigure, Unknown, figure
from cotenant.policy.interference import axes
from cotenant.policy.interference.axes import MEMORY_S, MIN_SPREAD, MIN_WINDOWS, AxisMoments, ShareMoments

Window = tuple[float, float, float, float]  # own, others, value, age


def made(windows: list[Window]) -> ShareMoments:
    moments = ShareMoments()
    for window in windows:
        moments.add(*window)
    return moments


def drawn(seed: int, count: int, age_s: float = 3600.0) -> list[Window]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        own, others = rng.uniform(0.0, 0.3), rng.uniform(0.0, 0.8)
        found.append((own, others, 0.1 + own + 0.5 * others + 0.2 * rng.normal(), float(rng.uniform(0, age_s))))
    return found


def weights(windows: list[Window]) -> np.ndarray:
    """Each window fades by the ages of those after it."""
    ages = np.array([age for *_, age in windows])
    return np.array([np.exp(-ages[i + 1 :].sum() / MEMORY_S) for i in range(len(windows))])


@pytest.mark.parametrize("seed", range(4))
def test_the_mean_and_its_interval(seed: int) -> None:
    windows = drawn(seed, 30)
    weight, values = weights(windows), np.array([value for _, _, value, _ in windows])
    mean = float((weight * values).sum() / weight.sum())
    variance = float((weight * (values - mean) ** 2).sum() / weight.sum())
    expected = figure(mean, 1.96 * sqrt(variance / weight.sum()), 30, FigureSource.LEARNED)
    assert made(windows).mean(axes.NO_USE) == expected


@pytest.mark.parametrize("seed", range(4))
def test_the_slope_is_that_of_weighted_least_squares(seed: int) -> None:
    windows = drawn(seed, 60)
    weight, columns = weights(windows), np.array([window[:3] for window in windows])
    design = np.column_stack([np.ones(60), columns[:, 0], columns[:, 1]])
    normal = design.T @ (weight[:, None] * design)
    coefficients = np.linalg.solve(normal, design.T @ (weight * columns[:, 2]))
    rest = float((weight * (columns[:, 2] - design @ coefficients) ** 2).sum()) / (weight.sum() - 3)
    half = 1.96 * sqrt(rest * np.linalg.inv(normal)[2, 2])
    value, high, low = (expm1(coefficients[2] + change) for change in (0.0, half, -half))
    expected = figure(value, max(high - value, value - low), 60, FigureSource.LEARNED)
    found = made(windows).slope(axes.NO_LATENCY)
    assert isinstance(found, ProfileFigure)
    assert (found.samples, found.source) == (60, FigureSource.LEARNED)
    for name in ("value", "low", "high"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=1)


def test_without_windows_the_reason_is_the_askers() -> None:
    assert ShareMoments().mean(axes.NO_USE) is axes.NO_USE
    assert ShareMoments().slope(axes.NO_WAIT) is axes.NO_WAIT


def test_what_must_be_there_for_a_slope() -> None:
    few = made(drawn(1, MIN_WINDOWS - 1)).slope(axes.NO_LATENCY)
    assert few == Unknown(f"{MIN_WINDOWS - 1} windows of {MIN_WINDOWS} so far")
    assert isinstance(made(drawn(1, MIN_WINDOWS)).slope(axes.NO_LATENCY), ProfileFigure)
    faded = made([(own, others, value, MEMORY_S) for own, others, value, _ in drawn(1, 90)]).slope(axes.NO_LATENCY)
    assert faded == Unknown(f"90 windows of {MIN_WINDOWS} so far")  # those of long ago count for next to nothing
    for spread, is_known in ((MIN_SPREAD * 1.02, True), (MIN_SPREAD * 0.98, False)):
        rows = [(0.01 * (i % 5), 0.4 + spread * (-1) ** (i // 5), 1.0, 0.0) for i in range(40)]
        found = made(rows).slope(axes.NO_LATENCY)
        assert isinstance(found, ProfileFigure) is is_known
        if isinstance(found, Unknown):
            assert found.because == "the CPU use of its neighbours varied by 4.9 % of a node only"
    for noise, is_known in ((0.02, False), (0.2, True)):
        rng = np.random.default_rng(3)
        others = rng.uniform(0.0, 0.8, 60)
        rows = [(float(at + noise * rng.normal()), float(at), 1.0, 0.0) for at in others]
        assert isinstance(made(rows).slope(axes.NO_LATENCY), ProfileFigure) is is_known


def test_a_clock_that_goes_back_makes_no_window_weigh_more() -> None:
    windows = drawn(1, 30, age_s=0.0)
    back = made([(own, others, value, -5e6) for own, others, value, _ in windows])
    assert back.slope(axes.NO_USE) == made(windows).slope(axes.NO_USE)


def test_which_windows_count_for_which_axis() -> None:
    pod = AxisMoments()
    pod.add((0.2, 0.3, 0.4), (2.0, 3.0, 0.5), starting=False, age_s=60.0)
    pod.add((0.6, 0.5, 0.4), (9.0, 9.0, 9.0), starting=True, age_s=60.0)
    pod.add((0.2, 0.3, 0.4), (0.0, -1.0, -0.1), starting=False, age_s=60.0)
    pod.add((0.2, 0.3, 0.4), (None, None, None), starting=False, age_s=60.0)
    pod.add((0.2, 0.3, 0.4), (None, None, 0.0), starting=False, age_s=60.0)
    counts = {name: getattr(pod, name).samples for name in AxisMoments.__slots__ if name not in ("seen_s", "bound")}
    assert counts == {
        "cpu_use": 4,
        "start_use": 1,
        "memory_use": 5,
        "cpu": 1,
        "cache": 1,
        "run_queue": 2,
    } | dict.fromkeys(("disk_use", "disk", "network_use"), 0)
    values = {name: getattr(pod, name).sums[0, 3] for name in ("cpu", "cache")}
    assert values == {"cpu": pytest.approx(log(2.0)), "cache": pytest.approx(log(3.0))}
    assert pod.run_queue.sums[0, 3] == pytest.approx(log1p(0.5), rel=1e-3)
    found = pod.readings()
    assert set(found) == set(ProfileAxis)
    tendency = {axis: one.tendency.value for axis, one in found.items() if isinstance(one.tendency, ProfileFigure)}
    assert tendency == {ProfileAxis.CPU: 200, ProfileAxis.MEMORY: 340, ProfileAxis.START_UP: 600}
    nothing = AxisMoments().readings()
    assert (nothing[ProfileAxis.CPU].tendency, nothing[ProfileAxis.CPU].sensitivity) == (
        axes.NO_LATER_USE,
        axes.NO_LATENCY,
    )
    assert (nothing[ProfileAxis.RUN_QUEUE].sensitivity, nothing[ProfileAxis.CACHE].sensitivity) == (
        axes.NO_WAIT,
        axes.NO_PMU,
    )
    assert (nothing[ProfileAxis.MEMORY].tendency, nothing[ProfileAxis.START_UP].tendency) == (
        axes.NO_USE,
        axes.NO_START,
    )
