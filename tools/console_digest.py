"""A digest of the sources of the console's page and of the script of static pages, which `make console` writes beside
what it built.

What is built is committed, and what was not rebuilt after a change of its sources must not be released. The digest of
every file that the build reads, by name and content; a test compares it, without node.
Limits: versions of the tools are those of the lock file, which is one of the files.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "console"
BUILT = (
    ROOT / "packages/cotenant/src/cotenant/services/console/page",
    ROOT / "packages/cotenant/src/cotenant/model/pages/built",
)
STAMPS = tuple(folder / "sources.sha256" for folder in BUILT)


def digest() -> str:
    """Of all sources, in order of their paths."""
    found = hashlib.sha256()
    files = [path for folder in ("src", "public") for path in (SOURCES / folder).rglob("*") if path.is_file()]
    files += [path for path in SOURCES.iterdir() if path.is_file() and not path.name.startswith(".")]
    for path in sorted(files):
        found.update(path.relative_to(SOURCES).as_posix().encode() + b"\0")
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


if __name__ == "__main__":
    for stamp in STAMPS:
        stamp.write_text(digest() + "\n")
