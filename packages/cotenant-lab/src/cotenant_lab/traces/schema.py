"""The declaration of a trace's table as data, and the report of reading one.

A `TraceTable` names its columns with types, units and allowed ranges, the faults of a whole row (`RowRule`), its key
and the time that must not go backwards. The reader (`read.py`) is independent of formats: it interprets these
values. Every row read is either kept or counted under exactly one fault, so `rows_read == rows_kept + sum(b.rows for
b in bad)` always holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import polars as pl

Kind = Literal["text", "integer", "number", "curve"]

# Faults that show that the file is not the declared table, rather than that the recorded data is odd.
WRONG_FIELDS = "wrong number of fields"
BLANK_LINE = "blank line"
NOT_A_NUMBER = "not a number"
NOT_AN_INTEGER = "not an integer"
NOT_A_CURVE = "not a curve of the declared length"
STRUCTURAL = (WRONG_FIELDS, NOT_A_NUMBER, NOT_AN_INTEGER, NOT_A_CURVE)
NOT_FINITE = "NaN or infinite"
MISSING = "missing value"
NEGATIVE = "negative"
TOO_SMALL = "below the allowed range"
ABSURD = "above the allowed range"
UNKNOWN_VALUE = "unknown value"
DUPLICATE = "duplicate"
BACKWARDS = "time goes backwards"
INVALID_MARKER = "marked as not measured"
EXAMPLE_LINES = 5


@dataclass(frozen=True, slots=True)
class TraceColumn:
    """One column. `minimum` and `maximum` are inclusive, in the column's own unit, and hold for each sample of a
    curve.
    """

    name: str
    kind: Kind
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    nullable: bool = False  # an empty cell is a value ("unknown"), not a fault
    optional: bool = False  # a file with a header may lack the whole column; it then reads as null
    markers: tuple[float, ...] = ()  # published "not measured" values: read as null and noted
    choices: tuple[str, ...] = ()  # the only texts allowed; empty = any
    length: int = 0  # samples of a curve, written `a|b|c`
    scale: float = 1.0  # the file's number times this is the column's, in its unit (mappings only)
    constant: str | None = None  # the value of every row where the file has no such column (mappings only)

    @property
    def dtype(self) -> pl.DataType:
        """The column's type once read."""
        match self.kind:
            case "text":
                return pl.String()
            case "integer":
                return pl.Int64()
            case "number":
                return pl.Float64()
            case "curve":
                return pl.Array(pl.Float64(), self.length)


@dataclass(frozen=True, slots=True)
class RowRule:
    """A fault of a whole row, over the typed columns; a null answer means the fault is absent."""

    name: str
    when: pl.Expr = field(compare=False)
    column: str  # the column to point at
    drops: bool = True  # False: the row is kept and only noted


@dataclass(frozen=True, slots=True)
class TraceTable:
    """One table of a format, its columns in the published order."""

    name: str
    meaning: str
    columns: tuple[TraceColumn, ...]
    file_pattern: str  # a regular expression for the file's name without `.csv`, `.csv.gz`, `.parquet`
    key: tuple[str, ...] = ()  # columns that identify a row; a second row of the same key is a duplicate
    ascending: str | None = None  # a time that must not go backwards from row to row of the file
    rules: tuple[RowRule, ...] = ()

    def polars_schema(self) -> pl.Schema:
        """Names and types of the resulting frame."""
        return pl.Schema({column.name: column.dtype for column in self.columns})

    def column(self, name: str) -> TraceColumn:
        """The column of that name; KeyError if the table has none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """A family of tables published together."""

    name: str
    meaning: str
    provenance: str
    licence: str
    tables: tuple[TraceTable, ...]


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """A format as shown in a listing."""

    name: str
    meaning: str
    tables: tuple[str, ...]
    provenance: str
    licence: str


@dataclass(frozen=True, slots=True)
class BadRows:
    """Rows with one fault. `lines` are the first few, counted from 1 with the header."""

    kind: str
    column: str  # empty where the whole line is at fault
    rows: int
    lines: tuple[int, ...]
    example: str  # the cell of the first of them

    def sentence(self) -> str:
        """One line of text."""
        where = f" in {self.column}" if self.column else ""
        dots = ", ..." if self.rows > len(self.lines) else ""
        shown = f", e.g. {self.example!r}" if self.example else ""
        return f"{self.rows:,} x {self.kind}{where} (line {', '.join(map(str, self.lines))}{dots}{shown})"


@dataclass(frozen=True, slots=True)
class TableReport:
    """The result of reading one file. `bad` rows were dropped; `noted` rows were kept."""

    table: str
    source: Path
    rows_read: int
    rows_kept: int
    bad: tuple[BadRows, ...]
    noted: tuple[BadRows, ...]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of reading or converting, file by file. `skipped`: files of the folder that match no table of the
    format.
    """

    format: str
    tables: tuple[TableReport, ...]
    skipped: tuple[Path, ...] = ()

    @property
    def rows_read(self) -> int:
        """Rows in the sources, without headers."""
        return sum(table.rows_read for table in self.tables)

    @property
    def rows_kept(self) -> int:
        """Rows that passed."""
        return sum(table.rows_kept for table in self.tables)

    @property
    def bad(self) -> tuple[BadRows, ...]:
        """Dropped rows of every table, by fault."""
        return tuple(bad for table in self.tables for bad in table.bad)

    @property
    def noted(self) -> tuple[BadRows, ...]:
        """Kept but remarkable rows of every table."""
        return tuple(noted for table in self.tables for noted in table.noted)

    def sentences(self) -> tuple[str, ...]:
        """The report as text, one line per entry."""
        lines = []
        for table in self.tables:
            lines.append(
                f"{table.source.name} ({table.table}): {table.rows_read:,} rows read, {table.rows_kept:,} kept"
            )
            lines.extend(f"  dropped {bad.sentence()}" for bad in table.bad)
            lines.extend(f"  kept    {noted.sentence()}" for noted in table.noted)
        lines.extend(f"{path.name}: skipped, not a table of {self.format}" for path in self.skipped)
        return tuple(lines)
