"""The command: record anew, or show one case."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path

from tests.snapshot.room import Room, short, shown

ROOT = Path(__file__).parents[2]
MAX_ALL_BYTES = 1_000_000


def rooms() -> Iterator[Room]:
    """The `ROOM` of each test_snapshots.py."""
    for path in sorted(ROOT.glob("packages/*/tests/unit/**/test_snapshots.py")):
        spec = importlib.util.spec_from_file_location(f"rooms_{path.parent.name}", path)
        assert spec is not None
        assert spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        yield found.ROOM


def modules(word: str) -> Iterator[tuple[Room, types.ModuleType]]:
    """Those whose names have the word."""
    for room in rooms():
        yield from ((room, module) for module in room.modules if word in short(module))


def main() -> int:
    """Status 1 where nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.snapshot", description=__doc__)
    parser.add_argument("--write", nargs="*", metavar="WORD", help="of these snapshots; without a word, of all")
    parser.add_argument("--anew", action="store_true", help="choose other cases, too")
    parser.add_argument("--show", nargs=2, metavar=("WORD", "CASE"), help="of each subject of these modules")
    options = parser.parse_args()
    found = 0
    if options.show:
        for room, module in modules(options.show[0]):
            for subject in room.subjects(module).values():
                found += 1
                print(shown(subject, int(options.show[1])))
    if options.write is not None:
        for word in options.write or [""]:
            for room, module in modules(word):
                found += 1
                print(f"{room.write(module, options.anew):7} bytes  {short(module)}", flush=True)
        total = sum(path.stat().st_size for path in ROOT.glob("packages/*/tests/unit/**/snapshots/*.txt"))
        print(f"{total:7} bytes in all, at most {MAX_ALL_BYTES}")
        if total > MAX_ALL_BYTES:
            return 1
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
