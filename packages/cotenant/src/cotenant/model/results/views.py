"""How figures, curves and machines are drawn, by the console and in a static report: one form of each answer for both.

A curve has at most `MAX_POINTS` points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.results.forms import FrameCell, MachineFrames, RunSeries

MAX_POINTS = 400  # of a curve


@dataclass(frozen=True, slots=True)
class MetricView:
    """How a figure is shown and read."""

    name: str
    title: str
    short: str
    unit: str
    better: str
    ranks: bool  # a better value is a merit of the policy
    definition: str


@dataclass(frozen=True, slots=True)
class CurveView:
    """One curve of a run; None = no value."""

    name: str
    x_label: str
    y_label: str
    x: list[float | None]
    y: list[float | None]


@dataclass(frozen=True, slots=True)
class MachineFramesView:
    """Machines of a run over time. `cells`: bytes (base64 in JSON) by frame, machine and column; amounts in percent
    of the machine's CPU.
    """

    hours: list[float]
    machine: list[int]  # those that are shown
    machines: int  # of the cluster
    columns: tuple[str, ...]
    cells: bytes
    violated: list[int]  # machines of the cluster with a replica that missed its objective
    used_cpu: list[float]  # fraction of the cluster's CPU


def curve_view(series: RunSeries) -> CurveView:
    """A curve, thinned."""
    step = max(1, -(-len(series.x) // MAX_POINTS))
    x, y = ([float(value) for value in row[::step]] for row in (series.x, series.y))
    return CurveView(series.name, series.x_label, series.y_label, list(x), list(y))  # NaN is null as JSON


def frames_view(frames: MachineFrames) -> MachineFramesView:
    """The machines of a run over time."""
    return MachineFramesView(
        hours=(frames.time_s / 3600.0).tolist(),
        machine=frames.machine.tolist(),
        machines=frames.machines,
        columns=tuple(frame_cell.name.lower() for frame_cell in FrameCell),
        cells=np.ascontiguousarray(frames.cells).tobytes(),
        violated=frames.violated.tolist(),
        used_cpu=frames.used_cpu.tolist(),
    )
