"""The objectives of a search, and which trials are on their Pareto front.

Requested utilisation is no merit by itself: it follows from the load, and rises when slowed work stays longer; a search
would then keep bad trials for it. Utilisation counts only work that meets its objective, fairness is Jain's index on
granted shares, violation is that of the reports. Values that differ by less than an objective's resolution count as
equal, so that noise in the fourth digit does not put every trial on the front.
Limits: three fixed objectives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cotenant_lab.contract import Measures


@dataclass(frozen=True, slots=True)
class TuningObjective:
    """One objective. `sign` is 1 where more is better, -1 where less is; `scale` and `unit` are for display."""

    name: str
    title: str
    definition: str
    value: Callable[[Measures], float]
    sign: int
    resolution: float
    scale: float
    unit: str


def _useful(measures: Measures) -> float:
    return measures.utilisation * (1.0 - measures.violation)


def _fairness(measures: Measures) -> float:
    return measures.granted_fairness


def _violation(measures: Measures) -> float:
    return measures.violation


OBJECTIVES: tuple[TuningObjective, ...] = (
    TuningObjective(
        "utilisation",
        "Useful utilisation",
        "Requested CPU / CPU capacity, time mean, times the share of core-hours that met their objective.",
        _useful,
        1,
        1e-3,
        100.0,
        "%",
    ),
    TuningObjective(
        "fairness",
        "Granted-share fairness",
        "Jain's index on tenants' granted shares, capped by their demand (`cotenant lab metrics`).",
        _fairness,
        1,
        1e-3,
        1.0,
        "",
    ),
    TuningObjective(
        "violation",
        "SLO violation",
        "Core-hours that missed their objective / core-hours demanded.",
        _violation,
        -1,
        1e-4,
        100.0,
        "%",
    ),
)


def values(measures: Measures) -> tuple[float, ...]:
    """The objectives of one run, in the order of `OBJECTIVES`."""
    return tuple(objective.value(measures) for objective in OBJECTIVES)


def compared(figures: Sequence[float]) -> tuple[int, ...]:
    """Figures in steps of their resolution, more is better: what dominance compares."""
    return tuple(round(o.sign * value / o.resolution) for o, value in zip(OBJECTIVES, figures, strict=True))


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether `one` is nowhere worse and somewhere better."""
    a, b = compared(one), compared(other)
    return a != b and all(x >= y for x, y in zip(a, b, strict=True))


def front(figures: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """The indices of the figures that none dominates, each distinct value once (the earliest), by violation
    ascending.
    """
    distinct: dict[tuple[int, ...], int] = {}
    for i, figure in enumerate(figures):
        distinct.setdefault(compared(figure), i)
    kept = [i for i in distinct.values() if not any(dominates(figures[j], figures[i]) for j in distinct.values())]
    return tuple(sorted(kept, key=lambda i: (figures[i][-1], i)))


def spread_over(chosen: Sequence[int], most: int) -> tuple[int, ...]:
    """At most `most` of a front's members, evenly spaced, with both ends."""
    if len(chosen) <= most:
        return tuple(chosen)
    rows = np.unique(np.linspace(0, len(chosen) - 1, most).round().astype(int))
    return tuple(chosen[row] for row in rows)
