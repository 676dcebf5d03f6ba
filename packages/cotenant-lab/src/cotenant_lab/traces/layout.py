"""Map the fields of a file to the columns of a table: detect a header, and recognise the headers of other formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cotenant.model.errors import InvalidInput
from cotenant_lab.traces.catalogue import FORMATS
from cotenant_lab.traces.schema import TraceTable


@dataclass(frozen=True, slots=True)
class FieldLayout:
    """How a file's fields map to a table's columns."""

    fields: tuple[str | None, ...]  # the table's column in each field; None: unused field
    has_header: bool


# (the first line's fields or the Parquet columns' names, whether they are known to be names) -> layout
FindLayout = Callable[[tuple[str, ...], bool], FieldLayout]


def detect_layout(table: TraceTable, fields: tuple[str, ...], path: Path, header_only: bool = False) -> FieldLayout:
    """Detect a header, and map fields to columns. Raises `InvalidInput` if they cannot be this table's."""
    names = [name.strip().lower() for name in fields]
    known = {column.name.lower(): column.name for column in table.columns}
    if header_only or any(name in known for name in names):
        for at, name in enumerate(names):
            if name not in known:
                raise InvalidInput(
                    f"{path}: line 1, column {at + 1}",
                    fields[at],
                    f"a column of {table.name}",
                    _looks_like(names, table),
                )
            if names.index(name) != at:
                raise InvalidInput(f"{path}: line 1, column {at + 1}", fields[at], "each column once")
        for column in table.columns:
            if not column.optional and column.name.lower() not in names:
                raise InvalidInput(
                    f"{path}: line 1",
                    "no such column",
                    f"column {column.name} of {table.name}",
                    _looks_like(names, table),
                )
        return FieldLayout(tuple(known[name] for name in names), has_header=True)
    other = _looks_like(names, table)
    if other:
        raise InvalidInput(f"{path}: line 1", ",".join(fields)[:60], f"rows of {table.name}", other)
    if len(fields) != len(table.columns):
        listed = ", ".join(column.name for column in table.columns)
        raise InvalidInput(f"{path}: line 1", f"{len(fields)} columns", f"{len(table.columns)} columns ({listed})")
    numeric = [
        (at, column)
        for at, column in enumerate(table.columns)
        if column.kind in ("integer", "number") and fields[at].strip()
    ]
    if numeric and not any(_is_number(fields[at]) for at, _ in numeric):
        at, column = numeric[0]
        raise InvalidInput(
            f"{path}: line 1, column {column.name}", fields[at], "a number", f"not a header of {table.name} either"
        )
    return FieldLayout(tuple(column.name for column in table.columns), has_header=False)


def _looks_like(names: list[str], table: TraceTable) -> str:
    for format_ in FORMATS:
        for other in format_.tables:
            columns = {column.name.lower() for column in other.columns}
            if other is not table and len(names) > 1 and set(names) <= columns:
                return f"this looks like {format_.name}'s {other.name}"
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
