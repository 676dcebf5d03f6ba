"""The arrays of one run that the lab stored, read by the contract of model/results."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cotenant.model.errors import Permanent
from cotenant.model.results.forms import MachineFrames, RunSeries, Words, frames_in, series_in

_UNREADABLE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile)  # msgspec's errors are ValueErrors
_PARSING = threading.Lock()


class _Run(msgspec.Struct):
    series: list[Words]


def load_series(path: Path) -> tuple[RunSeries, ...]:
    """The curves of a run, by its JSON file. Raises `Permanent` where its files are gone or damaged."""
    try:
        words = msgspec.json.decode(path.read_bytes(), type=_Run).series
        return series_in(words, _arrays(path))
    except _UNREADABLE as error:
        raise Permanent(f"cannot read the run {path.name}: {error}") from error


def load_frames(path: Path) -> MachineFrames | None:
    """The machines of a run over time, by its JSON file; None where it has none. Raises as `load_series`."""
    try:
        return frames_in(_arrays(path))
    except _UNREADABLE as error:
        raise Permanent(f"cannot read the run {path.name}: {error}") from error


def _arrays(path: Path) -> Mapping[str, NDArray[Any]]:
    # NumPy parses an array's head as Python, and in CPython 3.11.7 parsers of two threads were seen to fail over one
    # another ("AST constructor recursion depth mismatch").
    with _PARSING, np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
        return dict(arrays)
