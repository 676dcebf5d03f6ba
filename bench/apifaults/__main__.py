"""`python -m bench.apifaults [CASE ...]`: run the cases and print a row of figures for each. Exit status 1 if one
fails.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any

from bench.apifaults import controllers, durability, load
from bench.machine import show

CASES: dict[str, Callable[[Path], Awaitable[dict[str, Any]]]] = {
    "kills": durability.kills,
    "long_list": durability.long_list,
    "full_disk": durability.full_disk,
    "conflicts": load.conflicts,
    "silent_watchers": load.silent_watchers,
    "expired_watches": load.expired_watches,
    "no_files": load.no_files,
    "cycles": controllers.cycles,
    "jumping_clock": controllers.jumping_clock,
}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"{', '.join(CASES)} (default: all)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]!r}; there are {', '.join(CASES)}")
    rows = []
    for name in options.cases or CASES:
        with tempfile.TemporaryDirectory() as folder:
            began = monotonic()
            row = asyncio.run(_call(CASES[name], Path(folder)))
            rows.append({"case": name, **row, "seconds": round(monotonic() - began, 1)})
        if not options.json:
            print(", ".join(f"{key} {_shown(value)}" for key, value in rows[-1].items()), flush=True)
    if options.json:
        show(rows, True)
    return 0 if all(row["ok"] for row in rows) else 1


async def _call(case: Callable[[Path], Awaitable[dict[str, Any]]], folder: Path) -> dict[str, Any]:
    return await case(folder)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
