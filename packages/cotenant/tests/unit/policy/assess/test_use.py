"""Quantiles of use by day and week with the range of days, and the hours that set a peak."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.assess.history import AssessedHistory
from cotenant.policy.assess.use import day_peaks, peak_hours, ranges, used

STEP_S = 3600.0


def history(values: np.ndarray) -> AssessedHistory:
    rows = values.astype(np.float32)[None, :]
    return AssessedHistory(0.0, STEP_S, ("all",), rows, rows, "made up")


def test_quantiles_have_the_range_of_the_days() -> None:
    days = np.concatenate([np.full(24, level) for level in (10.0, 20.0, 30.0, 40.0)])
    found = {figure.key: figure for figure in used("cpu", "Cores", "cores", 1.0, history(days), days[None, :])}
    week = found["cpu_p50_week"]
    assert (week.value, week.low, week.high) == (25.0, 10.0, 40.0)
    assert "4 days" in week.interval
    day = found["cpu_p99_day"]
    assert (day.value, day.low) == (40.0, None)
    assert day.interval.startswith("none: 1 whole day is known, a range needs 3")


def test_a_short_history_gives_no_week_and_a_single_step_nothing() -> None:
    values = np.arange(1.0)
    found = used("cpu", "Cores", "cores", 1.0, history(values), values[None, :])
    assert all(figure.value is None and figure.why for figure in found)
    values = np.arange(30.0)
    found = used("cpu", "Cores", "cores", 1.0, history(values), values[None, :])
    assert [figure.value is None for figure in found] == [False] * 3 + [True] * 3


def test_days_that_are_half_unknown_count_for_no_range() -> None:
    days = np.concatenate([np.full(24, 1.0), np.full(24, np.nan), np.full(24, 3.0), np.full(24, 4.0), np.full(24, 5.0)])
    found = {figure.key: figure for figure in used("m", "Memory", "GiB", 1.0, history(days), days[None, :])}
    assert "4 days" in found["m_p50_week"].interval


def test_hours_that_set_the_peak_are_of_the_day() -> None:
    values = np.tile(np.where(np.isin(np.arange(24), (9, 10, 20)), 100.0, 10.0), 3).astype(np.float32)
    assert peak_hours(values, 0.0, STEP_S) == (9, 10, 20)
    assert peak_hours(values, 3 * 3600.0, STEP_S) == (12, 13, 23)
    assert peak_hours(values[:23], 0.0, STEP_S) == ()
    assert peak_hours(np.full(48, np.nan, np.float32), 0.0, STEP_S) == ()
    assert peak_hours(np.zeros(48, np.float32), 0.0, STEP_S) == ()


def test_peaks_of_days() -> None:
    values = np.concatenate([np.full(24, 1.0), np.full(24, 7.0), np.full(24, np.nan), np.full(5, 99.0)]).astype(
        np.float32
    )
    assert day_peaks(values, STEP_S) == (1.0, 7.0)
    assert day_peaks(values[:30], STEP_S) is None


@pytest.mark.parametrize(
    ("hours", "text"),
    [((), ""), ((3,), "3"), ((8, 9, 10, 20), "8-10, 20"), ((0, 23), "0, 23"), (tuple(range(24)), "0-23")],
)
def test_hours_as_ranges(hours: tuple[int, ...], text: str) -> None:
    assert ranges(hours) == text
