"""Convert a trace once to Parquet (zstd): read in blocks, checked, written beside the destination, then renamed over
it.

A killed process, a full disk or a bad file leaves the previous content of the destination. With a folder as source
every file that is a table of the format is converted, and none is put in place unless all succeeded. After kill -9 a
hidden `.NAME.*.partial` may stay behind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source

from cotenant.model.errors import InvalidInput, Permanent
from cotenant_lab.storage import replaceable
from cotenant_lab.traces.catalogue import GENERIC, find_format
from cotenant_lab.traces.lines import size_of
from cotenant_lab.traces.mapping import mapped_reader
from cotenant_lab.traces.read import TableReader
from cotenant_lab.traces.schema import ImportReport, TraceFormat, TraceTable

Progress = Callable[[int, int], None]
Write = Callable[[pl.LazyFrame, Path], None]

_SUFFIXES = re.compile(r"(\.(csv|tsv|txt|parquet))?(\.gz)?$", re.IGNORECASE)
_TABLE_SUFFIXES = re.compile(r"\.(csv|tsv|txt|parquet)(\.gz)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Job:
    reader: TableReader
    target: Path
    size: int


def write_parquet(rows: pl.LazyFrame, path: Path) -> None:
    """Stream the rows into a zstd Parquet file."""
    # Opened here: given a path, polars may make the file after it has raised, too late for who clears up.
    with path.open("wb") as file:
        rows.sink_parquet(file, compression="zstd")


def import_trace(
    format_name: str, source: Path, destination: Path, on_progress: Progress | None = None, write: Write = write_parquet
) -> ImportReport:
    """Convert `source` (a table's file, or a folder of them; for `generic` a mapping) to Parquet at `destination`.

    A file becomes the file `destination` (or, where that is a folder, a file in it); a folder becomes a folder with one
    Parquet file for each table file, under the same name. `on_progress(bytes read, bytes of all sources)`. `write` is
    the writer, for tests.

    Returns what was read, kept and dropped, by fault. Raises `InvalidInput` where a source is not the format's, and
    `Permanent` where the destination cannot be written; in both cases the destination is unchanged.
    """
    readers, skipped = _readers(format_name, source)
    if source.is_dir() and destination.exists() and not destination.is_dir():
        raise InvalidInput(str(destination), "a file", "a folder, as the source is one")
    into_folder = source.is_dir() or destination.is_dir()
    jobs = [_Job(reader, _target(reader.path, destination, into_folder), size_of(reader.path)) for reader in readers]
    targets = [job.target for job in jobs]
    for target in targets:
        if targets.count(target) > 1:
            raise InvalidInput(
                str(source), target.name, "one file for each table name", "two files differ only in their ending"
            )
        if any(target.samefile(job.reader.path) for job in jobs if target.exists()):
            raise InvalidInput(str(target), "also a source", "another destination, so that the source stays")
    total = sum(job.size for job in jobs)
    temporary: list[Path] = []
    failure: list[
        BaseException
    ] = []  # why a source could not be read; some polars versions wrap it in an error of theirs
    try:
        (destination if into_folder else destination.parent).mkdir(parents=True, exist_ok=True)
        done = 0
        for job in jobs:
            temporary.append(job.target.with_name(f".{job.target.name}.{os.getpid()}.partial"))
            write(_lazy(job.reader, _shifted(on_progress, done, total), failure), temporary[-1])
            _to_disk(temporary[-1])
            done += job.size
        reports = tuple(job.reader.report() for job in jobs)
        for job, written in zip(jobs, temporary, strict=True):
            written.replace(job.target)
    except (OSError, pl.exceptions.PolarsError) as error:
        if failure:
            raise failure[0] from None
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error).splitlines()[0]
        kept = "; the previous content is unchanged" if destination.exists() else ""
        raise Permanent(f"{destination}: cannot be written: {reason}{kept}") from error
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)
    return ImportReport(format_name, reports, skipped)


def _target(source: Path, destination: Path, into_folder: bool) -> Path:
    """The file to write, with symbolic links resolved. Raises `InvalidInput` if it is not a replaceable file."""
    return replaceable(destination / f"{stem(source)}.parquet" if into_folder else destination)


def stem(path: Path) -> str:
    """The file's name without `.csv`, `.csv.gz`, `.tsv`, `.txt`, `.parquet`."""
    return _SUFFIXES.sub("", path.name)


def identify_table(format_: TraceFormat, path: Path) -> TraceTable:
    """The table a file holds, by its name; a format with one table needs no match. Raises `InvalidInput` if no
    table matches.
    """
    if len(format_.tables) == 1:
        return format_.tables[0]
    found = _named(format_, path)
    if found is None:
        known = ", ".join(table.file_pattern.replace(".*", "*") for table in format_.tables)
        raise InvalidInput(
            str(path), path.name, f"a file named like one of {format_.name}'s tables: {known}", "rename it"
        )
    return found


def _named(format_: TraceFormat, path: Path) -> TraceTable | None:
    name = stem(path)
    return next((table for table in format_.tables if re.fullmatch(table.file_pattern, name)), None)


def _readers(format_name: str, source: Path) -> tuple[list[TableReader], tuple[Path, ...]]:
    if format_name == GENERIC:
        return [mapped_reader(source)], ()
    format_ = find_format(format_name)
    if not source.is_dir():
        if not source.is_file():
            raise InvalidInput(str(source), "no such file", f"a file or folder of {format_name}")
        return [TableReader(identify_table(format_, source), source)], ()
    files = sorted(path for path in source.iterdir() if path.is_file() and not path.name.startswith("."))
    tables = [(path, _named(format_, path) if _TABLE_SUFFIXES.search(path.name) else None) for path in files]
    readers = [TableReader(table, path) for path, table in tables if table is not None]
    if not readers:
        known = ", ".join(table.file_pattern.replace(".*", "*") for table in format_.tables)
        raise InvalidInput(str(source), f"{len(files)} files", f"at least one table of {format_name}: {known}")
    return readers, tuple(path for path, table in tables if table is None)


def _lazy(reader: TableReader, on_progress: Progress | None, failure: list[BaseException]) -> pl.LazyFrame:
    def frames(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        # a sink reads every row, so only the order of columns can be given
        assert predicate is None
        assert n_rows is None
        try:
            for frame in reader.frames(on_progress):
                yield frame if with_columns is None else frame.select(with_columns)
        except BaseException as error:
            failure.append(error)
            raise

    return register_io_source(frames, schema=reader.table.polars_schema())


def _shifted(on_progress: Progress | None, done: int, total: int) -> Progress | None:
    if on_progress is None:
        return None
    return partial(_report_sum, on_progress, done, total)


def _report_sum(on_progress: Progress, done: int, total: int, read: int, size: int) -> None:
    on_progress(done + read, total)


def _to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
