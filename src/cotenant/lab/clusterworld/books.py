"""Who held how many GPUs, whether they computed, and what each team was owed: integrals over a window of time.

Problem: means over time of what changes at every event must not depend on when one looks. Choice: sums of level times duration, written down before
every change; a team's deserved share is weighted max-min over the tree, first among organisations and then among their teams, by what they are owed
and capped at what they ask for. Limits: GPUs only; what is held by pods that terminate is held in vain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Float, Int

_LITTLE = 1e-9


def max_min(amount: float, demand: Float, weight: Float) -> Float:
    """Weighted max-min: nobody gets more than it asks for, and nobody can be given more without somebody with less for its weight losing."""
    given = np.zeros(len(demand))
    hungry = demand > _LITTLE
    while amount > _LITTLE and hungry.any():
        level = amount * weight * hungry / (weight * hungry).sum()
        full = hungry & (given + level >= demand - _LITTLE)
        if not full.any():
            return given + level
        amount -= float((demand - given)[full].sum())
        given[full] = demand[full]
        hungry &= ~full
    return given


def deserved(total: float, demand: Float, owed: Float, group: Int) -> Float:
    """By team: weighted max-min among groups, then within each."""
    groups = int(group.max()) + 1
    by_group = max_min(total, _sums(group, demand, groups), _sums(group, owed, groups))
    found = np.zeros(len(demand))
    for each in range(groups):
        inside = group == each
        found[inside] = max_min(float(by_group[each]), demand[inside], owed[inside])
    return found


def _sums(group: Int, values: Float, groups: int) -> Float:
    total = np.zeros(groups)
    np.add.at(total, group, values)
    return total


@dataclass(slots=True)
class Levels:
    """GPUs, now. T teams."""

    held: Float  # [T] by pods on nodes, decided ones included
    computing: Float  # [T] of those, by jobs that run
    demand: Float  # [T] of jobs that have arrived and not ended


class Books:
    """Integrals of levels over a window."""

    def __init__(self, gpus: float, owed: Float, group: Int, window: tuple[float, float]) -> None:
        self.gpus = gpus
        self._owed = owed
        self._group = group
        self._window = window
        self._now_s = 0.0
        teams = len(owed)
        self.held = np.zeros(teams)  # GPU-seconds from here on
        self.computing = np.zeros(teams)
        self.deserved = np.zeros(teams)
        self.guaranteed = np.zeros(teams)  # asked for, up to what is owed
        self.missed = np.zeros(teams)  # of that, not held
        self.over = np.zeros(teams)  # held beyond what was deserved
        self._deserved_now = np.zeros(teams)
        self._demand_then = np.full(teams, -1.0)

    def advance(self, now_s: float, levels: Levels) -> None:
        """`levels` stood from the last time until now."""
        low, high = self._window
        seconds = min(now_s, high) - max(self._now_s, low)
        self._now_s = now_s
        if seconds <= 0:
            return
        if not np.array_equal(levels.demand, self._demand_then):
            self._demand_then = levels.demand.copy()
            self._deserved_now = deserved(self.gpus, levels.demand, self._owed, self._group)
        guaranteed = np.minimum(levels.demand, self._owed)
        self.held += seconds * levels.held
        self.computing += seconds * levels.computing
        self.deserved += seconds * self._deserved_now
        self.guaranteed += seconds * guaranteed
        self.missed += seconds * np.maximum(0.0, guaranteed - levels.held)
        self.over += seconds * np.maximum(0.0, levels.held - self._deserved_now)

    @property
    def seconds(self) -> float:
        """Of the window that has passed."""
        low, high = self._window
        return max(0.0, min(self._now_s, high) - low)


def jain(values: Float) -> float:
    """Jain's index; 1 where there is nothing to compare."""
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares > 0 else 1.0
