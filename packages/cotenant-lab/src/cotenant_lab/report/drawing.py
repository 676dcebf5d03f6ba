"""Parts shared by the figures of the report: the order of policies, the lines of one, intervals, axes of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan

import msgspec
import numpy as np
from numpy.typing import NDArray

from cotenant.model.pages.figures import Axis, ChartLine, IntervalReading, ends, logarithmic
from cotenant_lab.comparison import Comparison, ComparisonRow
from cotenant_lab.contract import RunResult
from cotenant_lab.metric import Metric
from cotenant_lab.report.palette import Style
from cotenant_lab.statistics import Interval

Floats = NDArray[np.float64]

_MIN_SHOWN = 0.01  # percent: smaller values are drawn at the bottom of a logarithmic axis


@dataclass(frozen=True, slots=True)
class FigureData:
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
    """The policies in drawing order: the worst first, ours on top of the others, so that legends, which read from
    the top, begin with ours and the best.
    """
    ranked = [row.policy for row in comparison.rows if row.load == comparison.focus]
    ranked += [policy for policy in comparison.policies if policy not in ranked]
    return [policy for policy in reversed(ranked) if policy != comparison.ours] + [comparison.ours]


def line(drawing: FigureData, policy: str, x: Sequence[float], y: Sequence[float | None]) -> ChartLine:
    """A line in the policy's style."""
    style = drawing.styles[policy]
    return ChartLine(
        name=policy,
        x=list(x),
        y=list(y),
        colour=style.colour,
        dash=style.dash,
        width=style.width,
        opacity=style.opacity,
    )


def halves(rows: Sequence[ComparisonRow], metric: Metric) -> list[float]:
    """Half of the 95 % intervals of a line's points; empty where none is known."""
    found = [or_zero(row.get(metric.name).half_width) * metric.scale for row in rows]
    return found if any(found) else []


def or_zero(value: float) -> float:
    """Zero for NaN or an infinite value: no error bar."""
    return value if isfinite(value) else 0.0


def reading(value: Interval, scale: float, shown: str, colour: str) -> IntervalReading:
    """A value with its interval; without one where it is not known."""
    mean, half = value.mean * scale, value.half_width * scale
    known = isfinite(half)
    return IntervalReading(mean, mean - half if known else None, mean + half if known else None, shown, colour)


def shown_with_half(value: Interval, scale: float, unit: str) -> str:
    """A mean with half of its interval, two decimals."""
    half = "" if isnan(value.half_width) else f" ± {value.half_width * scale:.2f}"
    return f"{value.mean * scale:.2f}{half}{unit}"


def with_unit(metric: Metric) -> str:
    """A metric's axis title."""
    return f"{metric.title}, {metric.suffix}" if metric.suffix else metric.title


def raised(lines: Sequence[ChartLine], title: str) -> tuple[list[ChartLine], Axis, str]:
    """Lines over a logarithmic y axis, since violations span three orders: values too small for it lie at its
    bottom. With the addition to the caption.
    """
    values = [value for line in lines for value in line.y if value is not None]
    least = min((value for value in values if value >= _MIN_SHOWN), default=_MIN_SHOWN)
    lifted = [
        msgspec.structs.replace(line, y=[None if value is None else max(value, least) for value in line.y])
        for line in lines
    ]
    axis = logarithmic(title, least * 0.8, max(*ends(lifted), 1.0) * 1.15)
    bottom = f" less than {least:.2g} % is drawn at the bottom." if min(values) < least else ""
    return lifted, axis, f" The axis is logarithmic{';' if bottom else '.'}{bottom}"


def rounded(values: Floats) -> list[float]:
    """Values rounded to five digits, enough for a figure."""
    return [float(f"{value:.5g}") for value in values]
