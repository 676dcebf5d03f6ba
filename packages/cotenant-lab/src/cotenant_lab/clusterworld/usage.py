"""GPUs held, GPUs computing, and the GPUs that each team deserves, integrated over a window of time.

Time means of values that change at every event must not depend on when they are sampled. Sums of level times duration,
updated before every change; a team's deserved share is weighted max-min over the tree, first among organisations and
then among their teams, weighted by their guarantees and capped at their demand.
Limits: GPUs only; GPUs held by terminating pods count as held and not computing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Float, Int

_EPSILON = 1e-9


def max_min(amount: float, demand: Float, weight: Float) -> Float:
    """Weighted max-min: no share exceeds its demand, and no share can grow except at the cost of one that is
    smaller relative to its weight.
    """
    given = np.zeros(len(demand))
    unmet = demand > _EPSILON
    while amount > _EPSILON and unmet.any():
        level = amount * weight * unmet / (weight * unmet).sum()
        full = unmet & (given + level >= demand - _EPSILON)
        if not full.any():
            return given + level
        amount -= float((demand - given)[full].sum())
        given[full] = demand[full]
        unmet &= ~full
    return given


def deserved(total: float, demand: Float, guarantee: Float, group: Int) -> Float:
    """GPUs by team: weighted max-min among groups, then within each group."""
    groups = int(group.max()) + 1
    by_group = max_min(total, _sums(group, demand, groups), _sums(group, guarantee, groups))
    found = np.zeros(len(demand))
    for number in range(groups):
        inside = group == number
        found[inside] = max_min(float(by_group[number]), demand[inside], guarantee[inside])
    return found


def _sums(group: Int, values: Float, groups: int) -> Float:
    total = np.zeros(groups)
    np.add.at(total, group, values)
    return total


@dataclass(slots=True)
class Levels:
    """Current GPUs of T teams."""

    held: Float  # [T] by pods on nodes, including binds in progress
    computing: Float  # [T] of those, by jobs that run
    demand: Float  # [T] of jobs that have arrived and not ended


class UsageTotals:
    """Integrals of levels over a window."""

    def __init__(self, gpus: float, guarantee: Float, group: Int, window: tuple[float, float]) -> None:
        self.gpus = gpus
        self._guarantee = guarantee
        self._group = group
        self._window = window
        self._now_s = 0.0
        teams = len(guarantee)
        self.held = np.zeros(teams)  # this and the following: GPU-seconds
        self.computing = np.zeros(teams)
        self.deserved = np.zeros(teams)
        self.guaranteed = np.zeros(teams)  # demand, up to the guarantee
        self.missed = np.zeros(teams)  # guaranteed and not held
        self.over = np.zeros(teams)  # held beyond the deserved share
        self._deserved_now = np.zeros(teams)
        self._last_demand = np.full(teams, -1.0)

    def advance(self, now_s: float, levels: Levels) -> None:
        """Add the levels that applied from the last call until `now_s`."""
        low, high = self._window
        seconds = min(now_s, high) - max(self._now_s, low)
        self._now_s = now_s
        if seconds <= 0:
            return
        if not np.array_equal(levels.demand, self._last_demand):
            self._last_demand = levels.demand.copy()
            self._deserved_now = deserved(self.gpus, levels.demand, self._guarantee, self._group)
        guaranteed = np.minimum(levels.demand, self._guarantee)
        self.held += seconds * levels.held
        self.computing += seconds * levels.computing
        self.deserved += seconds * self._deserved_now
        self.guaranteed += seconds * guaranteed
        self.missed += seconds * np.maximum(0.0, guaranteed - levels.held)
        self.over += seconds * np.maximum(0.0, levels.held - self._deserved_now)

    @property
    def seconds(self) -> float:
        """Elapsed seconds of the window."""
        low, high = self._window
        return max(0.0, min(self._now_s, high) - low)


def jain(values: Float) -> float:
    """Jain's index; 1 if all values are 0."""
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares > 0 else 1.0
