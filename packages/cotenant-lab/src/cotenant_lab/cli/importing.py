"""`cotenant lab import`: converts a trace to Parquet, and reports its bad rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from cotenant.cli import tables
from cotenant_lab.cli.naming import COMPARE, as_typed


def import_trace(name: str, source: Path, destination: Path, json: bool) -> int:
    """Convert `source`, and print the rows read, kept, dropped and noted, by file, fault and line."""
    from cotenant_lab import traces  # loads polars

    with as_typed(COMPARE), _bytes_read(json) as on_progress:
        report = traces.import_trace(name, source, destination, on_progress)
    if json:
        from cotenant_lab.storage import encode_object

        imported = asdict(report) | {"destination": str(destination)}
        print(encode_object(_without_paths(imported)))
        return 0
    for sentence in report.sentences():
        tables.print_line(sentence)
    tables.print_line(f"written to {destination}")
    return 0


def _without_paths(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_paths(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_paths(entry) for entry in value]
    return str(value) if isinstance(value, Path) else value


@contextmanager
def _bytes_read(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
