"""Figures over load: violation and success against load, the frontier, the sustained load."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

import msgspec

from cotenant.model.pages.figures import BOUND, Axis, Chart, ChartLine, Figure, IntervalReadings, ReadingRow, ends, over
from cotenant_lab.comparison import ComparisonRow
from cotenant_lab.metric import Metric
from cotenant_lab.report.drawing import (
    FigureData,
    drawn_last,
    halves,
    line,
    percent,
    raised,
    reading,
    with_unit,
)


def against_load(drawing: FigureData, name: str, caption: str, limit: float | None = None) -> Figure | None:
    """A metric against the swept loads, one line per policy, with intervals."""
    comparison = drawing.comparison
    if len(comparison.loads) < 2 or name not in comparison.measured:
        return None
    metric = comparison.metrics[name]
    lines = []
    for policy in drawn_last(comparison):
        rows = [row for row in _of(drawing, policy) if isfinite(row.get(name).mean)]
        if rows:
            values = [row.get(name).mean * metric.scale for row in rows]
            one = line(drawing, policy, [row.load * 100 for row in rows], values)
            lines.append(msgspec.structs.replace(one, half=halves(rows, metric), mark="circle"))
    if not lines:
        return None
    x = over("load: CPU requested, % of the cluster", [load * 100 for load in comparison.loads])
    title = with_unit(metric)
    if metric.name.startswith("violation"):
        lines, y, more = raised(lines, title)
        caption += more
    else:
        y = _bounded(over(title, ends(lines)), metric)
    limits = () if limit is None else (limit * metric.scale,)
    return Figure(
        f"load-{name}", f"{metric.title} against load", caption, Chart(x=x, y=y, lines=tuple(lines), limits=limits)
    )


def frontier(drawing: FigureData) -> Figure | None:
    """Violation (or fragmentation) against utilisation: every policy at every load, and a line through the best of
    them.
    """
    comparison = drawing.comparison
    known = comparison.measured
    x_name = "utilisation_used" if "utilisation_used" in known and "violation" in known else "utilisation"
    y_name = "violation" if "violation" in known else "fragmentation"
    if x_name not in known or y_name not in known:
        return None
    x_metric, y_metric = comparison.metrics[x_name], comparison.metrics[y_name]
    lines: list[ChartLine] = []
    points: list[tuple[float, float]] = []
    for policy in drawn_last(comparison):
        rows = [r for r in _of(drawing, policy) if isfinite(r.get(x_name).mean) and isfinite(r.get(y_name).mean)]
        if not rows:
            continue
        x = [row.get(x_name).mean * x_metric.scale for row in rows]
        y = [row.get(y_name).mean * y_metric.scale for row in rows]
        if comparison.roles[policy] != "bound":
            points += zip(x, y, strict=True)
        is_ours = policy == comparison.ours
        lines.append(
            msgspec.structs.replace(
                line(drawing, policy, x, list(y)),
                half=halves(rows, y_metric),
                notes=[f"at load {percent(row.load)}" for row in rows],
                mark="star" if is_ours else "circle",
                size=15.0 if is_ours else 8.0,
                is_points=len(rows) == 1,
            )
        )
    if not lines:
        return None
    best = _undominated(points)
    if len(comparison.loads) == 1:
        best = _stairs(best)
    broad = ChartLine(
        name="frontier",
        x=[x for x, _ in best],
        y=[y for _, y in best],
        colour=BOUND,
        width=10.0,
        opacity=0.35,
        is_listed=len(best) > 1,
    )
    lines.insert(0, broad)
    caption = "Down and to the right is better; the broad grey line joins the Pareto-optimal points. "
    if x_name == "utilisation_used":
        caption += "Slowed batch work stays longer, so a bad policy moves to the right without merit."
    all_x = [x for entry in lines for x in entry.x]
    x_axis = over(with_unit(x_metric), all_x)
    if max(all_x) - min(all_x) < 0.2:  # practically equal: do not magnify rounding
        x_axis = Axis(title=x_axis.title, low=min(all_x) - 1, high=max(all_x) + 1)
    if y_name == "violation":
        lines, y_axis, more = raised(lines, with_unit(y_metric))
        caption += more
    else:
        y_axis = over(with_unit(y_metric), ends(lines), from_zero=True)
    chart = Chart(x=x_axis, y=y_axis, lines=tuple(lines), height=440)
    return Figure("frontier", f"{y_metric.title} against utilisation", caption, chart)


def sustained(drawing: FigureData) -> Figure | None:
    """The largest load with both classes within the limit, with intervals."""
    comparison = drawing.comparison
    rows = sorted(comparison.sustained, key=lambda row: -row.mean.mean)
    if not rows:
        return None
    signs = {"below": "< ", "above": "≥ ", "exact": ""}
    found = []
    for row in rows:
        half = f" ± {row.mean.half_width * 100:.1f}" if isfinite(row.mean.half_width) else ""
        shown = f"{signs[row.bound]}{row.mean.mean * 100:.1f}{half} %"
        value = reading(row.mean, 100.0, shown, drawing.styles[row.policy].colour)
        found.append(ReadingRow(row.policy, row.policy == comparison.ours, (value,)))
    low, high = min(comparison.loads) * 100, max(comparison.loads) * 100
    axis = Axis(title="load, % of the cluster's CPU", low=low - 2, high=high + 2)
    caption = (
        "Largest load with at most 1 % violation of services and at most 1 % of batch, interpolated seed by seed, "
        "with its "
        "95 % interval. The axis starts below the lowest swept load, not at zero."
    )
    drawn = IntervalReadings(axis=axis, rows=tuple(found), series=(("sustained load", "ours"),))
    return Figure("sustained", "Sustained load", caption, drawn)


def _of(drawing: FigureData, policy: str) -> list[ComparisonRow]:
    """The rows of a policy, by load."""
    rows = [drawing.comparison.row(policy, load) for load in drawing.comparison.loads]
    return [row for row in rows if row is not None]


def _bounded(axis: Axis, metric: Metric) -> Axis:
    """A share is within 0 and 100 %, whatever its interval."""
    if metric.unit != "fraction":
        return axis
    return msgspec.structs.replace(axis, low=max(axis.low, 0.0), high=min(axis.high, 100.3))


def _undominated(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The Pareto-optimal points: larger x (to 0.1) and smaller y. Ascending."""
    best: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (-round(point[0], 1), point[1])):
        if not best or y < best[-1][1]:
            best.append((x, y))
    return best[::-1]


def _stairs(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A line through points that goes along x, then along y."""
    found = list(points[:1])
    for (_, before), (x, y) in pairwise(points):
        found += [(x, before), (x, y)]
    return found
