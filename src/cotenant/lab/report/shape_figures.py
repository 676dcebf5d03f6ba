"""Figures of one load: violation by class, slowdown distributions, curves over time, decision latency."""

from __future__ import annotations

from math import isfinite, log10
from typing import Any

import numpy as np

from cotenant.lab import statistics
from cotenant.lab.comparison import LIMIT
from cotenant.lab.report.document import Figure, Trace
from cotenant.lab.report.drawing import (
    LINE_HEIGHT,
    Drawing,
    Floats,
    bar_height,
    drawn_last,
    line,
    logarithmic,
    names_axis,
    or_zero,
    rounded,
    vertical,
)

_WIDE = 6.0  # curves whose means differ by more are drawn on a logarithmic axis
_SHARES = (0, 50, 75, 90, 95, 99, 99.5, 99.9)


def violation_by_class(drawing: Drawing) -> Figure | None:
    """Violation of services and of batch side by side."""
    comparison = drawing.comparison
    parts = (("violation_service", "services", "#2f74c0"), ("violation_batch", "batch", "#e08a1e"))
    if not all(name in comparison.measured for name, _, _ in parts):
        return None
    rows = [row for row in comparison.rows if row.load == comparison.focus]
    rows.sort(key=lambda row: -row.get("violation").mean)
    # Error bars are shown up to the length of their bar; longer ones, from few seeds, would shrink every bar.
    means = [(row.get(name).mean, or_zero(row.get(name).half_width)) for row in rows for name, _, _ in parts]
    widest = 105 * max((mean + min(half, mean) for mean, half in means), default=LIMIT)
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
                "array": [or_zero(row.get(name).half_width) * 100 for row in rows],
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
        "xaxis": {"title": {"text": "core-hours that missed their objective, % of the class"}, "range": [0, widest]},
        "yaxis": names_axis([row.policy for row in rows]),
        "shapes": [vertical(LIMIT * 100)],
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        "margin": {"r": 30},
    }
    caption = (
        f"{drawing.where.capitalize()}, with 95 % intervals; the dotted line is the 1 % that the sustained load allows."
    )
    return Figure("classes", "Violation by class", caption, data, layout)


def slowdowns(drawing: Drawing) -> Figure | None:
    """The distribution of slowdowns over all seeds: of batch pods, or of the workload's own subject."""
    subject = drawing.comparison.metrics["slowdown_p50"].subject
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
            line(drawing, policy)
            | {
                "x": rounded(x),
                "y": rounded(_stretched(share)),
                "text": [f"{each * 100:.4g}" for each in share],
                "mode": "lines",
                "hovertemplate": f"{policy}<br>%{{text}} % of {subject} at most %{{x:.3g}} times<extra></extra>",
            }
        )
    if not data:
        return None
    x_axis: dict[str, Any] = {
        "title": {"text": "slowdown: time taken / time alone, log scale"},
        "type": "log",
        "range": [0, log10(largest) * 1.02],
    }
    # Plotly labels a logarithmic axis at whole powers of ten, of which this one often has none.
    ticks = [1, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10, 20, 50, 100, 200, 500, 1_000, 10_000]
    if largest > 4:
        ticks = [1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000]
    x_axis |= {"tickvals": ticks, "ticktext": [f"{tick:g}x" for tick in ticks]}
    layout = {
        "height": LINE_HEIGHT,
        "xaxis": x_axis,
        "yaxis": {
            "title": {"text": f"{subject} at or below, %"},
            "range": [0, 3.05],
            "tickvals": [float(each) for each in _stretched(np.array(_SHARES) / 100)],
            "ticktext": [f"{share:g}" for share in _SHARES],
        },
    }
    caption = f"All seeds together, {drawing.where}. Further left and up is better. The upper end is stretched, because the tail is where policies differ."
    return Figure("slowdowns", f"Slowdown of {subject}", caption, data, layout)


def over_time(drawing: Drawing) -> list[Figure]:
    """A figure for each series recorded by the scenario: mean over seeds."""
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
                line(drawing, policy)
                | {
                    "x": rounded(x),
                    "y": rounded(y),
                    "mode": "lines",
                    "hovertemplate": f"{policy}<br>%{{x:.4g}}: %{{y:.4g}}<extra></extra>",
                }
            )
        layout: dict[str, Any] = {
            "height": LINE_HEIGHT,
            "xaxis": {"title": {"text": x_label}},
            "yaxis": {"title": {"text": y_label}, "rangemode": "tozero"},
        }
        kind = "over time" if "time" in x_label else "by arrivals"
        caption = f"Mean over the seeds, {drawing.where}."
        caption += _fit_axis(data, layout)
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
            line(drawing, row.policy)
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
                    "line": {"width": 3, "color": drawing.styles[row.policy].colour},
                    "color": drawing.styles[row.policy].colour,
                },
                "text": ["median", "p99"][: len(ends)],
                "hovertemplate": f"{row.policy}, %{{text}}: %{{x:.4g}} us<extra></extra>",
                "showlegend": False,
            }
        )
    layout = {
        "height": bar_height(len(rows)),
        "xaxis": {
            "title": {"text": f"microseconds {comparison.metrics['decision_p50_us'].subject}, log scale"},
            "type": "log",
            "dtick": 1,
        },
        "yaxis": names_axis([row.policy for row in rows]),
    }
    caption = "Dot: median; bar: 99th percentile. Wall time on the machine named above, with the experiment's runs in parallel."
    return Figure("latency", "Time for a decision", caption, data, layout)


def _fit_axis(data: list[Trace], layout: dict[str, Any]) -> str:
    """Use a logarithmic axis for curves that differ by orders of magnitude, and cut off a short peak; returns the addition to the caption."""
    values = np.array([y for trace in data for y in trace["y"]])
    levels = [float(np.mean(trace["y"])) for trace in data]
    usual, top = float(np.quantile(values, 0.995)), float(values.max())
    if max(levels) > _WIDE * min(levels) > 0:
        foot = min(levels) / _WIDE
        for trace in data:
            trace["y"] = [y if y > foot else None for y in trace["y"]]
        layout["yaxis"] |= logarithmic(foot * 0.9, top * 1.2)
        layout["yaxis"].pop("rangemode", None)
        return f" The axis is logarithmic; values below {foot:.1g} are left out."
    if top > _WIDE * usual > 0:
        layout["yaxis"]["range"] = [0, usual * 1.2]
        return f" The axis ends at {usual * 1.2:.3g}; the highest value is {top:,.4g}."
    return ""


def _stretched(share: Floats) -> Floats:
    """-log10(1 - share), up to 99.95 %: equal steps for 90, 99 and 99.9 %."""
    return -np.log10(np.maximum(1.0 - share, 0.0005))
