"""Use by the hour in a folder: one file a day (UTC), written beside its place and renamed, the oldest removed.

A file that cannot be read is left where it is and named; the days around it count. An hour that is stored twice counts
as it was stored last.
Limits: one writer a folder; each hour writes its day's file again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.prediction.hour import MAX_HOURS, HourOfUse

if TYPE_CHECKING:
    import polars

_COLUMNS = ("hour", "series", "kind", "peak", "last")
_DAY_H = 24


class UseHistoryFile:
    """Of one process."""

    def __init__(self, folder: Path, max_hours: int = MAX_HOURS) -> None:
        """Makes the folder. Raises `InvalidInput` where that is impossible, and `Unsupported` without polars."""
        self._polars = _load()
        self._folder, self._max_hours = folder, max_hours
        self.unreadable: dict[str, str] = {}  # file -> why
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput("--history-dir", str(folder), "a folder that can be written", str(error)) from error

    def hours(self, now_hour: int) -> Iterator[HourOfUse]:
        """What is stored of the hours that are kept, oldest first."""
        for path in sorted(self._folder.glob("use-*.parquet")):
            table = self._read(path)
            if table is None:
                continue
            for (hour,), rows in table.group_by("hour", maintain_order=True):
                if now_hour - self._max_hours <= int(str(hour)) < now_hour:
                    yield HourOfUse(
                        int(str(hour)),
                        tuple(rows["series"].to_list()),
                        tuple(rows["kind"].to_list()),
                        rows["peak"].to_numpy().astype(float),
                        rows["last"].to_numpy().astype(float),
                    )

    def store(self, found: HourOfUse) -> None:
        """Add an hour to its day's file, and remove files that are too old. Raises `OSError`."""
        polars, path = self._polars, self._path(found.hour)
        count = len(found.series)
        new = polars.DataFrame(
            {
                "hour": polars.Series([found.hour] * count, dtype=polars.Int32),
                "series": polars.Series(found.series, dtype=polars.String),
                "kind": polars.Series(found.kinds, dtype=polars.String),
                "peak": polars.Series(found.peak, dtype=polars.Float32),
                "last": polars.Series(found.last, dtype=polars.Float32),
            }
        )
        before = self._read(path) if path.exists() else None
        if before is not None:
            new = polars.concat([before.filter(polars.col("hour") != found.hour), new]).sort(
                "hour", maintain_order=True
            )
        beside = path.with_suffix(".new")
        new.write_parquet(beside)
        beside.replace(path)
        oldest = self._path(found.hour - self._max_hours - _DAY_H).name
        for old in self._folder.glob("use-*.parquet"):
            if old.name < oldest:
                old.unlink(missing_ok=True)

    def _path(self, hour: int) -> Path:
        day = datetime.fromtimestamp(hour * 3600, UTC).date().isoformat()
        return self._folder / f"use-{day}.parquet"

    def _read(self, path: Path) -> polars.DataFrame | None:
        try:
            table = self._polars.read_parquet(path)
            if tuple(table.columns) != _COLUMNS:
                raise InvalidInput(path.name, table.columns, f"columns {', '.join(_COLUMNS)}")
        except (OSError, InvalidInput, self._polars.exceptions.PolarsError) as error:
            self.unreadable[path.name] = str(error)
            return None
        self.unreadable.pop(path.name, None)
        return table


def _load() -> Any:  # the module: imported only where a folder was given
    try:
        return import_module("polars")
    except ImportError as error:
        raise Unsupported("a history of use", "polars: pip install 'cotenant[history]'") from error
