"""Figures of one load: violation by class, slowdown distributions, curves over time, decision latency."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import msgspec
import numpy as np

from cotenant.model.pages.figures import (
    BATCH,
    SERVICE,
    Axis,
    Chart,
    ChartLine,
    Figure,
    IntervalReading,
    IntervalReadings,
    ReadingRow,
    logarithmic,
    over,
)
from cotenant_lab import statistics
from cotenant_lab.comparison import LIMIT
from cotenant_lab.report.drawing import (
    FigureData,
    drawn_last,
    line,
    or_zero,
    reading,
    rounded,
    shown_with_half,
)

MAX_POINTS = 320  # of a line over time
_WIDE = 6.0  # curves whose means differ by more are drawn on a logarithmic axis
_START = 0.03  # of a curve: its first minutes
_PEAK = 1.3  # a value above the rest by more does not set the scale
_HIGHER = 1.08  # than what it shows: the end of an axis
_SHARES = (0, 50, 75, 90, 95, 99, 99.5, 99.9)
_SLOWDOWNS = (1, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10, 20, 50, 100, 200, 500, 1_000, 10_000)
_FAR_SLOWDOWNS = (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000)


def violation_by_class(drawing: FigureData) -> Figure | None:
    """Violation of services and of batch side by side."""
    comparison = drawing.comparison
    parts = (("violation_service", "services", SERVICE), ("violation_batch", "batch", BATCH))
    if not all(name in comparison.measured for name, _, _ in parts):
        return None
    rows = [row for row in comparison.rows if row.load == comparison.focus]
    rows.sort(key=lambda row: row.get("violation").mean)
    # Intervals are shown up to the length of their bar; longer ones, from few seeds, would shrink every bar.
    means = [(row.get(name).mean, or_zero(row.get(name).half_width)) for row in rows for name, _, _ in parts]
    widest = 105 * max((mean + min(half, mean) for mean, half in means if isfinite(mean)), default=LIMIT)
    found = []
    for row in rows:
        values = [
            reading(row.get(name), 100.0, shown_with_half(row.get(name), 100.0, " %"), colour)
            for name, _, colour in parts
        ]
        kept = tuple(entry for entry in values if isfinite(entry.value))
        found.append(ReadingRow(row.policy, row.policy == comparison.ours, kept))
    title = "core-hours that missed their objective, % of the class"
    drawn = IntervalReadings(
        axis=Axis(title=title, low=0.0, high=widest or 1.0),
        rows=tuple(found),
        series=tuple((words, colour) for _, words, colour in parts),
        limit=LIMIT * 100,
    )
    caption = (
        f"{drawing.where.capitalize()}, with 95 % intervals; the dotted line is the 1 % that the sustained load allows."
    )
    return Figure("classes", "Violation by class", caption, drawn)


def slowdowns(drawing: FigureData) -> Figure | None:
    """The distribution of slowdowns over all seeds: of batch pods, or of the workload's own subject."""
    subject = drawing.comparison.metrics["slowdown_p50"].subject
    lines, largest = [], 1.0
    for policy in drawn_last(drawing.comparison):
        samples = [result.slowdowns for result in drawing.results.get(policy, ()) if result.slowdowns.size]
        if not samples:
            continue
        x, share = statistics.cumulative(np.concatenate(samples))
        if not x.size:
            continue
        largest = max(largest, float(x[-1]))
        lines.append(line(drawing, policy, rounded(x), list(rounded(share * 100))))
    if not lines:
        return None
    ticks = _FAR_SLOWDOWNS if largest > 4 else _SLOWDOWNS
    x_axis = Axis(
        title="slowdown: time taken / time alone, log scale",
        low=1.0,
        high=max(largest, 1.02) ** 1.02,
        scale="log",
        ticks=tuple((float(tick), f"{tick:g}x") for tick in ticks),
    )
    y_axis = Axis(
        title=f"{subject} at or below, %",
        low=0.0,
        high=99.92,
        scale="tail",
        ticks=tuple((float(share), f"{share:g}") for share in _SHARES),
    )
    caption = (
        f"All seeds together, {drawing.where}. Further left and up is better. The upper end is stretched, "
        "because the tail is where policies differ."
    )
    return Figure("slowdowns", f"Slowdown of {subject}", caption, Chart(x=x_axis, y=y_axis, lines=tuple(lines)))


def over_time(drawing: FigureData) -> list[Figure]:
    """A figure for each series recorded by the scenario: mean over seeds."""
    names: dict[str, tuple[str, str]] = {}
    for results in drawing.results.values():
        for result in results:
            for series in result.series:
                names.setdefault(series.name, (series.x_label, series.y_label))
    figures = []
    for name, (x_label, y_label) in names.items():
        lines = []
        for policy in drawn_last(drawing.comparison):
            runs = [
                s for result in drawing.results.get(policy, ()) for s in result.series if s.name == name and s.x.size
            ]
            if not runs:
                continue
            x = runs[0].x
            y = np.mean([np.interp(x, run.x, run.y) for run in runs], axis=0)
            step = -(-x.size // MAX_POINTS)
            lines.append(line(drawing, policy, rounded(x[::step]), list(rounded(y[::step]))))
        if not lines:
            continue
        kept, y_axis, more = _fitted(lines, y_label)
        kind = "over time" if "time" in x_label else "by arrivals"
        chart = Chart(x=_whole(x_label, lines), y=y_axis, lines=tuple(kept))
        caption = f"Mean over the seeds, {drawing.where}.{more}"
        figures.append(Figure(f"series-{name}", f"{name.capitalize()} {kind}", caption, chart))
    return figures


def decision_latency(drawing: FigureData) -> Figure | None:
    """Median and 99th percentile of the time for a decision, log scale."""
    comparison = drawing.comparison
    rows = [row for row in comparison.rows if row.load == comparison.focus and row.get("decision_p50_us").mean > 0]
    if not rows:
        return None
    rows.sort(key=lambda row: row.get("decision_p50_us").mean)
    found = []
    for row in rows:
        median, tail = row.get("decision_p50_us").mean, row.get("decision_p99_us").mean
        known = isfinite(tail) and tail > 0
        shown = f"{median:,.0f} µs, p99 {tail:,.0f}" if known else f"{median:,.0f} µs"
        value = IntervalReading(
            median, median if known else None, tail if known else None, shown, drawing.styles[row.policy].colour
        )
        found.append(ReadingRow(row.policy, row.policy == comparison.ours, (value,)))
    every = [end for row in found for entry in row.readings for end in (entry.value, entry.high) if end]
    title = f"microseconds {comparison.metrics['decision_p50_us'].subject}, log scale"
    axis = logarithmic(title, min(every) * 0.8, max(every) * 1.2)
    caption = (
        "Dot: median; end of the bar: 99th percentile. Wall time on the machine named above, with the "
        "experiment's runs in parallel."
    )
    drawn = IntervalReadings(axis=axis, rows=tuple(found), series=(("median to p99", "ours"),))
    return Figure("latency", "Time for a decision", caption, drawn)


def _whole(title: str, lines: Sequence[ChartLine]) -> Axis:
    """The axis of x from the first point to the last."""
    every = [x for entry in lines for x in entry.x]
    return Axis(title=title, low=min(every), high=max(every) if max(every) > min(every) else min(every) + 1)


def _peak(top: float) -> str:
    return f"the highest value, {top:,.4g}, is that of a short peak."


def _after_the_start(lines: Sequence[ChartLine]) -> float:
    """The end of an axis for what comes after the first minutes, in which all services are placed at once."""
    first, last = min(entry.x[0] for entry in lines), max(entry.x[-1] for entry in lines)
    counted = first + _START * (last - first)
    later = [y for entry in lines for x, y in zip(entry.x, entry.y, strict=True) if y is not None and x > counted]
    return max(later, default=0.0) * _HIGHER


def _fitted(lines: Sequence[ChartLine], title: str) -> tuple[list[ChartLine], Axis, str]:
    """A logarithmic axis for curves that differ by orders of magnitude, else one that ends below a short peak; with
    the addition to the caption.
    """
    values = np.array([y for entry in lines for y in entry.y], dtype=np.float64)
    levels = [float(np.mean([y for y in entry.y if y is not None])) for entry in lines]
    usual, top = float(np.quantile(values, 0.995)), float(values.max())
    later = _after_the_start(lines)
    if max(levels) > _WIDE * min(levels) > 0:
        foot = min(levels) / _WIDE
        cut = [
            msgspec.structs.replace(entry, y=[y if y is not None and y > foot else None for y in entry.y])
            for entry in lines
        ]
        words = f" The axis is logarithmic; values below {foot:.1g} are left out."
        if top > _PEAK * later > 2 * foot:
            return cut, logarithmic(title, foot * 0.9, later), f"{words} It ends at {later:.3g}; {_peak(top)}"
        return cut, logarithmic(title, foot * 0.9, top * 1.2), words
    high = usual * _HIGHER if later > _WIDE * usual else later
    if top > _PEAK * high > 0:
        words = f" The axis ends at {high:.3g}; {_peak(top)}"
        return list(lines), Axis(title=title, low=min(0.0, float(values.min())), high=high), words
    return list(lines), over(title, [*values.tolist(), 0.0], from_zero=True), ""
