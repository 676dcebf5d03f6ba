"""The files of an experiment, and the curves and machines of one run in its archive of arrays.

A folder has `RESULTS_JSON`, with the definitions of its figures under `METRICS`, and for each run in `RUNS` a JSON file
that names its curves, and beside it an NPZ file with the arrays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Cells: TypeAlias = NDArray[np.uint8]

RUNS = "runs"
RESULTS_JSON = "results.json"
METRICS = "metrics"  # of RESULTS_JSON: a `MetricView` each
Words = tuple[str, str, str]  # of a curve, in a run's JSON file: name, label of x, label of y


def run_name(policy: str, load: float, seed: int) -> str:
    """How the names of a run's files begin; a digest and the suffix follow."""
    return f"{re.sub(r'[^A-Za-z0-9._+-]', '_', policy)}-{load:.4g}-s{seed}-"


@dataclass(frozen=True, slots=True)
class RunSeries:
    """A curve over time or load within one run, equal lengths."""

    name: str  # e.g. "fragmentation", "allocated"
    x_label: str  # with the unit, e.g. "time (h)"
    y_label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]


class FrameCell(IntEnum):
    """The columns of a machine in a frame. Amounts are whole percent of the machine's CPU, at most 255."""

    SERVICE_ASKED = 0  # allocated to services
    BATCH_ASKED = 1
    SERVICE_USED = 2
    BATCH_USED = 3
    MISSED = 4  # replicas that missed their objective in the window that ends here, at most 255
    DOWN = 5  # 1 = the machine was down; its other columns are 0


@dataclass(frozen=True, slots=True)
class MachineFrames:
    """The machines at regular times of a run: F frames of M machines. `violated` and `used_cpu` are of all
    `machines`, of which M are shown.
    """

    time_s: NDArray[np.float64]  # [F] simulated
    machine: NDArray[np.int64]  # [M] rows
    cells: Cells  # [F, M, len(FrameCell)]
    machines: int  # of the cluster
    violated: NDArray[np.int64]  # [F] machines with a replica that missed its objective
    used_cpu: NDArray[np.float64]  # [F] fraction of the cluster's CPU


def words_of(series: Sequence[RunSeries]) -> list[Words]:
    """Of the curves, for the JSON file."""
    return [(entry.name, entry.x_label, entry.y_label) for entry in series]


def arrays_of(series: Sequence[RunSeries], frames: MachineFrames | None) -> dict[str, NDArray[np.generic]]:
    """Their arrays by name in the NPZ file."""
    arrays: dict[str, NDArray[Any]] = {}
    for i, entry in enumerate(series):
        arrays[f"x{i}"], arrays[f"y{i}"] = entry.x, entry.y
    if frames is not None:
        arrays |= {"frame_time_s": frames.time_s, "frame_machine": frames.machine, "frame_cells": frames.cells}
        arrays |= {"frame_machines": np.array(frames.machines), "frame_violated": frames.violated}
        arrays |= {"frame_used_cpu": frames.used_cpu}
    return arrays


def series_in(words: Sequence[Words], arrays: Mapping[str, NDArray[Any]]) -> tuple[RunSeries, ...]:
    """The curves of a run. Raises KeyError where an array is missing."""
    return tuple(RunSeries(*word, arrays[f"x{i}"], arrays[f"y{i}"]) for i, word in enumerate(words))


def frames_in(arrays: Mapping[str, NDArray[Any]]) -> MachineFrames | None:
    """The machines of a run over time; None where it has none. Raises KeyError where some arrays are missing."""
    if "frame_cells" not in arrays:  # stored by an older version, or a scenario without machines over time
        return None
    return MachineFrames(
        arrays["frame_time_s"],
        arrays["frame_machine"],
        arrays["frame_cells"],
        int(arrays["frame_machines"]),
        arrays["frame_violated"],
        arrays["frame_used_cpu"],
    )
