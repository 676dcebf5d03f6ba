"""What a mover has earned: the outcomes of its changes, oldest first, replayed from the rung on which it begins.

It climbs a rung when the lower end of the 95 % interval of its hit rate (Wilson) reaches `target` with at least
`min_trials` on the present rung, and starts to count anew. It falls a rung, never below `suggest`, when a change broke
an objective, or when `max_misses` changes of one week did not hold; and then it counts anew too. The replay needs no
memory of its own: an outcome that is forgotten was followed by as many as a promotion needs.
Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 1927.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from cotenant.model.autonomy.autonomy import AutonomyRung
from cotenant.model.errors import InvalidInput

WEEK_S = 7 * 86_400.0
_Z = 1.959963984540054  # 95 %


@dataclass(frozen=True, slots=True)
class LadderSettings:
    """When to climb, and when to fall."""

    start: AutonomyRung = AutonomyRung.APPROVE
    target: float = 0.7
    min_trials: int = 8
    max_misses: int = 2  # of one week: so many make it a bad one

    def __post_init__(self) -> None:
        if not 0 < self.target < 1 or self.min_trials < 1 or self.max_misses < 1:
            raise InvalidInput(
                "ladder", f"{self.target}, {self.min_trials}, {self.max_misses}", "0 to 1, and 1 or more"
            )


@dataclass(frozen=True, slots=True)
class JudgedChange:
    """One change that has ended."""

    at_s: float
    held: bool  # proven, and not taken back
    broke_objective: bool = False


@dataclass(frozen=True, slots=True)
class Earned:
    """Where a mover stands, and what it counts by."""

    rung: AutonomyRung
    hits: int  # on this rung
    trials: int
    low: float  # of the interval of its hit rate; 0 without a trial
    why: str
    fell: bool = False  # by the newest outcome


def interval(hits: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; 0 to 1 without a trial."""
    if trials == 0:
        return 0.0, 1.0
    share, square = hits / trials, _Z * _Z / trials
    centre = (share + square / 2) / (1 + square)
    half = _Z * sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    return max(0.0, centre - half), min(1.0, centre + half)


def earned(outcomes: Sequence[JudgedChange], settings: LadderSettings) -> Earned:
    """Where these outcomes lead to."""
    rung, hits, trials, misses = settings.start, 0, 0, list[float]()
    why, fell = f"begins at {rung.name.lower()}", False
    for found in sorted(outcomes, key=lambda one: one.at_s):
        trials += 1
        hits += found.held
        if not found.held:
            misses = [at_s for at_s in misses if found.at_s - at_s < WEEK_S] + [found.at_s]
        fell = found.broke_objective or len(misses) >= settings.max_misses
        if fell:
            rung = max(AutonomyRung.SUGGEST, AutonomyRung(rung - 1))
            what = "a change broke an objective" if found.broke_objective else f"{len(misses)} of a week did not hold"
            why, hits, trials, misses = f"fell to {rung.name.lower()}: {what}", 0, 0, []
            continue
        low = interval(hits, trials)[0]
        if rung < AutonomyRung.ACT and trials >= settings.min_trials and low >= settings.target:
            rung = AutonomyRung(rung + 1)
            why = f"climbed to {rung.name.lower()}: {hits} of {trials} held, at least {100 * low:.0f} %"
            hits = trials = 0
    return Earned(rung, hits, trials, interval(hits, trials)[0] if trials else 0.0, why, fell)
