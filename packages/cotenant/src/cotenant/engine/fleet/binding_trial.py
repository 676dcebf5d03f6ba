"""What binding two containers to one CPU does to a service whose demand goes up and down, and whether regulation undoes
it: founding notes, Test 1.

The service's demand is not known from outside; its CPU time while it is alone is taken for it. Demand must be periodic
in wall-clock time, so that equal moments of the period can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

MIN_SAMPLES = 5
_RESTORED = 0.9  # of the correlation and of the swing that the service has alone


@dataclass(frozen=True, slots=True)
class TrialCpuSample:
    """CPU that a container used, in milli-CPU, around this moment (Unix time)."""

    at_s: float
    cpu_milli: int


@dataclass(frozen=True, slots=True)
class TrialPhase:
    """One phase as measured. `correlation`: with the service alone, over the period; `swing_milli`: from the lowest to
    the highest moment of the period.
    """

    name: str
    service_milli: float
    hog_milli: float
    swing_milli: float
    correlation: float


@dataclass(frozen=True, slots=True)
class TrialResult:
    """Three phases, and what follows. `hog_share`: of the CPU that the service alone leaves, while regulated."""

    phases: tuple[TrialPhase, TrialPhase, TrialPhase]
    is_disturbed: bool
    is_restored: bool
    hog_share: float


def judge(
    names: tuple[str, str, str],
    service: tuple[Sequence[TrialCpuSample], Sequence[TrialCpuSample], Sequence[TrialCpuSample]],
    hog: tuple[Sequence[TrialCpuSample], Sequence[TrialCpuSample], Sequence[TrialCpuSample]],
    period_s: float,
) -> TrialResult:
    """Alone, together, regulated, in this order; each phase has `MIN_SAMPLES` samples and lasts a period or more."""
    alone = folded(service[0], period_s)
    phases = []
    for name, of_service, of_hog in zip(names, service, hog, strict=True):
        fold = folded(of_service, period_s)
        shared = sorted(alone.keys() & fold.keys())
        phases.append(
            TrialPhase(
                name,
                _mean(of_service),
                _mean(of_hog),
                max(fold.values(), default=0.0) - min(fold.values(), default=0.0),
                correlation([alone[moment] for moment in shared], [fold[moment] for moment in shared]),
            )
        )
    first, together, regulated = phases
    return TrialResult(
        (first, together, regulated),
        together.swing_milli < _RESTORED * first.swing_milli or together.correlation < _RESTORED,
        regulated.swing_milli >= _RESTORED * first.swing_milli and regulated.correlation >= _RESTORED,
        regulated.hog_milli / max(1.0, 1000.0 - first.service_milli),
    )


def folded(samples: Sequence[TrialCpuSample], period_s: float) -> dict[int, float]:
    """Means by the second of the period."""
    found: dict[int, list[int]] = {}
    for sample in samples:
        found.setdefault(int(sample.at_s % period_s), []).append(sample.cpu_milli)
    return {moment: fmean(values) for moment, values in found.items()}


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's; 0 where one of them does not vary."""
    if len(first) < 2:
        return 0.0
    mean_1, mean_2 = fmean(first), fmean(second)
    both = sum((x - mean_1) * (y - mean_2) for x, y in zip(first, second, strict=True))
    square = sum((x - mean_1) ** 2 for x in first) * sum((y - mean_2) ** 2 for y in second)
    return both / sqrt(square) if square else 0.0


def _mean(samples: Sequence[TrialCpuSample]) -> float:
    return fmean(sample.cpu_milli for sample in samples) if samples else 0.0
