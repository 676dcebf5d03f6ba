"""A figure's values as a table, which needs no script: folded below the figure.

A figure is drawn by a script, and a reader without one, or with a screen reader, must have its values. A row per name.
Lines are read at their own points where they share a few of them, else at some places between their ends, joined
linearly; the heading says which.
Limits: a long curve has no more than `PLACES` values here.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from math import log10

from cotenant.model.pages.figures import Chart, ChartLine, Drawing, IntervalReadings, TenantMaps
from cotenant.model.pages.wide import plain_table

PLACES = 8
_FULL = 900  # thousandths of a machine


def values(drawing: Drawing) -> str:
    """The table as HTML; empty where there is nothing to tell."""
    match drawing:
        case Chart():
            return _of_chart(drawing)
        case IntervalReadings():
            return _of_readings(drawing)
        case TenantMaps():
            return _of_maps(drawing)


def _of_chart(chart: Chart) -> str:
    lines = [line for line in reversed(chart.lines) if line.is_listed and line.x]
    if not lines:
        return ""
    is_scattered = all(line.is_points or line.notes for line in lines)
    unit = chart.y.unit.strip()
    if is_scattered:
        rows = [(line.name, *_point(line, k)) for line in lines for k in range(len(line.x))]
        return plain_table(("name", "", chart.x.title, chart.y.title), rows)
    own = sorted({x for line in lines for x in line.x})
    at = own if len(own) <= PLACES else _places(chart, own)
    heads = [f"{x:.3g}{chart.x.unit}" for x in at]
    table = plain_table(("", *heads), [(line.name, *(_read(line, x) for x in at)) for line in lines])
    between = "" if at is own else ", between points joined linearly"
    title = f"{chart.y.title}{f' ({unit})' if unit and unit not in chart.y.title else ''}"
    return f"<p class=soft>{escape(title)} at {escape(chart.x.title)}{between}:</p>{table}"


def _point(line: ChartLine, k: int) -> tuple[str, str, str]:
    y = line.y[k]
    half = f" ± {line.half[k]:.3g}" if line.half and line.half[k] else ""
    return line.notes[k] if line.notes else "", f"{line.x[k]:.4g}", "–" if y is None else f"{y:.4g}{half}"


def _places(chart: Chart, own: Sequence[float]) -> list[float]:
    """Evenly spaced along the axis, within the lines' ends."""
    low, high = max(own[0], chart.x.low), min(own[-1], chart.x.high)
    shares = [k / (PLACES - 1) for k in range(PLACES)]
    if chart.x.scale == "log" and low > 0:
        return [10 ** (log10(low) + share * (log10(high) - log10(low))) for share in shares]
    return [low + share * (high - low) for share in shares]


def _read(line: ChartLine, x: float) -> str:
    """The value at x: a point's own with its interval, or between two points."""
    for k, at in enumerate(line.x):
        if at == x:
            return _point(line, k)[2]
    known = [(at, y) for at, y in zip(line.x, line.y, strict=True) if y is not None]
    for (x0, y0), (x1, y1) in pairwise(known):
        if x0 <= x <= x1:
            return f"{y0 + (y1 - y0) * (x - x0) / (x1 - x0 or 1.0):.4g}"
    return "–"


def _of_readings(drawn: IntervalReadings) -> str:
    heads = ("", *(name for name, _ in drawn.series))
    return plain_table(
        heads,
        [(row.name, *(reading.shown for reading in row.readings)) for row in drawn.rows],
        ours=[row.name for row in drawn.rows if row.is_ours],
    )


def _of_maps(drawn: TenantMaps) -> str:
    kinds = 2 * len(drawn.tenants)
    rows = []
    for tenant_map in drawn.maps:
        held = [sum(tenant_map.shares[k : k + kinds]) for k in range(0, len(tenant_map.shares), kinds)]
        services = sum(sum(tenant_map.shares[k : k + kinds // 2]) for k in range(0, len(tenant_map.shares), kinds))
        whole = 10.0 * len(held) or 1.0
        full, empty = sum(share >= _FULL for share in held), sum(share == 0 for share in held)
        rows.append(
            (
                tenant_map.policy,
                f"{sum(held) / whole:.1f}",
                f"{services / whole:.1f}",
                f"{full}",
                f"{empty}",
                f"{len(held)}",
            )
        )
    heads = ("policy", "CPU allocated, %", "of it services, %", "machines at 90 % or more", "empty", "machines shown")
    return plain_table(heads, rows)
