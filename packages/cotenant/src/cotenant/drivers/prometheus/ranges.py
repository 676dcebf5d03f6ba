"""A range of days read in parts, into one array.

A week of 50,000 pods is no single answer: parts hold at most so many values, begin at multiples of their length, and so
are the same parts for the next reader, which a `PartStore` gives back what was read before it was interrupted. A part
that is too much for the store, or too slow, is asked for in halves. What cannot be read stays unknown and is named; a
server that fails at several parts running is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cotenant.drivers.prometheus.answers import PrometheusSeries, QueryAnswer, samples_of
from cotenant.drivers.prometheus.client import PrometheusClient, Slow, TooMuch
from cotenant.model.assess.history import Float32
from cotenant.model.errors import Permanent, Transient

MAX_VALUES = 2_000_000  # of one answer: about 50 MB of text
_MAX_STEPS = 256  # of one part: Prometheus answers at most 11,000 points a series, and what is short is soon kept
_MAX_FAILURES = 3  # parts running
_SETTLED_S = 300.0  # newer parts may still change

NameOf = Callable[[dict[str, str]], str]
Report = Callable[[int, int], None]  # parts done, parts in all


@dataclass(frozen=True, slots=True)
class RangeSteps:
    """Columns at `start_s + i * step_s`."""

    start_s: float
    step_s: float
    steps: int

    @property
    def end_s(self) -> float:
        """Time of the column after the last."""
        return self.start_s + self.steps * self.step_s

    def parts(self, series: int) -> Iterator[tuple[int, int]]:
        """First column and number of columns of each part; a power of two, so that a few series more change nothing."""
        width = 1 << (max(1, min(_MAX_STEPS, MAX_VALUES // max(1, series))).bit_length() - 1)
        at = round(self.start_s / self.step_s)
        first = 0
        while first < self.steps:
            count = min(width - (at + first) % width, self.steps - first)
            yield first, count
            first += count


@dataclass(frozen=True, slots=True)
class RangePart:
    """What one part gave: `values[names, columns]`."""

    names: tuple[str, ...]
    values: Float32


class PartStore(Protocol):
    """Keeps parts over an interruption."""

    def get(self, key: tuple[str, float, float, int]) -> RangePart | None:
        """The part of an expression, start, step and number of columns; None where it is not kept."""

    def put(self, key: tuple[str, float, float, int], part: RangePart) -> None:
        """Keep a part."""


@dataclass(slots=True)
class RangeRead:
    """Rows by name, and what is missing."""

    span: RangeSteps
    values: Float32
    rows: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    failed_steps: int = 0
    refused_whole: bool = False  # left alone after several failures

    def put(self, first: int, part: RangePart, scale: float) -> None:
        """Take in a part; where a name comes twice, the larger value counts."""
        for name in part.names:
            self.rows.setdefault(name, len(self.rows))
        if len(self.rows) > len(self.values):
            more = max(len(self.rows) - len(self.values), len(self.values) // 4)
            grown = np.full((len(self.values) + more, self.span.steps), np.nan, np.float32)
            grown[: len(self.values)] = self.values
            self.values = grown
        width = part.values.shape[1]
        for i, name in enumerate(part.names):
            row = self.values[self.rows[name], first : first + width]
            np.fmax(row, part.values[i] * np.float32(scale), out=row)

    def named(self) -> tuple[tuple[str, ...], Float32]:
        """Names and their rows."""
        return tuple(self.rows), self.values[: len(self.rows)]

    def failed(self, what: str, first: int, count: int, why: str) -> None:
        """Columns that could not be read; each reason is kept once."""
        self.failed_steps += count
        text = f"{what}: {why}"
        if text not in self.faults:
            self.faults.append(text)


def placed(answer: QueryAnswer, name_of: NameOf, start_s: float, step_s: float, steps: int) -> RangePart:
    """An answer's series in columns. Samples outside, between columns, or below 0 are left out; of two for one place
    the larger counts.
    """
    rows: dict[str, int] = {}
    kept: list[PrometheusSeries] = []
    row_of: list[int] = []
    for series in answer.series:
        name = name_of(dict(series.metric))
        if name:
            row_of.append(rows.setdefault(name, len(rows)))
            kept.append(series)
    values_of = np.full((len(rows), steps), -1.0, np.float32)
    counts, times, values = samples_of(kept)
    row = np.repeat(np.array(row_of, np.int64), counts)
    with np.errstate(invalid="ignore"):
        at = np.rint(np.clip((times - start_s) / step_s, -1, steps)).astype(np.int64)
        fits = (at >= 0) & (at < steps) & (values >= 0) & (np.abs(times - start_s - at * step_s) < 0.5)
    np.maximum.at(values_of, (row[fits], at[fits]), values[fits].astype(np.float32))
    values_of[values_of < 0] = np.nan
    return RangePart(tuple(rows), values_of)


async def read_span(
    client: PrometheusClient,
    what: str,
    expression: str,
    span: RangeSteps,
    name_of: NameOf,
    *,
    expected_series: int,
    scale: float = 1.0,
    server_now_s: float,
    store: PartStore | None = None,
    report: Report = lambda done, of: None,
) -> RangeRead:
    """Read an expression over a span; `scale` makes its unit ours. `what` names it in faults. Raises nothing that a
    server can cause.
    """
    read = RangeRead(span, np.full((max(1, expected_series), span.steps), np.nan, np.float32))
    parts = list(span.parts(expected_series))
    failures = 0
    done = 0
    report(0, len(parts))
    for batch in _batches(parts, client.prometheus.in_flight):
        if failures >= _MAX_FAILURES:
            for first, count in batch:
                read.failed(what, first, count, "left alone after failures")
            read.refused_whole = True
            continue
        results = await asyncio.gather(
            *(_part(client, expression, span, first, count, name_of, server_now_s, store) for first, count in batch)
        )
        for pieces in results:
            ok = False
            for first, count, part, why in pieces:
                if part is not None:
                    read.put(first, part, scale)
                    ok = True
                if why:
                    if part is None:
                        read.failed(what, first, count, why)
                    elif (text := f"{what}: {why}") not in read.faults:
                        read.faults.append(text)
            failures = 0 if ok else failures + 1
            done += 1
            report(done, len(parts))
    return read


_Piece = tuple[int, int, RangePart | None, str]


async def _part(
    client: PrometheusClient,
    expression: str,
    span: RangeSteps,
    first: int,
    count: int,
    name_of: NameOf,
    server_now_s: float,
    store: PartStore | None,
    slow_halvings: int = 2,
) -> list[_Piece]:
    start_s = span.start_s + first * span.step_s
    key = (expression, start_s, span.step_s, count)
    kept = store.get(key) if store is not None else None
    if kept is not None:
        return [(first, count, kept, "")]
    try:
        answer = await client.query_range(expression, start_s, start_s + (count - 1) * span.step_s, span.step_s)
        part = placed(answer, name_of, start_s, span.step_s, count)
    except (TooMuch, Slow) as error:
        left = slow_halvings - isinstance(error, Slow)
        if count == 1 or left < 0:
            return [(first, count, None, str(error))]
        half = count // 2
        low = await _part(client, expression, span, first, half, name_of, server_now_s, store, left)
        if all(part is None for _, _, part, _ in low):
            return [*low, (first + half, count - half, None, str(error))]  # it is not the size
        rest = await _part(client, expression, span, first + half, count - half, name_of, server_now_s, store, left)
        return [*low, *rest]
    except (Transient, Permanent) as error:
        return [(first, count, None, str(error))]
    why = "; ".join(answer.faults)
    if store is not None and not why and start_s + count * span.step_s < server_now_s - _SETTLED_S:
        store.put(key, part)
    return [(first, count, part, why)]


def _batches(parts: list[tuple[int, int]], size: int) -> Iterator[list[tuple[int, int]]]:
    for begin in range(0, len(parts), size):
        yield parts[begin : begin + size]
