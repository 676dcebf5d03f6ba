"""The report's pictures, as Plotly's JSON.

Each function gives one figure, or None where the runs have nothing to draw it from. Figures carry no colours of text or ground: the
page sets them, for light and dark. Traces name their policy, so that the legend of one picture switches it in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotenant.lab import statistics
from cotenant.lab.comparison import LIMIT, Comparison, Row
from cotenant.lab.contract import RunResult
from cotenant.lab.metrics import Metric
from cotenant.lab.report.palette import Style

Trace = dict[str, Any]  # Plotly's own format
Floats = NDArray[np.float64]

_LINE_HEIGHT = 440
_WIDE = 6.0  # curves whose means differ by more are drawn on a logarithmic axis
_SHARES = (0, 50, 75, 90, 95, 99, 99.5, 99.9)
_LEAST_SHOWN = 0.01  # percent: on a logarithmic axis less than this is drawn at the foot


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture with its caption. `choices`: names of groups of which the page shows one at a time."""

    key: str
    title: str
    caption: str
    data: list[Trace]
    layout: dict[str, Any]
    choices: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Drawing:
    """What every picture is drawn from. `results`: runs with their arrays, by policy, at the comparison's focus load."""

    comparison: Comparison
    styles: Mapping[str, Style]
    results: Mapping[str, Sequence[RunResult]]

    @property
    def where(self) -> str:
        """The load that pictures of one load show, in words."""
        return f"at load {percent(self.comparison.focus)}"


def percent(value: float) -> str:
    """77 % rather than 77.0 %."""
    return f"{value * 100:.4g} %"


def against_load(drawing: Drawing, name: str, caption: str, limit: float | None = None) -> Figure | None:
    """A metric against the swept loads, a line a policy, with intervals."""
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
            _line(drawing, policy)
            | {
                "x": [row.load * 100 for row in rows],
                "y": [row.get(name).mean * metric.scale for row in rows],
                "error_y": _error(rows, metric),
                "mode": "lines+markers",
                "hovertemplate": f"{policy}<br>load %{{x:.4g}} %<br>{metric.title} %{{y:.4g}}<extra></extra>",
            }
        )
    layout: dict[str, Any] = {
        "height": _LINE_HEIGHT,
        "xaxis": {"title": {"text": "load: CPU asked for, % of the cluster"}},
        "yaxis": {"title": {"text": _with_unit(metric)}},
    }
    if limit is not None:
        layout["shapes"] = [_horizontal(limit * metric.scale)]
    if metric.name.startswith("violation"):
        caption += _make_logarithmic(data, layout)
    return Figure(f"load-{name}", f"{metric.title} against load", caption, data, layout) if data else None


def frontier(drawing: Drawing) -> Figure | None:
    """Violation (or fragmentation) against utilisation: every policy at every load, and the best of them joined."""
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
            _line(drawing, policy)
            | {
                "x": x,
                "y": y,
                "error_y": _error(rows, y_metric),
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
    line = {"color": "rgba(128,128,128,0.45)", "width": 10, "shape": "hv" if len(comparison.loads) == 1 else "linear"}
    data.insert(
        0,
        {
            "type": "scatter",
            "x": [x for x, _ in best],
            "y": [y for _, y in best],
            "mode": "lines",
            "line": line,
            "name": "frontier",
            "hoverinfo": "skip",
            "showlegend": len(best) > 1,
        },
    )
    caption = "Down and to the right is better; the broad grey line joins the points that no other beats in both. "
    if x_name == "utilisation_used":
        caption += "Beware: slowed batch work stays longer, so a bad policy drifts to the right by itself."
    layout: dict[str, Any] = {
        "height": 480,
        "xaxis": {"title": {"text": _with_unit(x_metric)}},
        "yaxis": {"title": {"text": _with_unit(y_metric)}, "rangemode": "tozero"},
    }
    all_x = [x for x, _ in points] or [0.0]
    if max(all_x) - min(all_x) < 0.2:  # the same to a reader: do not blow up what is only rounding
        layout["xaxis"]["range"] = [min(all_x) - 1, max(all_x) + 1]
    if y_name == "violation":
        caption += _make_logarithmic(data, layout)
    return Figure("frontier", f"{y_metric.title} against utilisation", caption, data, layout)


def slowdowns(drawing: Drawing) -> Figure | None:
    """The distribution of batch slowdowns over all seeds."""
    data, largest = [], 1.0
    for policy in drawn_last(drawing.comparison):
        samples = [result.slowdowns for result in drawing.results.get(policy, ()) if result.slowdowns.size]
        if not samples:
            continue
        x, share = statistics.cumulative(np.concatenate(samples))
        if not x.size:
            continue
        largest = max(largest, float(x[-1]))
        data.append(
            _line(drawing, policy)
            | {
                "x": _rounded(x),
                "y": _rounded(_stretched(share)),
                "text": [f"{each * 100:.4g}" for each in share],
                "mode": "lines",
                "hovertemplate": f"{policy}<br>%{{text}} % of pods at most %{{x:.3g}} times<extra></extra>",
            }
        )
    if not data:
        return None
    x_axis: dict[str, Any] = {
        "title": {"text": "slowdown: (finish - ready) / duration alone, log scale"},
        "type": "log",
        "range": [0, log10(largest) * 1.02],
    }
    # Plotly labels a logarithmic axis at whole powers of ten, of which this one often has none.
    ticks = [1, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10, 20, 50, 100, 200, 500, 1_000, 10_000]
    if largest > 4:
        ticks = [1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000]
    x_axis |= {"tickvals": ticks, "ticktext": [f"{tick:g}x" for tick in ticks]}
    layout = {
        "height": _LINE_HEIGHT,
        "xaxis": x_axis,
        "yaxis": {
            "title": {"text": "batch pods at or below, %"},
            "range": [0, 3.05],
            "tickvals": [float(each) for each in _stretched(np.array(_SHARES) / 100)],
            "ticktext": [f"{share:g}" for share in _SHARES],
        },
    }
    caption = f"All seeds together, {drawing.where}. Further left and up is better. The upper end is stretched, because the tail is where policies differ."
    return Figure("slowdowns", "Slowdown of batch pods", caption, data, layout)


def over_time(drawing: Drawing) -> list[Figure]:
    """A figure for each series the scenario recorded: mean over seeds."""
    names: dict[str, tuple[str, str]] = {}
    for results in drawing.results.values():
        for result in results:
            for series in result.series:
                names.setdefault(series.name, (series.x_label, series.y_label))
    figures = []
    for name, (x_label, y_label) in names.items():
        data = []
        for policy in drawn_last(drawing.comparison):
            runs = [
                s for result in drawing.results.get(policy, ()) for s in result.series if s.name == name and s.x.size
            ]
            if not runs:
                continue
            x = runs[0].x
            y = np.mean([np.interp(x, run.x, run.y) for run in runs], axis=0)
            data.append(
                _line(drawing, policy)
                | {
                    "x": _rounded(x),
                    "y": _rounded(y),
                    "mode": "lines",
                    "hovertemplate": f"{policy}<br>%{{x:.4g}}: %{{y:.4g}}<extra></extra>",
                }
            )
        layout: dict[str, Any] = {
            "height": _LINE_HEIGHT,
            "xaxis": {"title": {"text": x_label}},
            "yaxis": {"title": {"text": y_label}, "rangemode": "tozero"},
        }
        kind = "over time" if "time" in x_label else "on the way"
        caption = f"Mean over the seeds, {drawing.where}."
        levels = [float(np.mean(trace["y"])) for trace in data]
        if data and max(levels) > _WIDE * min(levels) > 0:
            layout["yaxis"] |= {"type": "log", "rangemode": "normal"}
            foot = min(levels) / _WIDE
            for trace in data:
                trace["y"] = [y if y > foot else None for y in trace["y"]]
            caption += f" The axis is logarithmic; what is below {foot:.1g} is left out."
        figures.append(Figure(f"series-{name}", f"{name.capitalize()} {kind}", caption, data, layout))
    return figures


def decision_latency(drawing: Drawing) -> Figure | None:
    """Median and 99th percentile of the time for a decision, log scale."""
    comparison = drawing.comparison
    rows = [row for row in comparison.rows if row.load == comparison.focus and row.get("decision_p50_us").mean > 0]
    if not rows:
        return None
    rows.sort(key=lambda row: -row.get("decision_p50_us").mean)
    data = []
    for row in rows:
        ends = [row.get("decision_p50_us").mean, row.get("decision_p99_us").mean]
        ends = [end for end in ends if isfinite(end) and end > 0]
        data.append(
            _line(drawing, row.policy)
            | {
                "x": ends,
                "y": [row.policy] * len(ends),
                "mode": "lines+markers",
                "line": {
                    "color": drawing.styles[row.policy].colour,
                    "width": 4 if row.policy == comparison.ours else 2,
                },
                "marker": {
                    "size": [12, 9][: len(ends)],
                    "symbol": ["circle", "line-ns-open"][: len(ends)],
                    "line": {"width": 3},
                    "color": drawing.styles[row.policy].colour,
                },
                "text": ["median", "p99"][: len(ends)],
                "hovertemplate": f"{row.policy}, %{{text}}: %{{x:.4g}} us<extra></extra>",
                "showlegend": False,
            }
        )
    layout = {
        "height": bar_height(len(rows)),
        "xaxis": {"title": {"text": "microseconds a placed pod, log scale"}, "type": "log", "dtick": 1},
        "yaxis": _names([row.policy for row in rows]),
    }
    caption = (
        "Dot: median; bar: 99th percentile. Wall time on the machine named above, the experiment's runs side by side."
    )
    return Figure("latency", "Time for a decision", caption, data, layout)


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
        "yaxis": _names([row.policy for row in rows]),
    }
    caption = (
        "Largest load with at most 1 % violation of services and at most 1 % of batch, interpolated seed by seed; the whisker is the "
        "95 % interval. The axis starts below the lowest swept load, not at zero."
    )
    return Figure("sustained", "Sustained load", caption, data, layout)


def violation_by_class(drawing: Drawing) -> Figure | None:
    """Violation of services and of batch beside each other."""
    comparison = drawing.comparison
    parts = (("violation_service", "services", "#2f74c0"), ("violation_batch", "batch", "#e08a1e"))
    if not all(name in comparison.measured for name, _, _ in parts):
        return None
    rows = [row for row in comparison.rows if row.load == comparison.focus]
    rows.sort(key=lambda row: -row.get("violation").mean)
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": title,
            "x": [row.get(name).mean * 100 for row in rows],
            "y": [row.policy for row in rows],
            "marker": {"color": colour},
            "error_x": {
                "type": "data",
                "array": [_or_zero(row.get(name).half_width) * 100 for row in rows],
                "thickness": 1.2,
                "width": 3,
            },
            "hovertemplate": f"%{{y}}, {title}: %{{x:.3g}} %<extra></extra>",
        }
        for name, title, colour in parts
    ]
    layout = {
        "height": bar_height(len(rows), 30),
        "barmode": "group",
        "bargap": 0.25,
        "xaxis": {"title": {"text": "core-hours that missed their objective, % of the class"}, "rangemode": "tozero"},
        "yaxis": _names([row.policy for row in rows]),
        "shapes": [_vertical(LIMIT * 100)],
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        "margin": {"r": 30},
    }
    caption = (
        f"{drawing.where.capitalize()}, with 95 % intervals; the dotted line is the 1 % that the sustained load allows."
    )
    return Figure("classes", "Who suffers: violation by class", caption, data, layout)


def drawn_last(comparison: Comparison) -> list[str]:
    """The policies in the order to draw: best first in the legend, ours on top of the others."""
    ranked = [row.policy for row in comparison.rows if row.load == comparison.focus]
    ranked += [policy for policy in comparison.policies if policy not in ranked]
    return [policy for policy in ranked if policy != comparison.ours] + [comparison.ours]


def bar_height(rows: int, each: int = 26) -> int:
    """Pixels for a chart of `rows` horizontal bars."""
    return 110 + each * rows


def _names(policies: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "category",
        "categoryarray": list(policies),
        "categoryorder": "array",
        "ticksuffix": "  ",
        "showgrid": False,
    }


def _line(drawing: Drawing, policy: str) -> Trace:
    style = drawing.styles[policy]
    ranked = drawn_last(drawing.comparison)
    place = 0 if policy == drawing.comparison.ours else 1 + ranked.index(policy)
    return {
        "type": "scatter",
        "name": policy,
        "legendrank": 100 + place,
        "opacity": style.opacity,
        "line": {"color": style.colour, "dash": style.dash, "width": style.width},
        "marker": {"size": 6},
    }


def _error(rows: Sequence[Row], metric: Metric) -> dict[str, Any]:
    halves = [_or_zero(row.get(metric.name).half_width) * metric.scale for row in rows]
    return {"type": "data", "array": halves, "thickness": 1, "width": 2, "visible": any(halves)}


def _or_zero(value: float) -> float:
    return 0.0 if isnan(value) else value


def _with_unit(metric: Metric) -> str:
    return f"{metric.title}, {metric.suffix}" if metric.suffix else metric.title


def _make_logarithmic(data: Sequence[Trace], layout: dict[str, Any]) -> str:
    """Turn a figure's y axis logarithmic, since violations span three orders; gives what the caption must add."""
    values = [y for trace in data for y in trace["y"]]
    floor = min((y for y in values if y >= _LEAST_SHOWN), default=_LEAST_SHOWN)
    for trace in data:
        trace["y"] = [max(y, floor) for y in trace["y"]]
    top = max(*values, 1.0)
    ticks = [factor * 10.0**power for power in range(-3, 3) for factor in (1, 2, 5)]
    layout["yaxis"] |= {
        "type": "log",
        "range": [log10(floor * 0.8), log10(top * 1.3)],
        "tickvals": ticks,
        "ticktext": [f"{tick:g}" for tick in ticks],
    }
    layout["yaxis"].pop("rangemode", None)
    return (
        f" The axis is logarithmic; less than {floor:.2g} % is drawn at its foot."
        if min(values) < floor
        else " The axis is logarithmic."
    )


def _horizontal(y: float) -> dict[str, Any]:
    line = {"color": "#8a8f98", "width": 1.5, "dash": "dot"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def _vertical(x: float) -> dict[str, Any]:
    line = {"color": "#8a8f98", "width": 1.5, "dash": "dot"}
    return {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": x, "x1": x, "line": line}


def _undominated(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other beats in both: larger x and smaller y. Ascending."""
    best: list[tuple[float, float]] = []
    for x, y in sorted(((round(x, 1), y) for x, y in points), key=lambda point: (-point[0], point[1])):
        if not best or y < best[-1][1]:
            best.append((x, y))
    return best[::-1]


def _stretched(share: Floats) -> Floats:
    """-log10(1 - share), up to 99.95 %: equal steps for 90, 99 and 99.9 %."""
    return -np.log10(np.maximum(1.0 - share, 0.0005))


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.5g}") for value in values]
