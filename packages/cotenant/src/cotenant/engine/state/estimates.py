"""Estimated use and remaining slack of each pod shape, corrected by measurement.

A decision is as good as its estimates, and two of them become outdated: how much pods use, and how much delay a job
still tolerates. Pods of one shape are similar, so the first ones that run show what the others will use, and how far to
trust the estimates of shapes that have not run; slack is recomputed from the current time. Then the shapes' rows are
rewritten, and pods on nodes count with the corrected values (`Ledger.revise`).
Limits: pods that are declared alike (equal requests, tenant, constraints, estimate) share one correction; a service's
estimate is of its daily peak, which only a full day can measure, so it is raised by measurement and never lowered; the
progress of a running pod is not visible, only for how long pods of its shape have run.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from math import isnan
from typing import NamedTuple

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.learned_profiles import LearnedProfiles
from cotenant.engine.state.ledger import Ledger
from cotenant.model.arrays import CPU, MEMORY, Float, Int, Param
from cotenant.model.cluster.pod import Pod, Shape
from cotenant.policy.overcommit.prediction import UNCALIBRATED, Calibration, calibrate, predict, shrink
from cotenant.policy.placement.contribution import contribution
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.order import allowance

_MIN_LEFT = (
    0.15  # of a stage's estimated duration: estimates are inexact, so a stage is never assumed to be nearly done
)


_USES = (  # resource, its estimate, units of the request in one of the estimate, what is requested of lent resources
    (CPU, Param.USE_CPU, 1000.0, Param.LENT_CPU),
    (MEMORY, Param.USE_MEMORY, 1.0, Param.LENT_MEMORY),
)


class Learned(NamedTuple):
    """What was measured of one shape: CPU cores and memory bytes in use (0 = never), and when its first pod started
    (NaN = none yet).
    """

    shape: Shape
    measured: Float
    started_s: float


class Estimates:
    """Corrected estimates of one ledger's shapes; K shapes by row. The arrays of the ledger must be up to date
    (`Ledger.adopt`).
    """

    def __init__(self, encoder: Encoder, ledger: Ledger, knobs: Knobs, profiles: LearnedProfiles | None = None) -> None:
        """`profiles`: learned interference, None where the policy does not use it."""
        self.profiles = profiles
        self._encoder = encoder
        self._ledger = ledger
        self._knobs = knobs
        self._known = np.empty(0, dtype=np.bool_)  # [K] whether the row's declared values were read
        self._declared = np.empty((0, 2))  # [K, 2] CPU cores and memory bytes in use, as declared
        self._measured = np.empty((0, 2))  # [K, 2] as measured, 0 = never
        self._batch = np.empty(0, dtype=np.bool_)
        self._deadline_s = np.empty(0)
        self._path_s = np.empty(0)  # from the start of a pod of the shape to the end of its job
        self._started_s = np.empty(0)  # of the first pod of the shape, NaN = none yet
        self._calibrations: list[Calibration] = [UNCALIBRATED, UNCALIBRATED]  # of batch: CPU, memory
        self._unpredicted = np.empty(0, dtype=np.bool_)  # [K] batch whose use is still as declared
        self._new: dict[int, Pod] = {}  # rows whose declared values are still to be read -> the latest pod
        self._settled: set[int] = set()  # rows that `correct_waiting` would not change: corrected, without a deadline

    def arrived(self, k: int, pod: Pod) -> None:
        """A pod of shape `k` was added, pending or found on a node."""
        self._new[k] = pod

    def forget(self, rows: Iterable[int]) -> None:
        """Drop these rows; they will be reused for other shapes."""
        rows = tuple(rows)
        if self.profiles is not None:
            self.profiles.forget(rows)
        for k in rows:
            self._new.pop(k, None)
            self._settled.discard(k)
            if k < len(self._known):
                self._known[k] = False

    def started(self, k: int, now_s: float) -> None:
        """A pod of this shape was placed."""
        if self._new:
            self._read_new()
        if isnan(self._started_s[k]):
            self._started_s[k] = now_s

    def measured(self, pods: Int, cpu_cores: Float, memory_bytes: Float) -> None:
        """One round of measurements of pods on nodes, by number."""
        self._read_new()
        size = len(self._declared)
        shape = self._ledger.shape[pods]
        count = np.bincount(shape, minlength=size)
        now = count > 0
        for column, values in enumerate((cpu_cores, memory_bytes)):
            mean = np.bincount(shape, weights=values, minlength=size) / np.maximum(1, count)
            # memory grows over a pod's life, and a service's day has one peak: keep the highest
            highest = np.maximum(self._measured[:, column], mean)
            keep = highest if column == 1 else np.where(self._batch, mean, highest)
            self._measured[now, column] = keep[now]

    def outgrew(self, shape: int, memory_bytes: float) -> None:
        """A pod that was evicted for memory used this much: from now on its shape is assumed to use at least as
        much.
        """
        self._read_new()
        self._measured[shape, 1] = max(self._measured[shape, 1], memory_bytes)
        params = self._ledger.shapes.params
        params[shape, Param.USE_MEMORY] = max(params[shape, Param.USE_MEMORY], self._measured[shape, 1])
        self.rewrite(np.array([shape]))

    def correct_use(self) -> None:
        """Write predicted use into all shapes: measured values where there are some, else requests or declared
        values as far as declared values have been right.
        """
        self._read_new()
        self._settled.clear()
        shapes = self._ledger.shapes
        batch, service = self._known & self._batch, self._known & ~self._batch
        for column, (resource, param, scale, lent) in enumerate(_USES):
            request = shapes.request[:, resource] / scale + shapes.params[:, lent]
            declared, measured = self._declared[:, column], self._measured[:, column]
            known = batch & (measured > 0)
            self._calibrations[column] = calibrate(request[known], declared[known], measured[known])
            use = predict(request[batch], declared[batch], self._calibrations[column], self._knobs.caution)
            shapes.params[batch, param] = np.where(known[batch], measured[batch], use)
            seen = service & (measured > 0)
            peak = shrink(request[service], declared[service], calibrate(request[seen], declared[seen], measured[seen]))
            shapes.params[service, param] = np.maximum(peak, measured[service])
        self._unpredicted[:] = False

    @property
    def trust(self) -> float:
        """How far declared use of batch is believed, 0..1: the smaller weight of CPU and memory, 0 before the first
        shape is measured.
        """
        return min(calibration.trust if calibration.shapes else 0.0 for calibration in self._calibrations)

    def _predict_new(self, shapes: Int) -> None:
        """Write predicted use into those of these shapes that arrived since the last correction."""
        rows = shapes[self._unpredicted[shapes]]
        if not len(rows):
            return
        table = self._ledger.shapes
        for column, (resource, param, scale, lent) in enumerate(_USES):
            request = table.request[rows, resource] / scale + table.params[rows, lent]
            declared = self._declared[rows, column]
            measured = self._measured[
                rows, column
            ]  # of an equal shape before arrays were rebuilt, or of a pod that outgrew its memory
            use = predict(request, declared, self._calibrations[column], self._knobs.caution)
            table.params[rows, param] = np.where(measured > 0, measured, use)
        self._unpredicted[rows] = False

    def correct_waiting(self, waiting: Set[int], now_s: float, slack: bool, use: bool) -> Int:
        """Update pending shapes before they are evaluated: `use` predicts that of new ones, `slack` from the whole
        path. Returns the shapes that changed.
        """
        self._read_new()
        due = sorted(waiting - self._settled)
        shapes = np.array(due, dtype=np.int64)
        if not due:
            return shapes
        table = self._ledger.shapes
        before_sums, before = table.sums[shapes].copy(), table.params[shapes].copy()
        if use:
            self._predict_new(shapes)
        if slack:
            batch = self.batch_of(shapes)
            left = allowance(self._deadline_s[batch], self._path_s[batch], now_s)
            table.params[batch, Param.ALLOWANCE] = left
        self.correct_profiles(shapes)
        self.rewrite(shapes)
        if self.profiles is None:  # a learned profile changes with every window
            self._settled.update(shapes[np.isinf(self._deadline_s[shapes])].tolist())
        changed = (table.sums[shapes] != before_sums).any(axis=1) | (table.params[shapes] != before).any(axis=1)
        return shapes[changed]

    def correct_profiles(self, shapes: Int) -> None:
        """Write the learned profiles of these shapes, where the policy uses them."""
        if self.profiles is not None:
            self.profiles.write(shapes)

    def correct_slack(self, shapes: Int, now_s: float) -> None:
        """Write the remaining allowance of these running batch shapes."""
        self._read_new()
        run = np.nan_to_num(now_s - self._started_s[shapes])
        duration = self._ledger.shapes.params[shapes, Param.DURATION]
        path = self._path_s[shapes] - np.minimum(run, (1.0 - _MIN_LEFT) * duration)
        self._ledger.shapes.params[shapes, Param.ALLOWANCE] = allowance(self._deadline_s[shapes], path, now_s)

    def assigned_shapes(self) -> Int:
        """Shapes that have pods on nodes."""
        return np.unique(self._ledger.shape[self._ledger.row >= 0])

    def batch_of(self, shapes: Int) -> Int:
        """The batch shapes among these."""
        self._read_new()
        return shapes[self._batch[shapes]]

    def rewrite(self, shapes: Int) -> None:
        """Compute what a pod of these shapes adds to its node's sums from the shapes' requests and estimates."""
        table = self._ledger.shapes
        table.sums[shapes] = contribution(
            table.request[shapes], table.params[shapes], self._encoder.half_node_cores, self._knobs.pressure_factor
        )

    def learned(self) -> tuple[Learned, ...]:
        """The measurements of every shape, for other arrays."""
        rows = np.flatnonzero(self._known).tolist()
        return tuple(Learned(self._encoder.shape(k), self._measured[k].copy(), float(self._started_s[k])) for k in rows)

    def adopt(self, learned: Iterable[Learned]) -> None:
        """Take over measurements of equal shapes, after the arrays were rebuilt."""
        self._read_new()
        for entry in learned:
            row = self._encoder.shape_row(entry.shape)
            if row >= 0 and row < len(self._known) and self._known[row]:
                self._measured[row] = entry.measured
                self._started_s[row] = entry.started_s

    def _read_new(self) -> None:
        """Read the declared values of new shapes; their rows of `params` are as the encoder wrote them."""
        if not self._new:
            return
        params = self._ledger.shapes.params
        more = len(params) - len(self._declared)
        if more > 0:
            self._known = np.concatenate([self._known, np.zeros(more, dtype=np.bool_)])
            self._declared = np.concatenate([self._declared, np.zeros((more, 2))])
            self._measured = np.concatenate([self._measured, np.zeros((more, 2))])
            self._batch = np.concatenate([self._batch, np.zeros(more, dtype=np.bool_)])
            self._deadline_s = np.concatenate([self._deadline_s, np.full(more, np.inf)])
            self._path_s = np.concatenate([self._path_s, np.zeros(more)])
            self._started_s = np.concatenate([self._started_s, np.full(more, np.nan)])
            self._unpredicted = np.concatenate([self._unpredicted, np.zeros(more, dtype=np.bool_)])
        for k, pod in self._new.items():
            if not self._known[k]:
                self._known[k] = True
                self._declared[k] = params[k, [Param.USE_CPU, Param.USE_MEMORY]]
                self._measured[k] = 0.0
                self._batch[k] = params[k, Param.IS_SERVICE] == 0
                self._started_s[k] = np.nan
                self._unpredicted[k] = self._batch[k]
            path_s = pod.path_s if pod.job is not None or pod.estimate is not None else 0.0
            if (self._deadline_s[k], self._path_s[k]) != (pod.deadline_s, path_s):
                self._deadline_s[k], self._path_s[k] = pod.deadline_s, path_s
                self._settled.discard(k)
        self._new.clear()
