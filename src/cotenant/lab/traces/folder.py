"""A trace's table in a folder, whatever form it has there: CSV, compressed CSV, or the Parquet that an import makes of it."""

from __future__ import annotations

from pathlib import Path

ENDINGS = (".csv", ".csv.gz", ".parquet")
IN_WORDS = "{}, {} or {}".format(*ENDINGS)


def table_file(folder: Path, name: str) -> Path | None:
    """The file of the table called `name`, the first by `ENDINGS` where there are several; None where there is none."""
    return next((path for ending in ENDINGS if (path := folder / f"{name}{ending}").is_file()), None)


def table_names(folder: Path, prefix: str) -> list[str]:
    """What follows `prefix` in the names of the folder's tables, in order."""
    found = {
        path.name[len(prefix) : -len(ending)]
        for ending in ENDINGS
        for path in folder.glob(f"{prefix}*{ending}")
        if path.is_file()
    }
    return sorted(found)
