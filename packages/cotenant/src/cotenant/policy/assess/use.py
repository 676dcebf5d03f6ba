"""Figures of use over time: quantiles of a day and a week, by total and by workload.

A sum over pods is not the sum of their quantiles, so totals are added up first, step by step. The interval of a
quantile is the range of the days' own quantiles: use repeats by the day, so days, and not steps, are what may be taken
as independent, and few days make no finer statement.
Limits: a day is 24 hours of the history, not a calendar day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.assess.figure import AssessedFigure, unknown
from cotenant.model.assess.history import AssessedHistory, Float32
from cotenant.model.counted import counted
from cotenant.policy.assess.rows import quantiles

MIN_STEPS = 12  # for a quantile
MIN_DAYS = 3  # for its interval
DAY_S = 86_400.0
HOURS = 24
_PEAK_SHARE = 0.95  # of the largest hourly value: hours above it set the peak


@dataclass(frozen=True, slots=True)
class UseQuantiles:
    """Quantiles of one series, by share; `days`: of each whole day."""

    values: tuple[float, ...]
    days: Float  # [days, shares]


SHARES = (0.5, 0.95, 0.99)


def spread_of(values: Float32, step_s: float) -> UseQuantiles | None:
    """Quantiles of one row; None where too little of it is known."""
    known = values[~np.isnan(values)]
    if len(known) < MIN_STEPS:
        return None
    a_day = max(1, round(DAY_S / step_s))
    whole = values[0, : values.shape[1] // a_day * a_day].reshape(-1, a_day)
    enough = (~np.isnan(whole)).sum(axis=1) >= max(MIN_STEPS, a_day // 2)
    days = np.column_stack([quantiles(whole[enough], share) for share in SHARES])
    return UseQuantiles(tuple(float(np.quantile(known, share)) for share in SHARES), days)


def used(
    key: str, title: str, unit: str, scale: float, history: AssessedHistory, total: Float32
) -> tuple[AssessedFigure, ...]:
    """p50, p95 and p99 of a total, `float32[1, steps]`, over the last day and over the history, up to a week."""
    found: list[AssessedFigure] = []
    a_day = max(1, round(DAY_S / history.step_s))
    for period, columns in (("day", a_day), ("week", 7 * a_day)):
        part = total[:, -columns:]
        spread = spread_of(part, history.step_s)
        hours = part.shape[1] * history.step_s / 3600.0
        for at, share in enumerate(SHARES):
            name = f"{title}, p{share * 100:g} of the {period}"
            definition = (
                f"the sum over all pods and nodes at each step of {history.step_s:g} s, of which "
                f"{share * 100:g} % were no higher, in the last {hours:.0f} h"
            )
            label = f"{key}_p{share * 100:g}_{period}"
            if period == "week" and hours < 3 * 24:
                found.append(
                    unknown(
                        label, name, unit, definition, f"the history has {hours:.0f} h, and figures of the week need 72"
                    )
                )
            elif spread is None:
                found.append(unknown(label, name, unit, definition, history.source or "use over time is not known"))
            else:
                found.append(_quantile(label, name, unit, scale, definition, spread, at))
    return tuple(found)


def _quantile(
    key: str, name: str, unit: str, scale: float, definition: str, spread: UseQuantiles, at: int
) -> AssessedFigure:
    days = spread.days[:, at]
    if len(days) < MIN_DAYS:
        whole = counted(len(days), "whole day is", "whole days are")
        why = f"none: {whole} known, a range needs {MIN_DAYS}"
        return AssessedFigure(key, name, spread.values[at] * scale, unit, definition, why)
    interval = f"the smallest and the largest of {len(days)} days"
    low, high = float(days.min()) * scale, float(days.max()) * scale
    return AssessedFigure(key, name, spread.values[at] * scale, unit, definition, interval, low, high)


def peak_hours(values: Float32, start_s: float, step_s: float) -> tuple[int, ...]:
    """The hours of the day (UTC) whose largest values are within 5 % of the largest; none for less than a day."""
    steps = len(values)
    if steps * step_s < DAY_S or not np.isfinite(values).any():
        return ()
    hour = (((start_s + np.arange(steps) * step_s) % DAY_S) // 3600.0).astype(np.int64)
    largest = np.full(HOURS, -np.inf)
    known = np.isfinite(values)
    np.maximum.at(largest, hour[known], values[known].astype(np.float64))
    top = largest.max()
    return tuple(np.flatnonzero(largest >= _PEAK_SHARE * top).tolist()) if top > 0 else ()


def day_peaks(values: Float32, step_s: float) -> tuple[float, float] | None:
    """The smallest and the largest of the whole days' highest values; None for fewer than two days."""
    a_day = max(1, round(DAY_S / step_s))
    whole = values[: len(values) // a_day * a_day].reshape(-1, a_day)
    whole = whole[np.isfinite(whole).any(axis=1)]
    if len(whole) < 2:
        return None
    peaks = np.nanmax(whole, axis=1)
    return float(peaks.min()), float(peaks.max())


def ranges(hours: Sequence[int]) -> str:
    """Hours as ranges, such as 8-11, 20."""
    parts: list[str] = []
    first = last = -2
    for hour in (*hours, HOURS + 1):
        if hour == last + 1:
            last = hour
            continue
        if first >= 0:
            parts.append(f"{first}" if first == last else f"{first}-{last}")
        first = last = hour
    return ", ".join(parts)
