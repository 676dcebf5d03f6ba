"""Any CSV or Parquet as a table: a small YAML or TOML file assigns its columns.

    file: jobs.csv.gz                 # beside the mapping, or an absolute path
    as: alibaba2018/batch_task        # optional: a catalogued table, whose types, ranges and faults then apply
    header: true                      # without one, columns are taken by position from 1
    columns:
      job_name:   {from: JobID}
      start_time: {from: submit_ms, scale: 0.001}
      status:     {value: Terminated}
      task_name:  {from: 3}

Without `as` each column also gives its `type` (text, integer, number) and may give unit, minimum, maximum, nullable;
`key` and `ascending` declare duplicates and the time that must not go backwards. Not supported: computing a column from
several, and joins.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
import polars as pl

from cotenant.model.document import read_struct
from cotenant.model.errors import InvalidInput
from cotenant_lab.traces.catalogue import GENERIC, find_format, find_table
from cotenant_lab.traces.layout import FieldLayout
from cotenant_lab.traces.read import TableReader
from cotenant_lab.traces.schema import ImportReport, TraceColumn, TraceTable


class MappedColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where one column comes from: a header's name or a position (`from`), or one value for every row."""

    source: str | int | None = msgspec.field(default=None, name="from")
    value: str | int | float | None = None
    scale: float = 1.0
    type: Literal["text", "integer", "number"] | None = None
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    nullable: bool = False


class Mapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mapping file."""

    file: str
    columns: dict[str, MappedColumn]
    table: str | None = msgspec.field(default=None, name="as")
    header: bool = True
    separator: str = ""
    key: tuple[str, ...] = ()
    ascending: str | None = None


def load_mapping(path: Path) -> Mapping:
    """Read a mapping. Raises `InvalidInput` naming the file and the field."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput(str(path), error.strerror or "unreadable", "a mapping in YAML or TOML") from error
    suffix = path.suffix.lower()
    if suffix not in (".toml", ".yaml", ".yml"):
        raise InvalidInput(str(path), path.suffix or "no ending", "a mapping named .yaml, .yml or .toml")
    return read_struct(Mapping, text, str(path), "a mapping", is_toml=suffix == ".toml")


def read_mapped(path: Path) -> tuple[pl.DataFrame, ImportReport]:
    """Read the table that the mapping at `path` describes, as `read.read_table` reads a catalogued one."""
    reader = mapped_reader(path)
    frames = list(reader.frames())
    return pl.concat(frames), ImportReport(GENERIC, (reader.report(),))


def mapped_reader(path: Path) -> TableReader:
    """A reader for the mapping at `path`. Raises `InvalidInput` if the mapping is inconsistent or does not match
    the named table.
    """
    mapping = load_mapping(path)
    table = _table(mapping, path)
    source = path.parent / mapping.file
    if len(mapping.separator) > 1:
        raise InvalidInput(f"{path}: separator", mapping.separator, "one character")
    return TableReader(table, source, partial(_find_layout, mapping, source), separator=mapping.separator)


def _table(mapping: Mapping, path: Path) -> TraceTable:
    if not mapping.columns:
        raise InvalidInput(f"{path}: columns", "none", "at least one column")
    seen: set[str | int] = set()
    for name, column in mapping.columns.items():
        where = f"{path}: columns.{name}"
        if (column.source is None) == (column.value is None):
            raise InvalidInput(where, "both" if column.value is not None else "neither", "either `from` or `value`")
        if column.source is not None:
            if column.source in seen:
                raise InvalidInput(f"{where}.from", column.source, "a source column used once")
            if isinstance(column.source, str) != mapping.header:
                wanted = "a name of the header" if mapping.header else "a position from 1, as there is no header"
                raise InvalidInput(f"{where}.from", column.source, wanted)
            seen.add(column.source)
        if column.value is not None and column.scale != 1.0:
            raise InvalidInput(f"{where}.scale", column.scale, "no scale on a value")
        if not -1e30 < column.scale < 1e30 or column.scale == 0:
            raise InvalidInput(f"{where}.scale", column.scale, "a finite number other than 0")
    return _own_table(mapping, path) if mapping.table is None else _catalogued_table(mapping, mapping.table, path)


def _own_table(mapping: Mapping, path: Path) -> TraceTable:
    columns = []
    for name, column in mapping.columns.items():
        if column.type is None:
            raise InvalidInput(f"{path}: columns.{name}.type", "missing", "text, integer or number")
        if column.type == "text" and column.scale != 1.0:
            raise InvalidInput(f"{path}: columns.{name}.scale", column.scale, "no scale on a text")
        declared = TraceColumn(name, column.type, column.unit, column.minimum, column.maximum, column.nullable)
        columns.append(dataclasses.replace(declared, scale=column.scale, constant=_constant(column)))
    for at, name in enumerate((*mapping.key, *([mapping.ascending] if mapping.ascending else []))):
        if name not in mapping.columns:
            raise InvalidInput(f"{path}: {'key' if at < len(mapping.key) else 'ascending'}", name, "one of the columns")
    if mapping.ascending and mapping.columns[mapping.ascending].type == "text":
        raise InvalidInput(f"{path}: ascending", mapping.ascending, "a numeric column")
    return TraceTable("rows", "mapped rows", tuple(columns), r".*", mapping.key, mapping.ascending)


def _catalogued_table(mapping: Mapping, name: str, path: Path) -> TraceTable:
    format_name, _, table_name = name.partition("/")
    table = find_table(find_format(format_name), table_name)
    if mapping.key or mapping.ascending:
        raise InvalidInput(f"{path}: key", "given", f"no key or ascending: {name} declares its own")
    by_name = {column.name: column for column in table.columns}
    for mapped, column in mapping.columns.items():
        if mapped not in by_name:
            raise InvalidInput(f"{path}: columns.{mapped}", mapped, f"a column of {name}: {', '.join(by_name)}")
        if column.type is not None or column.minimum is not None or column.maximum is not None:
            raise InvalidInput(f"{path}: columns.{mapped}", "type or range", f"none: {name} declares them")
        if by_name[mapped].kind not in ("integer", "number") and column.scale != 1.0:
            raise InvalidInput(f"{path}: columns.{mapped}.scale", column.scale, "no scale on a text")
    for column_name, declared in by_name.items():
        if column_name not in mapping.columns and not (declared.nullable or declared.optional):
            raise InvalidInput(f"{path}: columns", f"no {column_name}", f"every required column of {name}")
    columns = tuple(
        dataclasses.replace(declared, scale=mapping.columns[n].scale, constant=_constant(mapping.columns[n]))
        if n in mapping.columns
        else declared
        for n, declared in by_name.items()
    )
    return dataclasses.replace(table, columns=columns)


def _constant(column: MappedColumn) -> str | None:
    return None if column.value is None else str(column.value)


def _find_layout(mapping: Mapping, source: Path, fields: tuple[str, ...], named: bool) -> FieldLayout:
    wanted = {column.source: name for name, column in mapping.columns.items() if column.source is not None}
    if mapping.header or named:
        places: dict[str | int, int] = {field.strip(): at for at, field in enumerate(fields)}
    else:
        places = {at + 1: at for at in range(len(fields))}
    for place in wanted:
        if place not in places:
            raise InvalidInput(f"{source}: line 1", place, "one of its columns: " + ", ".join(map(str, places)))
    found: list[str | None] = [None] * len(fields)
    for place, name in wanted.items():
        found[places[place]] = name
    return FieldLayout(tuple(found), has_header=mapping.header)
