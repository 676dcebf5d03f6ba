"""Which functions of the product are called in a stretch of time, by file and by room.

A room is a folder below `packages/cotenant/src/cotenant`. A step is a call of a function of ours; a change of room is a
step into another room than the step before, so a call and its return count once. Functions that a library calls count
as well. Compiled kernels are not seen, nor are functions without a file (what `dataclass` generates).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import PurePath
from types import FrameType

import cotenant

PACKAGE = str(PurePath(cotenant.__file__).parent) + "/"


@dataclass(slots=True)
class Walk:
    """The files in which functions were called, in order and repeated, relative to the package."""

    steps: list[str] = field(default_factory=list)

    @property
    def files(self) -> list[str]:
        """Each file once, in order of the first call."""
        return list(dict.fromkeys(self.steps))

    @property
    def rooms(self) -> list[str]:
        """Each room once, in order of the first call."""
        return list(dict.fromkeys(map(room_of, self.steps)))

    @property
    def changes(self) -> int:
        """How often a step is in another room than the one before."""
        return sum(one != after for one, after in pairwise(map(room_of, self.steps)))

    def path(self) -> list[tuple[str, int]]:
        """The files in order, with the number of calls in a row in each."""
        return [(file, sum(1 for _ in calls)) for file, calls in groupby(self.steps)]


def room_of(file: str) -> str:
    """The folder of a file."""
    return str(PurePath(file).parent)


@contextmanager
def recording(into: Walk) -> Iterator[None]:
    """Record the calls of this thread. Raises `RuntimeError` where another profiler is on."""
    steps, start, skip = into.steps, PACKAGE, len(PACKAGE)
    if sys.getprofile() is not None:
        raise RuntimeError("a profiler is on already")

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (name := frame.f_code.co_filename).startswith(start):
            steps.append(name[skip:])

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
