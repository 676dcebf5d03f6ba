"""From text cells to typed rows: every row is kept, or counted under exactly one fault.

Order of the faults: cells that are not numbers, then the table's own rules, missing values, ranges, unknown texts;
then, among the rows that passed, duplicates and time going backwards. The first that applies names the row, so a
Waiting task without a request is reported as never started and not as a missing number. Duplicates are detected by a
64-bit hash of the key: at 14 million rows the chance of one false alarm is about five in a million, for a ninth of the
memory of the keys themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cotenant_lab.traces import schema as faults
from cotenant_lab.traces.schema import BadRows, TraceColumn, TraceTable

LINE = "__line"  # the row's line in the file, carried beside the columns
RAW = "__raw_"
AS_FLOAT = "__float_"
EXACT_INTEGERS = float(2**53)


@dataclass(slots=True)
class _Count:
    rows: int = 0
    lines: list[int] = field(default_factory=list)
    example: str = ""


class FaultTally:
    """Counts of faults by kind and column, with the first few lines of each."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, bool], _Count] = {}

    def add(
        self, kind: str, column: str, lines: NDArray[np.int64] | list[int], example: object, drops: bool = True
    ) -> None:
        """Count one row for each line (ascending)."""
        count = self._counts.setdefault((kind, column, drops), _Count())
        if count.rows == 0:
            count.example = "" if example is None else str(example)[:60]
        count.rows += len(lines)
        count.lines.extend(int(line) for line in lines[: faults.EXAMPLE_LINES - len(count.lines)])

    def dropped(self) -> tuple[BadRows, ...]:
        """Faults that dropped a row, most rows first."""
        return self._list(True)

    def noted(self) -> tuple[BadRows, ...]:
        """Faults that did not drop the row."""
        return self._list(False)

    def _list(self, drops: bool) -> tuple[BadRows, ...]:
        rows = [
            BadRows(kind, column, count.rows, tuple(count.lines), count.example)
            for (kind, column, dropped), count in self._counts.items()
            if dropped is drops
        ]
        return tuple(sorted(rows, key=lambda bad: (-bad.rows, bad.lines)))


@dataclass(slots=True)
class _Fault:
    kind: str
    column: str
    when: pl.Expr
    drops: bool = True


class Checker:
    """Types and validates the rows of one table, chunk by chunk; keeps the state between chunks (keys, latest
    times).
    """

    def __init__(self, table: TraceTable) -> None:
        self.table = table
        self.tally = FaultTally()
        self._seen: list[pl.Series] = []
        self._latest: float | None = None

    def check(self, cells: pl.DataFrame) -> pl.DataFrame:
        """The good rows of `cells` (the table's columns, any types, and `LINE`), typed as the table declares and
        without `LINE`.
        """
        typed = cells.with_columns([pl.col(c.name).alias(RAW + c.name) for c in self.table.columns])
        typed = typed.with_columns([_as_float(c).alias(AS_FLOAT + c.name) for c in _numeric(self.table)])
        typed = typed.with_columns([_typed(c, cells.schema[c.name]) for c in self.table.columns])
        found = self._faults()
        flags = typed.select(fault.when.fill_null(False).alias(str(i)) for i, fault in enumerate(found))
        lines = typed[LINE].to_numpy()
        good = np.ones(typed.height, dtype=np.bool_)
        for i, fault in enumerate(found):
            flag = flags[str(i)]
            if not flag.any():
                continue
            mask = flag.to_numpy() & good
            if mask.any():
                self._count(typed, fault, mask, lines)
                if fault.drops:
                    good &= ~mask
        kept = typed.filter(good) if not good.all() else typed
        kept = self._drop_duplicates(kept)
        kept = self._drop_backwards(kept)
        return kept.select(pl.col(c.name).cast(c.dtype) for c in self.table.columns)

    def _count(self, rows: pl.DataFrame, fault: _Fault, mask: NDArray[np.bool_], lines: NDArray[np.int64]) -> None:
        first = int(np.argmax(mask))
        example = rows[RAW + fault.column][first] if RAW + fault.column in rows.columns else None
        self.tally.add(fault.kind, fault.column, lines[mask], example, fault.drops)

    def _faults(self) -> list[_Fault]:
        columns = self.table.columns
        found = [fault for column in columns for fault in _type_faults(column)]
        found += [_Fault(rule.name, rule.column, rule.when, rule.drops) for rule in self.table.rules]
        found += [
            _Fault(faults.MISSING, c.name, pl.col(RAW + c.name).is_null())
            for c in columns
            if not c.nullable and not c.optional
        ]
        found += [fault for column in columns for fault in _range_faults(column)]
        # rules that do not drop rows come last, so that they count only rows that are kept
        return [f for f in found if f.drops] + [f for f in found if not f.drops]

    def _drop_duplicates(self, rows: pl.DataFrame) -> pl.DataFrame:
        key = self.table.key
        if not key or rows.is_empty():
            return rows
        hashes = rows.select(pl.struct(key).hash(seed=0).alias("hash"))["hash"]
        repeated = ~hashes.is_first_distinct()
        for seen in self._seen:
            repeated = repeated | hashes.is_in(seen.implode())
        self._seen.append(hashes.filter(~repeated))
        if not repeated.any():
            return rows
        self._count(rows, _Fault(faults.DUPLICATE, key[-1], pl.lit(True)), repeated.to_numpy(), rows[LINE].to_numpy())
        return rows.filter(~repeated)

    def _drop_backwards(self, rows: pl.DataFrame) -> pl.DataFrame:
        time = self.table.ascending
        if time is None or rows.is_empty():
            return rows
        before = pl.col(time).cum_max().forward_fill().shift(1)
        earlier = pl.max_horizontal(before, pl.lit(self._latest, dtype=pl.Float64))
        backwards = rows.select((pl.col(time) < earlier).fill_null(False).alias("backwards"))["backwards"]
        if backwards.any():
            self._count(rows, _Fault(faults.BACKWARDS, time, pl.lit(True)), backwards.to_numpy(), rows[LINE].to_numpy())
            rows = rows.filter(~backwards)
        latest = rows[time].cast(pl.Float64).max()
        if isinstance(latest, float):  # None where every time is unknown
            self._latest = latest
        return rows


def _numeric(table: TraceTable) -> list[TraceColumn]:
    return [c for c in table.columns if c.kind in ("integer", "number")]


def _as_float(column: TraceColumn) -> pl.Expr:
    value = pl.col(column.name).cast(pl.Float64, strict=False)
    if column.markers:
        value = pl.when(value.is_in(column.markers)).then(None).otherwise(value)
    if column.scale != 1.0:
        value = value * column.scale
        if column.kind == "integer":  # 2.9999999999999996 counts as 3
            value = pl.when((value - value.round()).abs() < 1e-6).then(value.round()).otherwise(value)
    return value


def _typed(column: TraceColumn, dtype: pl.DataType) -> pl.Expr:
    name = column.name
    match column.kind:
        case "text":
            return pl.col(name).cast(pl.String)
        case "number":
            return pl.col(AS_FLOAT + name).alias(name)
        case "integer":
            as_float = pl.col(AS_FLOAT + name)
            whole = pl.when(as_float == as_float.floor()).then(as_float).cast(pl.Int64, strict=False)
            is_exact = column.scale == 1.0 and (dtype == pl.String or dtype.is_integer())  # beyond 2**53 a float is not
            exact = pl.col(name).cast(pl.Int64, strict=False) if is_exact else whole
            return pl.when(as_float.is_not_null()).then(pl.coalesce(exact, whole)).alias(name)
        case "curve":
            parts = pl.col(name).str.split("|") if dtype == pl.String else pl.col(name).cast(pl.List(pl.Float64))
            return parts.cast(pl.List(pl.Float64), strict=False).alias(name)


def _type_faults(column: TraceColumn) -> list[_Fault]:
    name, raw = column.name, pl.col(RAW + column.name)
    if column.kind == "text":
        return []
    if column.kind == "curve":
        value = pl.col(name)
        broken = (value.list.len() != column.length) | value.list.eval(pl.element().is_null()).list.any()
        infinite = value.list.eval(~pl.element().is_finite()).list.any()
        return [
            _Fault(faults.NOT_A_CURVE, name, raw.is_not_null() & broken),
            _Fault(faults.NOT_FINITE, name, raw.is_not_null() & infinite),
        ]
    as_float = pl.col(AS_FLOAT + name)
    unread = raw.is_not_null() & as_float.is_null()
    marked = raw.cast(pl.Float64, strict=False).is_in(column.markers) if column.markers else pl.lit(False)
    found = [
        _Fault(faults.NOT_A_NUMBER, name, unread & ~marked.fill_null(False)),
        _Fault(faults.NOT_FINITE, name, ~as_float.is_finite()),
    ]
    if column.kind == "integer":
        found.append(_Fault(faults.NOT_AN_INTEGER, name, as_float != as_float.floor()))
    if column.markers:
        found.append(_Fault(faults.INVALID_MARKER, name, marked, drops=False))
    return found


def _range_faults(column: TraceColumn) -> list[_Fault]:
    name = column.name
    if column.kind == "text":
        unknown = ~pl.col(name).is_in(column.choices)
        return [_Fault(faults.UNKNOWN_VALUE, name, unknown)] if column.choices else []
    least = pl.col(name).list.min() if column.kind == "curve" else pl.col(AS_FLOAT + name)
    most = pl.col(name).list.max() if column.kind == "curve" else pl.col(AS_FLOAT + name)
    maximum = column.maximum if column.maximum is not None else EXACT_INTEGERS
    found = [_Fault(faults.ABSURD, name, most > maximum)]
    if column.minimum is None:
        return [*found, _Fault(faults.TOO_SMALL, name, least < -EXACT_INTEGERS)]
    if column.minimum >= 0:
        found.append(_Fault(faults.NEGATIVE, name, least < 0))
    if column.minimum != 0:
        found.append(_Fault(faults.TOO_SMALL, name, least < column.minimum))
    return found
