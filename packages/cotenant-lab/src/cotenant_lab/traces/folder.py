"""A trace's table in a folder in any supported form: CSV, compressed CSV, or the Parquet file written by an import."""

from __future__ import annotations

from pathlib import Path

ENDINGS = (".csv", ".csv.gz", ".parquet")
IN_WORDS = "{}, {} or {}".format(*ENDINGS)


def table_file(folder: Path, name: str) -> Path | None:
    """The file of the table called `name`, the first by `ENDINGS` if there are several; None if there is none."""
    return next((path for ending in ENDINGS if (path := folder / f"{name}{ending}").is_file()), None)


def table_names(folder: Path, prefix: str) -> list[str]:
    """The rest of each table name in the folder that begins with `prefix`, sorted."""
    found = {
        path.name[len(prefix) : -len(ending)]
        for ending in ENDINGS
        for path in folder.glob(f"{prefix}*{ending}")
        if path.is_file()
    }
    return sorted(found)
