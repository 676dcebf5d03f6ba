"""Figures over load: violation and success against load, the frontier, the sustained load."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from cotenant.lab.report.document import Figure, Trace
from cotenant.lab.report.drawing import (
    LINE_HEIGHT,
    Drawing,
    bar_height,
    drawn_last,
    error_bars,
    horizontal,
    line,
    make_logarithmic,
    names_axis,
    percent,
    with_unit,
)


def against_load(drawing: Drawing, name: str, caption: str, limit: float | None = None) -> Figure | None:
    """A metric against the swept loads, one line per policy, with intervals."""
    comparison = drawing.comparison
    if len(comparison.loads) < 2 or name not in comparison.measured:
        return None
    metric = comparison.metrics[name]
    data = []
    for policy in drawn_last(comparison):
        rows = [row for load in comparison.loads if (row := comparison.row(policy, load)) is not None]
        rows = [row for row in rows if isfinite(row.get(name).mean)]
        if not rows:
            continue
        data.append(
            line(drawing, policy)
            | {
                "x": [row.load * 100 for row in rows],
                "y": [row.get(name).mean * metric.scale for row in rows],
                "error_y": error_bars(rows, metric),
                "mode": "lines+markers",
                "hovertemplate": f"{policy}<br>load %{{x:.4g}} %<br>{metric.title} %{{y:.4g}}<extra></extra>",
            }
        )
    layout: dict[str, Any] = {
        "height": LINE_HEIGHT,
        "xaxis": {"title": {"text": "load: CPU requested, % of the cluster"}},
        "yaxis": {"title": {"text": with_unit(metric)}},
    }
    if limit is not None:
        layout["shapes"] = [horizontal(limit * metric.scale)]
    if metric.name.startswith("violation"):
        caption += make_logarithmic(data, layout)
    return Figure(f"load-{name}", f"{metric.title} against load", caption, data, layout) if data else None


def frontier(drawing: Drawing) -> Figure | None:
    """Violation (or fragmentation) against utilisation: every policy at every load, and a line through the best of them."""
    comparison = drawing.comparison
    known = comparison.measured
    x_name = "utilisation_used" if "utilisation_used" in known and "violation" in known else "utilisation"
    y_name = "violation" if "violation" in known else "fragmentation"
    if x_name not in known or y_name not in known:
        return None
    x_metric, y_metric = comparison.metrics[x_name], comparison.metrics[y_name]
    data: list[Trace] = []
    points: list[tuple[float, float]] = []
    for policy in drawn_last(comparison):
        rows = [row for load in comparison.loads if (row := comparison.row(policy, load)) is not None]
        rows = [row for row in rows if isfinite(row.get(x_name).mean) and isfinite(row.get(y_name).mean)]
        if not rows:
            continue
        x = [row.get(x_name).mean * x_metric.scale for row in rows]
        y = [row.get(y_name).mean * y_metric.scale for row in rows]
        if comparison.roles[policy] != "bound":
            points += zip(x, y, strict=True)
        size = 13 if policy == comparison.ours else 8
        data.append(
            line(drawing, policy)
            | {
                "x": x,
                "y": y,
                "error_y": error_bars(rows, y_metric),
                "mode": "lines+markers" if len(rows) > 1 else "markers",
                "marker": {"size": size, "symbol": "star" if policy == comparison.ours else "circle"},
                "text": [percent(row.load) for row in rows],
                "hovertemplate": f"{policy} at load %{{text}}<br>{x_metric.short} %{{x:.4g}} %"
                f"<br>{y_metric.title} %{{y:.4g}} %<extra></extra>",
            }
        )
    if not data:
        return None
    best = _undominated(points)
    broad = {"color": "rgba(128,128,128,0.45)", "width": 10, "shape": "hv" if len(comparison.loads) == 1 else "linear"}
    data.insert(
        0,
        {
            "type": "scatter",
            "x": [x for x, _ in best],
            "y": [y for _, y in best],
            "mode": "lines",
            "line": broad,
            "name": "frontier",
            "hoverinfo": "skip",
            "showlegend": len(best) > 1,
        },
    )
    caption = "Down and to the right is better; the broad grey line joins the Pareto-optimal points. "
    if x_name == "utilisation_used":
        caption += "Slowed batch work stays longer, so a bad policy moves to the right without merit."
    layout: dict[str, Any] = {
        "height": 480,
        "xaxis": {"title": {"text": with_unit(x_metric)}},
        "yaxis": {"title": {"text": with_unit(y_metric)}, "rangemode": "tozero"},
    }
    all_x = [x for x, _ in points] or [0.0]
    if max(all_x) - min(all_x) < 0.2:  # practically equal: do not magnify rounding
        layout["xaxis"]["range"] = [min(all_x) - 1, max(all_x) + 1]
    if y_name == "violation":
        caption += make_logarithmic(data, layout)
    return Figure("frontier", f"{y_metric.title} against utilisation", caption, data, layout)


def sustained(drawing: Drawing) -> Figure | None:
    """The largest load with both classes within the limit, with intervals."""
    comparison = drawing.comparison
    rows = sorted(comparison.sustained, key=lambda row: row.mean.mean)
    if not rows:
        return None
    low, high = min(comparison.loads) * 100, max(comparison.loads) * 100
    signs = {"below": "< ", "above": "≥ ", "exact": ""}
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": "sustained load",
            "x": [row.mean.mean * 100 - low + 2 for row in rows],
            "y": [row.policy for row in rows],
            "base": low - 2,
            "marker": {"color": [drawing.styles[row.policy].colour for row in rows], "opacity": 0.85},
            "error_x": {
                "type": "data",
                "array": [row.mean.half_width * 100 if isfinite(row.mean.half_width) else 0 for row in rows],
                "thickness": 2,
                "width": 5,
            },
            "customdata": [f"{signs[row.bound]}{row.mean.mean * 100:.1f} %" for row in rows],
            "text": [f"  {signs[row.bound]}{row.mean.mean * 100:.1f} %" for row in rows],
            "textposition": "inside",
            "insidetextanchor": "start",
            "textfont": {"color": "#ffffff"},
            "hovertemplate": "%{y}: %{customdata}<extra></extra>",
            "showlegend": False,
        }
    ]
    layout = {
        "height": bar_height(len(rows)),
        "xaxis": {"title": {"text": "load, % of the cluster's CPU"}, "range": [low - 2, high + 2]},
        "yaxis": names_axis([row.policy for row in rows]),
    }
    caption = (
        "Largest load with at most 1 % violation of services and at most 1 % of batch, interpolated seed by seed; the error bar is the "
        "95 % interval. The axis starts below the lowest swept load, not at zero."
    )
    return Figure("sustained", "Sustained load", caption, data, layout)


def _undominated(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The Pareto-optimal points: larger x (to 0.1) and smaller y. Ascending."""
    best: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (-round(point[0], 1), point[1])):
        if not best or y < best[-1][1]:
            best.append((x, y))
    return best[::-1]
