"""The kinds of best-effort work: each presses another part of the machine.

Work that only computes is the mildest neighbour; a policy has to hold against those that fill the caches, start
processes or write to disk too. stress-ng's stressors of one resource each, one process a pod.
Limits: what a disk's interrupts cost the core is charged to whoever runs.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of hog and its stress-ng options."""

    name: str
    options: tuple[str, ...]
    writes: bool = False  # needs a folder

    def command(self, folder: Path) -> list[str]:
        """The command of one hog; `folder` exists where it `writes`."""
        where = ("--temp-path", str(folder)) if self.writes else ()
        return ["stress-ng", *self.options, *where, "--quiet"]


KINDS = {
    kind.name: kind
    for kind in (
        Kind("spin", ("--cpu", "1", "--cpu-method", "matrixprod")),
        Kind("memory", ("--stream", "1")),
        Kind("fork", ("--fork", "1")),
        Kind("disk", ("--hdd", "1", "--hdd-bytes", "32M", "--hdd-write-size", "64K"), writes=True),
    )
}


def chosen(names: str) -> tuple[Kind, ...]:
    """The kinds of a comma-separated list. Raises `InvalidInput`."""
    found = []
    for name in names.split(","):
        if name not in KINDS:
            raise InvalidInput("--hogs", name, "a list of " + ", ".join(KINDS))
        found.append(KINDS[name])
    return tuple(found)


def new_folder(folder: Path) -> Path:
    """An empty folder: a killed hog leaves its files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def spread(kinds: Sequence[Kind], number: int) -> Kind:
    """The kind of a round: they take turns."""
    return kinds[number % len(kinds)]
