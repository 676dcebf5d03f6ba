"""What a figure is: lines with intervals, values with intervals, machines of one moment; with axes, marks, captions and
names of colours.

Four kinds of pages draw figures, and what a drawing library takes is a dictionary whose misspelt key draws nothing.
Frozen structures, encoded as they are into the page, where the console's components draw them
(console/src/report/data.ts has the same fields). Colours are names, which the page resolves in both themes. Axes have
their ends here, so that a figure looks the same whichever of its lines are hidden.
Limits: x and y of a line are numbers; a value that is not there is None, and the line is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor, isfinite, log10
from typing import Literal, TypeAlias

import msgspec

Scale: TypeAlias = Literal["linear", "log", "tail"]
Dash: TypeAlias = Literal["solid", "dash", "dot"]
Mark: TypeAlias = Literal["", "circle", "star", "diamond"]

OURS, BOUND, SERVICE, BATCH = (
    "ours",
    "bound",
    "service",
    "batch",
)  # names of colours, beside those of `rival` and `ablation`
RIVALS, ABLATIONS = 9, 4

Tick: TypeAlias = tuple[float, str]


def rival(number: int) -> str:
    """The colour of a rival; they repeat after `RIVALS`."""
    return f"rival-{number % RIVALS}"


def ablation(number: int) -> str:
    """The colour of an ablation of ours; they repeat after `ABLATIONS`."""
    return f"ablation-{number % ABLATIONS}"


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """From `low` to `high`. `tail`: of a share in percent, equal steps for 90, 99 and 99.9 %. No `ticks`: the page
    makes them.
    """

    title: str
    low: float
    high: float
    scale: Scale = "linear"
    unit: str = ""
    ticks: tuple[Tick, ...] = ()


class ChartLine(msgspec.Struct, frozen=True, kw_only=True):
    """Points, joined or not. `half`: half of the 95 % interval of each; `notes`: words of each point. A click on
    its name in a legend hides all lines of that name.
    """

    name: str
    x: list[float]
    y: list[float | None]
    colour: str
    dash: Dash = "solid"
    width: float = 1.8
    opacity: float = 1.0
    half: list[float] = []
    notes: list[str] = []
    mark: Mark = ""
    size: float = 6.0
    is_filled: bool = False
    is_points: bool = False  # no line between them
    is_listed: bool = True  # in the legend


class ShadedSpan(msgspec.Struct, frozen=True):
    """A shaded range of x, e.g. what is not counted, with its word."""

    low: float
    high: float
    words: str


class Chart(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="chart"):
    """Lines over an axis, in the order in which they are drawn: the last lies on top and is the first of the
    legend. `is_united`: one reading shows the lines' values at the same x.
    """

    x: Axis
    y: Axis
    lines: tuple[ChartLine, ...]
    spans: tuple[ShadedSpan, ...] = ()
    limits: tuple[float, ...] = ()  # of y, dotted
    height: int = 400
    is_united: bool = False


class IntervalReading(msgspec.Struct, frozen=True):
    """A value with its interval, and how it is written beside it."""

    value: float
    low: float | None
    high: float | None
    shown: str
    colour: str


class ReadingRow(msgspec.Struct, frozen=True):
    """The values of one name, a line each."""

    name: str
    is_ours: bool
    readings: tuple[IntervalReading, ...]


class IntervalReadings(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="intervals"):
    """Values with intervals, a row a name. `series`: names and colours of a row's values; `limit`: dotted."""

    axis: Axis
    rows: tuple[ReadingRow, ...]
    series: tuple[tuple[str, str], ...]
    limit: float | None = None


class TenantMap(msgspec.Struct, frozen=True):
    """The machines of one policy, the fullest first. `shares`: thousandths of a machine's CPU, by machine, then
    services of each tenant, then batch of each.
    """

    policy: str
    machine: list[int]
    shares: list[int]


class TenantMaps(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="machines"):
    """Machines divided by tenant, one policy at a time. The last of `tenants` stands for all others."""

    tenants: tuple[str, ...]
    maps: tuple[TenantMap, ...]


Drawing: TypeAlias = Chart | IntervalReadings | TenantMaps


class Figure(msgspec.Struct, frozen=True):
    """A drawing with its title and caption. `key`: its place in the page."""

    key: str
    title: str
    caption: str
    drawing: Drawing


def over(title: str, values: Iterable[float | None], *, from_zero: bool = False, unit: str = "") -> Axis:
    """A linear axis over values, with a little room at its ends."""
    known = [value for value in values if value is not None and isfinite(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    room = 0.03 * (high - low) or 0.05 * abs(high) or 1.0
    if from_zero and low >= 0.0:
        return Axis(title=title, low=0.0, high=high + room, unit=unit)
    return Axis(title=title, low=low - room, high=high + room, unit=unit)


def logarithmic(title: str, low: float, high: float, unit: str = "") -> Axis:
    """A logarithmic axis, marked at 1, 2 and 5 of each power of ten."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = tuple((factor * 10.0**power, f"{factor * 10.0**power:g}") for power in powers for factor in (1, 2, 5))
    return Axis(title=title, low=low, high=high, scale="log", unit=unit, ticks=ticks)


def ends(lines: Sequence[ChartLine]) -> list[float]:
    """The values of lines with the ends of their intervals."""
    found = []
    for line in lines:
        for k, value in enumerate(line.y):
            if value is not None:
                half = line.half[k] if line.half else 0.0
                found += [value - half, value + half]
    return found
