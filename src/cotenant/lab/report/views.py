"""An experiment's figures and runs as the console and the static report show them.

Problem: the console answers questions about runs, and a report carries the answers in its file; both are drawn by the same view. Choice: one form of each answer, made here for both.
Limits: a curve has at most `MOST_POINTS` points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from cotenant.lab.contract import FrameCell, MachineFrames, Series
from cotenant.lab.metrics import Metric

MOST_POINTS = 400  # of a curve


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
    """Machines of a run over time. `cells`: bytes (base64 in JSON) by frame, machine and column; amounts in percent of the machine's CPU."""

    hours: list[float]
    machine: list[int]  # those that are shown
    machines: int  # of the cluster
    columns: tuple[str, ...]
    cells: bytes
    violated: list[int]  # machines of the cluster with a replica that missed its objective
    used_cpu: list[float]  # fraction of the cluster's CPU


class EmbeddedPage(msgspec.Struct, frozen=True):
    """The console's page of an experiment."""

    name: str
    written: float
    metrics: tuple[MetricView, ...]
    results: dict[str, object]  # of results.json: what the view reads


class EmbeddedRuns(msgspec.Struct, frozen=True):
    """What the view inside the file answers from: deflated JSON in base64, the page's and by policy.

    `machines`: the bytes of a view's cells are by column, machine and frame, which packs to half; None = the run records no machines over time.
    """

    page: str
    load: float
    seed: int
    curves: dict[str, str]
    machines: dict[str, str | None]


def metric_views(metrics: Mapping[str, Metric]) -> tuple[MetricView, ...]:
    """The figures of a workload, in their order."""
    return tuple(
        MetricView(each.name, each.title, each.short, each.unit, each.better, each.ranks, each.definition)
        for each in metrics.values()
    )


def curve_view(series: Series) -> CurveView:
    """A curve, thinned."""
    step = max(1, -(-len(series.x) // MOST_POINTS))
    x, y = ([float(value) for value in each[::step]] for each in (series.x, series.y))
    return CurveView(series.name, series.x_label, series.y_label, list(x), list(y))  # NaN is null as JSON


def frames_view(frames: MachineFrames) -> MachineFramesView:
    """The machines of a run over time."""
    return MachineFramesView(
        hours=(frames.time_s / 3600.0).tolist(),
        machine=frames.machine.tolist(),
        machines=frames.machines,
        columns=tuple(each.name.lower() for each in FrameCell),
        cells=np.ascontiguousarray(frames.cells).tobytes(),
        violated=frames.violated.tolist(),
        used_cpu=frames.used_cpu.tolist(),
    )
