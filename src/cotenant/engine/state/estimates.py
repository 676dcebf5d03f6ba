"""What is believed of each shape, corrected as it shows itself.

Problem: a judgement is as good as its estimates, and two of them go stale: how much pods use, and how much delay a job still bears.
Choice: pods of a shape are alike, so the first that run tell what the others will use, and how far to trust the estimates of shapes not yet
seen; once a minute slack is taken anew from the clock. Then the shapes' rows are rewritten and residents weigh what they are now known to
weigh. Limits: a service's estimate is of its daily peak, which only a day can measure, so it is raised by what was seen and never
lowered; how far a running pod has come is not visible, only for how long its stage has run.
"""

from __future__ import annotations

import numpy as np

from cotenant.engine.state.ledger import Ledger
from cotenant.model.arrays import CPU, MEMORY, Float, Int, Param, PendingArrays
from cotenant.policy.overcommit.prediction import calibrate, predict
from cotenant.policy.placement.contribution import contribution
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.order import allowance

_LEAST_LEFT = 0.15  # of a stage's estimated duration: estimates miss, so a stage is never believed to be nearly done


class Estimates:
    """Corrected estimates of one ledger's shapes."""

    def __init__(self, ledger: Ledger, knobs: Knobs) -> None:
        self._ledger = ledger
        self._knobs = knobs
        self._half = float(np.median(ledger.nodes.capacity[:, CPU])) / 2000.0
        self._told = np.empty((0, 2))  # [K, 2] CPU cores and memory bytes in use, as estimated
        self._seen = np.empty((0, 2))  # [K, 2] as measured, 0 = never
        self._batch = np.empty(0, dtype=np.bool_)
        self._deadline_s = np.empty(0)
        self._path_s = np.empty(0)  # from the shape's start to its job's end
        self._started_s = np.empty(0)
        self._grow()

    def submitted(self, pods: PendingArrays) -> None:
        """New pods wait: note by when their job must end and how long it takes from here."""
        self._grow()
        self._deadline_s[pods.shape] = pods.deadline_s
        self._path_s[pods.shape] = pods.path_s

    def placed(self, shapes: Int, now_s: float) -> None:
        """Pods of these shapes start."""
        first = np.isnan(self._started_s[shapes])
        self._started_s[shapes[first]] = now_s

    def measured(self, pods: Int, cpu_cores: Float, memory_bytes: Float) -> None:
        """One round of measurements of running pods."""
        size = len(self._told)
        shape = self._ledger.shape[pods]
        count = np.bincount(shape, minlength=size)
        now = count > 0
        for column, values in enumerate((cpu_cores, memory_bytes)):
            mean = np.bincount(shape, weights=values, minlength=size) / np.maximum(1, count)
            # memory grows over a pod's life, and a service's day has one peak: keep the most that was seen
            highest = np.maximum(self._seen[:, column], mean)
            keep = highest if column == 1 else np.where(self._batch, mean, highest)
            self._seen[now, column] = keep[now]

    def outgrew(self, pods: Int, memory_bytes: Float) -> None:
        """Pods evicted for memory used this much: their shape is believed to use at least as much, from now on."""
        shape = self._ledger.shape[pods]
        np.maximum.at(self._seen[:, 1], shape, memory_bytes)
        params = self._ledger.shapes.params
        params[shape, Param.USE_MEMORY] = np.maximum(params[shape, Param.USE_MEMORY], self._seen[shape, 1])
        self._rewrite(np.unique(shape))

    def correct_use(self) -> None:
        """Write predicted use into all shapes: measured where it was, else by how good estimates have proved."""
        shapes = self._ledger.shapes
        for column, (resource, param, scale) in enumerate(
            ((CPU, Param.USE_CPU, 1000.0), (MEMORY, Param.USE_MEMORY, 1.0))
        ):
            request = shapes.request[:, resource] / scale
            told, seen = self._told[:, column], self._seen[:, column]
            measured = self._batch & (seen > 0)
            calibration = calibrate(request[measured], told[measured], seen[measured])
            use = np.where(measured, seen, predict(request, told, calibration, self._knobs.caution))
            shapes.params[:, param] = np.where(self._batch, use, np.maximum(told, seen))

    def waiting(self, shapes: Int, now_s: float, slack: bool) -> None:
        """Bring shapes that wait up to date before they are judged; they have their whole path before them."""
        if slack:
            batch = self.batch_of(shapes)
            left = allowance(self._deadline_s[batch], self._path_s[batch], now_s)
            self._ledger.shapes.params[batch, Param.ALLOWANCE] = left
        self._rewrite(shapes)

    def correct_slack(self, shapes: Int, now_s: float) -> None:
        """Write what these running batch shapes still bear."""
        run = np.nan_to_num(now_s - self._started_s[shapes])
        duration = self._ledger.shapes.params[shapes, Param.DURATION]
        path = self._path_s[shapes] - np.minimum(run, (1.0 - _LEAST_LEFT) * duration)
        self._ledger.shapes.params[shapes, Param.ALLOWANCE] = allowance(self._deadline_s[shapes], path, now_s)

    def seated(self) -> Int:
        """Shapes that have pods on nodes."""
        return np.unique(self._ledger.shape[self._ledger.row >= 0])

    def batch_of(self, shapes: Int) -> Int:
        """Those of the shapes that are batch."""
        return shapes[self._batch[shapes]]

    def revise(self, shapes: Int) -> None:
        """Residents of these shapes weigh what their shapes weigh now."""
        self._rewrite(shapes)
        self._ledger.revise()

    def _grow(self) -> None:
        """The cluster met new shapes."""
        params = self._ledger.shapes.params
        old, more = len(self._told), len(params) - len(self._told)
        if more > 0:
            self._told = np.concatenate([self._told, params[old:, [Param.USE_CPU, Param.USE_MEMORY]]])
            self._seen = np.concatenate([self._seen, np.zeros((more, 2))])
            self._batch = np.concatenate([self._batch, params[old:, Param.IS_SERVICE] == 0])
            self._deadline_s = np.concatenate([self._deadline_s, np.full(more, np.inf)])
            self._path_s = np.concatenate([self._path_s, np.zeros(more)])
            self._started_s = np.concatenate([self._started_s, np.full(more, np.nan)])

    def _rewrite(self, shapes: Int) -> None:
        table = self._ledger.shapes
        table.sums[shapes] = contribution(
            table.request[shapes], table.params[shapes], self._half, self._knobs.pressure_factor
        )
