"""The log of a zone as a file: what happened to it, a line an event.

`cotenant zone logs` must answer without the zone's process, also after its end, and a zone that flaps must not fill a
disk. JSON lines of time and text beside the zone's state; at `MAX_BYTES` the file becomes the older one, and the one
before it is removed.
Limits: the folder is on a file system that is lost at a reboot.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject

MAX_BYTES = 1 << 20
_LONGEST = 4000  # characters of a line


class ZoneLog:
    """Appends to the log of one zone. A folder that cannot be written loses lines and stops nothing."""

    def __init__(self, folder: Path, zone: str, wall: Callable[[], float] = time.time) -> None:
        self._path = _path(folder, zone)
        self._wall = wall

    def __call__(self, text: str) -> None:
        """Append a line, with the time."""
        line = json.dumps({"at": round(self._wall(), 3), "text": text[:_LONGEST]}) + "\n"
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                if self._path.stat().st_size + len(line) > MAX_BYTES:
                    self._path.replace(_older(self._path))
            with self._path.open("a") as file:
                file.write(line)


def read_log(folder: Path, zone: str, lines: int) -> list[dict[str, object]]:
    """The last lines, oldest first: `at` (Unix time) and `text`. Raises `InvalidInput` where the zone has no log."""
    path = _path(folder, zone)
    found: list[JsonObject] = []
    if not path.exists():
        known = ", ".join(sorted(element.stem for element in folder.glob("*.log")))
        raise InvalidInput("zone", zone, "a zone of this host", f"zones are {known}" if known else "there are none")
    for element in (_older(path), path):
        with contextlib.suppress(OSError):
            for line in element.read_text(errors="replace").splitlines():
                with contextlib.suppress(ValueError):
                    entry = json.loads(line)
                    if isinstance(entry, dict) and "text" in entry:
                        found.append(entry)
    return found[-lines:] if lines > 0 else []


def _path(folder: Path, zone: str) -> Path:
    if "/" in zone or zone.startswith("."):
        raise InvalidInput("zone", zone, "a zone's name")
    return folder / f"{zone}.log"


def _older(path: Path) -> Path:
    return path.with_suffix(".log.1")
