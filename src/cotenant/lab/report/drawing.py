"""Parts shared by the figures of the report.

Figures are Plotly's JSON. They set no text or background colours: the page sets them, for light and dark. Traces carry their policy's
name, so that the legend of one figure switches it in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isnan, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotenant.lab.comparison import Comparison, Row
from cotenant.lab.contract import RunResult
from cotenant.lab.metrics import Metric
from cotenant.lab.report.document import Trace
from cotenant.lab.report.palette import Style

Floats = NDArray[np.float64]

LINE_HEIGHT = 440
_LEAST_SHOWN = 0.01  # percent: smaller values are drawn at the bottom of a logarithmic axis


@dataclass(frozen=True, slots=True)
class Drawing:
    """The data of all figures. `results`: runs with their arrays, by policy, at the comparison's focus load."""

    comparison: Comparison
    styles: Mapping[str, Style]
    results: Mapping[str, Sequence[RunResult]]

    @property
    def where(self) -> str:
        """Caption text for the load of single-load figures."""
        return f"at load {percent(self.comparison.focus)}"


def percent(value: float) -> str:
    """77 % rather than 77.0 %."""
    return f"{value * 100:.4g} %"


def drawn_last(comparison: Comparison) -> list[str]:
    """The policies in drawing order: best first in the legend, ours on top of the others."""
    ranked = [row.policy for row in comparison.rows if row.load == comparison.focus]
    ranked += [policy for policy in comparison.policies if policy not in ranked]
    return [policy for policy in ranked if policy != comparison.ours] + [comparison.ours]


def bar_height(rows: int, each: int = 26) -> int:
    """Pixels for a chart of `rows` horizontal bars."""
    return 110 + each * rows


def names_axis(policies: Sequence[str]) -> dict[str, Any]:
    """The axis of a chart of horizontal bars, first policy at the bottom."""
    return {
        "type": "category",
        "categoryarray": list(policies),
        "categoryorder": "array",
        "ticksuffix": "  ",
        "showgrid": False,
    }


def line(drawing: Drawing, policy: str) -> Trace:
    """Properties shared by all lines of a policy."""
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


def error_bars(rows: Sequence[Row], metric: Metric) -> dict[str, Any]:
    """The 95 % intervals of a line."""
    halves = [or_zero(row.get(metric.name).half_width) * metric.scale for row in rows]
    return {"type": "data", "array": halves, "thickness": 1, "width": 2, "visible": any(halves)}


def or_zero(value: float) -> float:
    """Zero for NaN: no error bar."""
    return 0.0 if isnan(value) else value


def with_unit(metric: Metric) -> str:
    """A metric's axis title."""
    return f"{metric.title}, {metric.suffix}" if metric.suffix else metric.title


def make_logarithmic(data: Sequence[Trace], layout: dict[str, Any]) -> str:
    """Make a figure's y axis logarithmic, since violations span three orders; returns the addition to the caption."""
    values = [y for trace in data for y in trace["y"]]
    least = min((y for y in values if y >= _LEAST_SHOWN), default=_LEAST_SHOWN)
    for trace in data:
        trace["y"] = [max(y, least) for y in trace["y"]]
    layout["yaxis"] |= logarithmic(least * 0.8, max(*values, 1.0) * 1.3)
    layout["yaxis"].pop("rangemode", None)
    floor = f" less than {least:.2g} % is drawn at the bottom." if min(values) < least else ""
    return f" The axis is logarithmic{';' if floor else '.'}{floor}"


def logarithmic(low: float, high: float) -> dict[str, Any]:
    """A logarithmic axis from `low` to `high`, labelled at 1, 2 and 5 of each power."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    labels = [f"{tick:g}" for tick in ticks]
    return {"type": "log", "range": [log10(low), log10(high)], "tickvals": ticks, "ticktext": labels}


def horizontal(y: float) -> dict[str, Any]:
    """A dotted horizontal line."""
    line = {"color": "#8a8f98", "width": 1.5, "dash": "dot"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def vertical(x: float) -> dict[str, Any]:
    """A dotted vertical line."""
    line = {"color": "#8a8f98", "width": 1.5, "dash": "dot"}
    return {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": x, "x1": x, "line": line}


def rounded(values: Floats) -> list[float]:
    """Values rounded to five digits, enough for a figure."""
    return [float(f"{value:.5g}") for value in values]
