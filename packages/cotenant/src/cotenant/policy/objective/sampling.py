"""Which traces are worth keeping, under a budget of spans a second: a probability for each stratum.

A stratum is a root operation and a class. Classes are served in order, failed traces first, then slow ones, then the
others; of each class `FLOORS` is left to those after it, so that no probability is ever 0 and estimates stay possible.
Within a class every operation gets the same number of spans a second, or all that it has where that is less (max-min
fairness): rare operations are kept whole before frequent ones are.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from cotenant.model.traces.probability import LEAST_PROBABILITY


class TraceClass(IntEnum):
    """In order of worth."""

    FAILED = 0  # one of its spans has status ERROR
    SLOW = 1  # its root took longer than most of its operation
    USUAL = 2


FLOORS = (0.0, 0.1, 0.2)  # shares of the budget that classes before a class leave to it
CLASSES = len(TraceClass)


def probabilities(demand: NDArray[np.float64], budget: float) -> NDArray[np.float64]:
    """By operation and class. `demand`: spans a second by operation and class; kept are at most `budget` of them."""
    chosen = np.ones_like(demand)
    totals = demand.sum(axis=0)
    floors = np.minimum(np.array(FLOORS) * budget, totals)
    left = budget
    for of_class in TraceClass:
        room = left - float(floors[of_class + 1 :].sum())
        wanted = demand[:, of_class]
        level = fair_level(wanted, room)
        frequent = wanted > level
        chosen[frequent, of_class] = np.maximum(level / wanted[frequent], LEAST_PROBABILITY)
        left -= float(np.minimum(wanted, level).sum())
    return chosen


def head_probabilities(demand: NDArray[np.float64], budget: float) -> NDArray[np.float64]:
    """By operation, before anything is known of a trace. `demand`: spans a second by operation."""
    level = fair_level(demand, budget)
    chosen = np.ones_like(demand)
    frequent = demand > level
    chosen[frequent] = np.maximum(level / demand[frequent], LEAST_PROBABILITY)
    return chosen


def fair_level(demand: NDArray[np.float64], room: float) -> float:
    """What each may have at most, so that all together have `room`; infinite where there is room for all."""
    if demand.sum() <= room:
        return float("inf")
    if room <= 0.0:
        return 0.0
    ascending = np.sort(demand)
    left_to_larger = room - np.concatenate([[0.0], np.cumsum(ascending)[:-1]])
    shares = left_to_larger / np.arange(ascending.size, 0, -1)
    return float(shares[np.flatnonzero(ascending > shares)[0]])
