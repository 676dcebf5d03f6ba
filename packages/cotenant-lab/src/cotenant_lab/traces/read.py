"""Reading one file of a declared table: layout, blocks, checks, report.

With a header the columns are found by name, in any order; without one the published order applies. A file that is not
the declared table is refused with its name, line and column: wrong number of columns, the header of another format, a
column that is not numeric, or more than half of the rows structurally wrong. Lesser faults are counted row by row and
reported. Parquet written by `convert.py` (or any with the same columns) is read the same way.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cotenant.model.errors import InvalidInput
from cotenant_lab.traces import schema as faults
from cotenant_lab.traces.catalogue import find_format, find_table
from cotenant_lab.traces.check import LINE, Checker
from cotenant_lab.traces.layout import FieldLayout, FindLayout, detect_layout
from cotenant_lab.traces.lines import BLOCK_BYTES, LineBlock, read_blocks, size_of
from cotenant_lab.traces.schema import ImportReport, TableReport, TraceTable

PARQUET_MAGIC = b"PAR1"
PARQUET_ROWS = 500_000

Progress = Callable[[int, int], None]


def read_table(format_name: str, table_name: str, path: Path) -> tuple[pl.DataFrame, ImportReport]:
    """Read one file of a catalogued table, e.g. `read_table("openb", "pods", path)`.

    Returns the good rows, in file order, with the table's columns in the published order, official units and declared
    types (see `catalogue.py`), and the report of what was dropped. Raises `InvalidInput` where the file is not that
    table.
    """
    found = find_format(format_name)
    reader = TableReader(find_table(found, table_name), path)
    frames = list(reader.frames())
    return pl.concat(frames), ImportReport(found.name, (reader.report(),))


class TableReader:
    """One pass over one file. Exhaust `frames()`, then call `report()`."""

    def __init__(
        self,
        table: TraceTable,
        path: Path,
        find_layout: FindLayout | None = None,
        block_bytes: int = BLOCK_BYTES,
        separator: str = "",
    ) -> None:
        self.table = table
        self.path = path
        self._find_layout = find_layout or (lambda fields, named: detect_layout(table, fields, path, named))
        self._separator = separator  # empty: a tab where the first line has one and no comma, else a comma
        self._block_bytes = block_bytes
        self._checker = Checker(table)
        self._read = 0
        self._kept = 0
        self._finished = False

    def frames(self, on_progress: Progress | None = None) -> Iterator[pl.DataFrame]:
        """Good rows, one frame per block. `on_progress(bytes read, bytes of the file)` after each block."""
        total = size_of(self.path)
        chunks = self._parquet_chunks(total) if is_parquet(self.path) else self._text_chunks()
        for cells, consumed in chunks:
            frame = self._checker.check(cells)
            self._read += cells.height
            self._kept += frame.height
            self._refuse_if_mostly_wrong()
            if frame.height:
                yield frame
            if on_progress is not None:
                on_progress(consumed, total)
        self._finished = True
        if self._read == 0:
            raise InvalidInput(str(self.path), "no rows", f"at least one row of {self.table.name}")
        if self._kept == 0:
            worst = self._checker.tally.dropped()[0]
            raise InvalidInput(
                str(self.path), "no usable row", f"at least one good row of {self.table.name}", worst.sentence()
            )

    def report(self) -> TableReport:
        """Rows read, kept, and dropped by fault. Only after `frames()` is exhausted."""
        if not self._finished:
            raise RuntimeError("the file has not been read to its end")
        tally = self._checker.tally
        return TableReport(self.table.name, self.path, self._read, self._kept, tally.dropped(), tally.noted())

    def _refuse_if_mostly_wrong(self) -> None:
        wrong = [bad for bad in self._checker.tally.dropped() if bad.kind in faults.STRUCTURAL]
        if 2 * sum(bad.rows for bad in wrong) > self._read:
            worst = wrong[0]
            where = f"{self.path}: line {worst.lines[0]}" + (f", column {worst.column}" if worst.column else "")
            expected = f"a row of {self.table.name}" if not worst.column else self._wants(worst.column)
            raise InvalidInput(where, worst.example, expected, f"{worst.kind} in {worst.rows:,} of {self._read:,} rows")

    def _wants(self, column: str) -> str:
        declared = self.table.column(column)
        kind = {"integer": "an integer", "number": "a number", "curve": f"{declared.length} numbers joined by |"}[
            declared.kind
        ]
        return kind + (f" ({declared.unit})" if declared.unit else "")

    def _text_chunks(self) -> Iterator[tuple[pl.DataFrame, int]]:
        layout: FieldLayout | None = None
        for block in read_blocks(self.path, self._block_bytes):
            if layout is None:
                line = block.data[: block.data.index(b"\n")].decode("utf-8")
                self._separator = self._separator or ("\t" if "\t" in line and "," not in line else ",")
                try:
                    first = next(csv.reader([line], delimiter=self._separator), [])
                except csv.Error as error:
                    raise InvalidInput(f"{self.path}: line 1", line, "separated values", str(error)) from None
                layout = self._find_layout(tuple(first), False)
            body = block
            if layout.has_header and block.first_line == 1:
                end = block.data.index(b"\n") + 1
                body = LineBlock(block.data[end:], 2, block.consumed)
            if body.data:
                yield self._cells(body, layout), body.consumed

    def _cells(self, block: LineBlock, layout: FieldLayout) -> pl.DataFrame:
        """The block as text cells under the table's column names, with line numbers. Lines with a wrong number of
        fields are counted.
        """
        width = len(layout.fields)
        separator = self._separator.encode()
        lines = block.data.count(b"\n")
        frame: pl.DataFrame | None = None
        numbers = np.arange(block.first_line, block.first_line + lines, dtype=np.int64)
        if width > 1 and b'"' not in block.data and block.data.count(separator) == (width - 1) * lines:
            frame = _parse(block.data, layout, self._separator, quoted=False)
        if frame is None or frame.height != lines:
            data, numbers = self._lines_of_right_width(block, layout)
            frame = _parse(data, layout, self._separator, quoted=True)
            if frame is None or frame.height != len(numbers):
                raise InvalidInput(
                    f"{self.path}: from line {block.first_line}", "unreadable lines", "comma-separated values"
                )
        if b" " in block.data or b"\t" in block.data:
            stripped = pl.all().str.strip_chars()
            frame = frame.with_columns(pl.when(stripped != "").then(stripped).name.keep())
        found = [name for name in layout.fields if name is not None]
        return frame.select(found).with_columns(*self._absent(found), pl.Series(LINE, numbers))

    def _absent(self, found: list[str]) -> list[pl.Expr]:
        return [pl.lit(c.constant, dtype=pl.String).alias(c.name) for c in self.table.columns if c.name not in found]

    def _lines_of_right_width(self, block: LineBlock, layout: FieldLayout) -> tuple[bytes, NDArray[np.int64]]:
        good: list[bytes] = []
        numbers: list[int] = []
        tally = self._checker.tally
        for number, line in enumerate(block.data.split(b"\n")[:-1], block.first_line):
            if not line.strip():
                tally.add(faults.BLANK_LINE, "", [number], "")
                self._read += 1
                continue
            fields = _width(line, self._separator)
            if fields != len(layout.fields):
                example = f"{fields} fields" if fields else "unbalanced quote"
                tally.add(faults.WRONG_FIELDS, "", [number], f"{example}: {line[:40].decode(errors='replace')}")
                self._read += 1
                continue
            good.append(line)
            numbers.append(number)
        return b"".join(line + b"\n" for line in good), np.array(numbers, dtype=np.int64)

    def _parquet_chunks(self, total: int) -> Iterator[tuple[pl.DataFrame, int]]:
        try:
            scan = pl.scan_parquet(self.path)
            schema = scan.collect_schema()
            rows = int(scan.select(pl.len()).collect().item())
            columns = self._parquet_columns(schema)
            absent = self._absent(list(columns.values()))
            for start in range(0, rows, PARQUET_ROWS):
                cells = scan.select(pl.col(s).alias(n) for s, n in columns.items()).slice(start, PARQUET_ROWS).collect()
                numbers = pl.Series(LINE, np.arange(start + 1, start + 1 + cells.height, dtype=np.int64))
                yield cells.with_columns(*absent, numbers), total * (start + cells.height) // rows
        except (pl.exceptions.PolarsError, OSError) as error:
            why = str(error).splitlines()[0]
            raise InvalidInput(str(self.path), "damaged Parquet", "a valid Parquet file", why) from error

    def _parquet_columns(self, schema: pl.Schema) -> dict[str, str]:
        """By source column, the table's column it provides. Raises `InvalidInput` if its type cannot be right."""
        fields = self._find_layout(tuple(schema.names()), True).fields
        columns = {source: name for source, name in zip(schema.names(), fields, strict=True) if name is not None}
        for source, name in columns.items():
            kind, dtype = self.table.column(name).kind, schema[source]
            if kind in ("integer", "number") and not (dtype.is_numeric() or dtype in (pl.String, pl.Null)):
                raise InvalidInput(f"{self.path}: column {source}", str(dtype), self._wants(name))
            if kind == "curve" and not (dtype.is_nested() or dtype == pl.String):
                raise InvalidInput(f"{self.path}: column {source}", str(dtype), self._wants(name))
        return columns


def is_parquet(path: Path) -> bool:
    """Whether the file's first bytes say Parquet."""
    with path.open("rb") as file:
        return file.read(4) == PARQUET_MAGIC


def _width(line: bytes, separator: str) -> int:
    """Fields of a line; 0 if its quotes do not close."""
    if b'"' not in line:
        return line.count(separator.encode()) + 1
    try:
        return len(next(csv.reader([line.decode("utf-8")], delimiter=separator, strict=True)))
    except csv.Error:
        return 0


def _parse(data: bytes, layout: FieldLayout, separator: str, quoted: bool) -> pl.DataFrame | None:
    """Text cells of lines that all have the layout's width; None if polars finds a longer one."""
    names = [name if name is not None else f"__unused_{at}" for at, name in enumerate(layout.fields)]
    schema = dict.fromkeys(names, pl.String)
    if not data:
        return pl.DataFrame(schema=schema)
    try:
        return pl.read_csv(
            data, has_header=False, schema=schema, separator=separator, quote_char='"' if quoted else None
        )
    except (pl.exceptions.ComputeError, pl.exceptions.SchemaError):
        return None
