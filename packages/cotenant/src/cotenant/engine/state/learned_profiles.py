"""Workload profiles of the applications of one cluster, learned from windows of measurements.

Pods come and go, arrays are rebuilt and rows reused, while what was learned of an application must last for days in
bounded memory. An application is its owner and shape (tenant, requests, class, constraints, declared estimate,
WorkloadProfile); `ProfileStore` keeps one row of the model per application, least recently measured dropped first, and
outlives rebuilds; `LearnedProfiles` maps the shapes of one ledger to those rows, and writes what was learned into the
shapes' parameters.
Limits: pods that are described alike and have no WorkloadProfile share one profile, whatever program they run, as with
estimates; a window counts for the pods that are on the node when it is reported; a restart learns anew, from the
WorkloadProfile where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isfinite
from typing import NamedTuple

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.ledger import Ledger
from cotenant.model.arrays import CPU, Float, Int, Mask, Param
from cotenant.model.cluster.interference_profile import InterferenceProfile
from cotenant.model.cluster.pod import Shape
from cotenant.model.resources import CPU_NAME
from cotenant.policy.interference.learning import model, update
from cotenant.policy.interference.learning.model import LearningColumn, LearningRound, LearningSettings
from cotenant.policy.placement.knobs import Knobs

MAX_APPLICATIONS = 16_384  # 3 MiB
_UNKNOWN = -1
_AS_LEARNED, _AS_DECLARED = 0, 1  # the allowance of a service
_MIN_ALLOWANCE = 0.02


class Prior(NamedTuple):
    """What a WorkloadProfile says before data, as fractions; None = nothing."""

    sensitivity: float | None = None
    pressure: float | None = None
    tolerates: float | None = None  # excess slowdown


_NO_PRIOR = Prior()


class ProfileStore:
    """What was learned, by application. At most `most` applications; the one measured longest ago is dropped for a
    new one.
    """

    def __init__(self, settings: LearningSettings | None = None, most: int = MAX_APPLICATIONS) -> None:
        self.settings = settings or LearningSettings()
        self.table = np.zeros((64, model.COLUMNS))
        self.sibling = np.array([self.settings.sibling, self.settings.sibling_sd**2])
        self.windows = 0  # that were learned from
        self.refused = 0  # windows and uses that were absurd
        self.changes = 0  # of priors
        self._priors: dict[str, Prior] = {}  # by WorkloadProfile
        self._max = most
        self._rows: dict[Shape, int] = {}
        self._shapes: list[Shape] = []  # by row
        self._dropped: list[Shape] = []

    def __len__(self) -> int:
        return len(self._rows)

    def copy(self) -> ProfileStore:
        """An independent store with the same content."""
        made = ProfileStore(self.settings, self._max)
        made.table, made.sibling = self.table.copy(), self.sibling.copy()
        made.windows, made.refused = self.windows, self.refused
        made.changes, made._priors = self.changes, dict(self._priors)
        made._rows, made._shapes = dict(self._rows), list(self._shapes)
        return made

    def row(self, shape: Shape) -> int:
        """The row of an application; -1 if nothing was measured of it."""
        return self._rows.get(shape, _UNKNOWN)

    def enter(self, shape: Shape) -> int:
        """The row of an application that is being measured; a new one starts from its prior."""
        row = self._rows.get(shape)
        if row is not None:
            return row
        row = len(self._shapes)
        if row < self._max:
            self._shapes.append(shape)
            if row == len(self.table):
                self.table = np.concatenate([self.table, np.zeros_like(self.table)])
        else:
            seen_s = self.table[:row, LearningColumn.SEEN_S]
            row = int(np.argmin(np.where(np.isnan(seen_s), np.inf, seen_s)))
            self._dropped.append(self._shapes[row])
            del self._rows[self._shapes[row]]
            self._shapes[row] = shape
        self._rows[shape] = row
        self.begin(self.table, row, shape)
        return row

    def set_prior(self, profile: str, prior: Prior) -> None:
        """What a WorkloadProfile says of its applications. Applications that were measured already keep the prior
        that they started from.
        """
        if prior != self._priors.get(profile, Prior()):
            self.changes += 1
            if prior == Prior():
                del self._priors[profile]
            else:
                self._priors[profile] = prior

    def prior(self, shape: Shape) -> Prior:
        """What the WorkloadProfile of an application says."""
        return self._priors.get(shape.profile, _NO_PRIOR) if shape.profile else _NO_PRIOR

    def begin(self, table: Float, row: int, shape: Shape) -> None:
        """Write the prior of an application into a row: its WorkloadProfile, else its declared estimate. An
        estimate of zeros in both counts as not declared.
        """
        prior = self.prior(shape)
        if prior.sensitivity is not None or prior.pressure is not None:
            model.start(table, row, self.settings, prior.sensitivity, prior.pressure, shape.is_service)
            return
        estimate = shape.estimate
        declared = estimate is not None and (estimate.sensitivity > 0 or estimate.pressure > 0)
        if estimate is not None and declared:
            model.start(table, row, self.settings, estimate.sensitivity, estimate.pressure, shape.is_service)
        else:
            model.start(table, row, self.settings, queues=shape.is_service)

    def take_dropped(self) -> list[Shape]:
        """Applications that were dropped since the last call: their rows belong to others now."""
        dropped, self._dropped = self._dropped, []
        return dropped


class LearnedProfiles:
    """The store as the shapes of one ledger see it; K shapes by row."""

    def __init__(self, encoder: Encoder, ledger: Ledger, knobs: Knobs, store: ProfileStore) -> None:
        self.store = store
        self._encoder = encoder
        self._ledger = ledger
        self._knobs = knobs
        self._row_of: Int = np.empty(0, dtype=np.int64)  # [K] row of the store, -1 = not looked up or not measured
        self._written: Mask = np.empty(0, dtype=np.bool_)  # [K] the shape's parameters hold its present profile
        self._tolerates: Int = np.empty(0, dtype=np.int8)  # [K] _UNKNOWN, _AS_LEARNED or _AS_DECLARED
        self._prior: dict[int, Float] = {}  # shapes of which nothing was measured -> the row of their prior
        self._changes = store.changes  # as of which priors are in use

    def adopt(self, store: ProfileStore) -> None:
        """Use another store from now on."""
        self.store = store
        self._row_of[:] = _UNKNOWN
        self._written[:] = False
        self._prior.clear()

    def forget(self, shapes: Iterable[int]) -> None:
        """These rows of shapes will be reused for others."""
        for k in shapes:
            self._prior.pop(k, None)
            if k < len(self._row_of):
                self._row_of[k] = _UNKNOWN
                self._written[k] = False
                self._tolerates[k] = _UNKNOWN

    def observe(self, numbers: Int, cpu_cores: Float, signal: Float, now_s: float) -> int:
        """Learn from one round of windows; returns how many were used.

        Pods by number, all of them on nodes: cores in use, and the signal: p99 over its objective for a service; for
        other pods time per unit of progress, or cycles per instruction, in any unit; NaN where nothing was measured.
        """
        ledger, store = self._ledger, self.store
        node = ledger.row[numbers]
        order = np.lexsort((numbers, node))
        numbers, node = numbers[order], node[order]
        shapes = ledger.shape[numbers]
        cores = ledger.shapes.request[shapes, CPU] / 1000.0 + ledger.shapes.params[shapes, Param.LENT_CPU]
        logs, use = model.usable(signal[order], cpu_cores[order], cores)
        store.refused += int((np.isnan(logs) & ~np.isnan(signal[order])).sum() + np.isnan(use).sum())
        used = np.flatnonzero(~np.isnan(use))
        rows = self._enter(shapes[used])
        used, rows = used[rows >= 0], rows[rows >= 0]
        if not len(used):
            return 0
        node, shapes = node[used], shapes[used]
        service = ledger.shapes.params[shapes, Param.IS_SERVICE] > 0
        first = np.flatnonzero(np.diff(node, prepend=-1))
        nodes = node[first]
        self._written[:] = False
        taken = update.learn(
            store.table,
            store.sibling,
            LearningRound(
                np.append(first, len(node)).astype(np.int64),
                ledger.nodes.capacity[nodes, CPU] / 1000.0,
                rows,
                logs[used],
                use[used],
                cores[used],
                np.where(service, 1.0, self._knobs.pressure_factor),
                service,
            ),
            now_s,
            store.settings,
        )
        store.windows += taken
        return taken

    def write(self, shapes: Int) -> None:
        """Write the profiles of these shapes into their parameters, where they changed. Of a service with a
        declared allowance, that is kept.
        """
        self._sync()
        shapes = shapes[~self._written[shapes]]
        if not len(shapes):
            return
        params, table = self._ledger.shapes.params, self.lines(shapes)
        params[shapes, Param.SENSITIVITY] = table[:, LearningColumn.SENSITIVITY]
        params[shapes, Param.PRESSURE] = table[:, LearningColumn.PRESSURE]
        allowance = self._allowances(shapes, table)
        known = np.isfinite(allowance)
        params[shapes[known], Param.ALLOWANCE] = allowance[known]
        self._written[shapes] = True

    def profile(self, shape: int) -> InterferenceProfile:
        """The profile of a row of shapes."""
        return self.of(self._encoder.shape(shape))

    def of(self, shape: Shape) -> InterferenceProfile:
        """The profile of an application, whether or not it has pods now."""
        row = self.store.row(shape)
        line = np.zeros((1, model.COLUMNS))
        if row >= 0:
            line[0] = self.store.table[row]
        else:
            self.store.begin(line, 0, shape)
        allowance = inf
        if shape.is_service and shape.estimate is not None and isfinite(shape.estimate.allowance):
            allowance = shape.estimate.allowance
        elif shape.is_service and line[0, LearningColumn.WINDOWS] > 0:
            cores = np.array([shape.requests.get(CPU_NAME) / 1000.0])
            allowance = max(_MIN_ALLOWANCE, float(model.tolerated(line, cores)[0]) - 1.0)
        elif shape.is_service and (tolerates := self.store.prior(shape).tolerates) is not None:
            allowance = max(_MIN_ALLOWANCE, tolerates)
        return model.profile(line[0], allowance)

    def lines(self, shapes: Int) -> Float:
        """Rows of the model for these shapes; of those never measured, their priors."""
        self._sync()
        rows = self._row_of[shapes]
        lines = self.store.table[np.maximum(rows, 0)]
        for i in np.flatnonzero(rows < 0).tolist():
            lines[i] = self._prior_of(int(shapes[i]))
        return lines

    def _allowances(self, shapes: Int, lines: Float) -> Float:
        """Excess slowdown that the services among these tolerate; NaN for others, for declared ones, and before any
        window without a WorkloadProfile.
        """
        service = self._ledger.shapes.params[shapes, Param.IS_SERVICE] > 0
        learned = np.flatnonzero(service & (lines[:, LearningColumn.WINDOWS] > 0))
        for k in shapes[learned[self._tolerates[shapes[learned]] == _UNKNOWN]].tolist():
            estimate = self._encoder.shape(k).estimate
            declared = estimate is not None and isfinite(estimate.allowance)
            self._tolerates[k] = _AS_DECLARED if declared else _AS_LEARNED
        learned = learned[self._tolerates[shapes[learned]] == _AS_LEARNED]
        found = np.full(len(shapes), np.nan)
        if self.store.changes:  # there are or were WorkloadProfiles
            for i in np.flatnonzero(service & (lines[:, LearningColumn.WINDOWS] <= 0)).tolist():
                tolerates = self.store.prior(self._encoder.shape(int(shapes[i]))).tolerates
                if tolerates is not None:
                    found[i] = max(_MIN_ALLOWANCE, tolerates)
        if not len(learned):
            return found
        cores = self._ledger.shapes.request[shapes[learned], CPU] / 1000.0
        found[learned] = np.maximum(_MIN_ALLOWANCE, model.tolerated(lines[learned], cores) - 1.0)
        return found

    def _enter(self, shapes: Int) -> Int:
        """Rows of the store of these shapes; -1 where there are more applications in one round than the store keeps."""
        self._sync()
        rows = self._row_of[shapes]
        new = shapes[rows < 0]
        if not len(new):
            return rows
        for k in np.unique(new).tolist():
            self._row_of[k] = self.store.enter(self._encoder.shape(k))
            self._prior.pop(k, None)
        self._sync()
        return self._row_of[shapes]

    def _sync(self) -> None:
        """Follow rows that were given to other applications, and shapes that are new here."""
        for shape in self.store.take_dropped():
            k = self._encoder.shape_row(shape)
            if 0 <= k < len(self._row_of):
                self._row_of[k] = _UNKNOWN
                self._written[k] = False
        if self._changes != self.store.changes:
            self._changes = self.store.changes
            self._prior.clear()
            self._written[:] = False
        self._grow(self._ledger.shapes.params.shape[0] - 1)

    def _grow(self, k: int) -> None:
        if k >= len(self._row_of):
            more = max(64, k + 1 - len(self._row_of), len(self._row_of))
            self._row_of = np.concatenate([self._row_of, np.full(more, _UNKNOWN, dtype=np.int64)])
            self._written = np.concatenate([self._written, np.zeros(more, dtype=np.bool_)])
            self._tolerates = np.concatenate([self._tolerates, np.full(more, _UNKNOWN, dtype=np.int8)])

    def _prior_of(self, k: int) -> Float:
        """The store's row of a shape that was not looked up, or its prior: kept, since hashing a shape costs more
        than the rest.
        """
        line = self._prior.get(k)
        if line is not None:
            return line
        shape = self._encoder.shape(k)
        row = self.store.row(shape)
        if row >= 0:
            self._row_of[k] = row
            return self.store.table[row].copy()
        one = np.zeros((1, model.COLUMNS))
        self.store.begin(one, 0, shape)
        self._prior[k] = one[0]
        return one[0]
