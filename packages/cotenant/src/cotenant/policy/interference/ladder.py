"""A sensitivity from a ladder of loads: what a replica suffers at rising levels of one resource's load.

One comparison with and without a load is mostly noise, other work comes and goes, and a tail at one level says nothing
of the others. Each rung is compared with windows just before it; the line through the undisturbed state with the least
squares over all windows of all levels, `ratio - 1 = s x level`; its slope is the sensitivity, its standard error the
interval. `must_abort` stops a ladder when the replica suffers more than was agreed.
Limits: a curve with a knee is described by its mean slope; windows count as independent.
Source: Mars et al., Bubble-Up, MICRO'11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import median

from cotenant.model.cluster.workload_profile import FigureSource, Reading, Unknown, figure
from cotenant.model.errors import InvalidInput

_Z = 1.96
MIN_WINDOWS = 3


@dataclass(frozen=True, slots=True)
class LadderStep:
    """One rung: level in (0, 1], and what each window measured just before it and with its load, in any unit in
    which twice is twice as bad.
    """

    level: float
    alone: tuple[float, ...]
    values: tuple[float, ...]


def levels(count: int) -> tuple[float, ...]:
    """Rising levels up to 1. Raises `InvalidInput`."""
    if not 1 <= count <= 20:
        raise InvalidInput("--levels", count, "1 to 20")
    return tuple((i + 1) / count for i in range(count))


def sensitivity(steps: Sequence[LadderStep]) -> Reading:
    """The slope of the additional time over the level. Windows without a value (not finite, 0 or less) are left out."""
    points: list[tuple[float, float]] = []
    samples, noise = 0, 0.0
    for step in steps:
        alone = _usable(step.alone)
        values = _usable(step.values)
        if not alone or not values:
            continue
        zero = median(alone)
        samples += len(alone) + len(values)
        noise = max(noise, _deviation(alone, zero) / zero / sqrt(len(alone)))
        points += [(step.level, value / zero - 1.0) for value in values]
    if len(points) < MIN_WINDOWS:
        return Unknown(f"the replica gave a signal in {len(points)} windows with load only")
    weight = sum(level * level for level, _ in points)
    slope = sum(level * rise for level, rise in points) / weight
    rest = sum((rise - slope * level) ** 2 for level, rise in points) / (len(points) - 1)
    # Noise of the undisturbed windows widens the interval, since the ratios of a rung have one denominator.
    half = _Z * sqrt(rest / weight + noise * noise)
    return figure(slope, half, samples, FigureSource.MEASURED)


def must_abort(value: float, baseline: float, objective: float | None, factor: float, max_ratio: float) -> str:
    """Why the ladder must stop at this window; empty where it may go on. With an objective: beyond `factor` times
    it; else beyond `max_ratio` times the undisturbed value.
    """
    if not isfinite(value):
        return ""
    if objective is not None:
        return (
            f"{value:.4g} is over {factor:g} times the objective of {objective:.4g}"
            if value > factor * objective
            else ""
        )
    if isfinite(baseline) and baseline > 0 and value > max_ratio * baseline:
        return f"{value:.4g} is over {max_ratio:g} times the {baseline:.4g} without load"
    return ""


def _usable(values: Sequence[float]) -> list[float]:
    return [value for value in values if isfinite(value) and value > 0]


def _deviation(values: Sequence[float], middle: float) -> float:
    return sqrt(sum((value - middle) ** 2 for value in values) / max(1, len(values) - 1))
