"""Many days of phases: how far a zone that learns its scenes is from the best fixed scheduler of each phase, with
intervals over seeds.

The best fixed scheduler of a phase is the one with the highest mean over these seeds, so it is chosen with hindsight,
and by nobody in advance. Differences are paired: the same seed gives both the same wake-ups. The bound of a day's
regret is what the policy's trials cost at most (`policy/zone/scenes.py`), each reading at the distance of the worst
scheduler of its phase, and what it waits for before it tries anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.model.zones.setting import USUAL_MODES, ZoneMode
from cotenant.policy.zone.scenes import NEAR, PRICE, TRIAL, wanted_readings
from cotenant_lab.plant.zone_day import PhaseOutcome
from cotenant_lab.statistics import Interval, interval, paired_difference

UNSETTLED = 5  # readings at the begin of a phase in which its scene is not known, and those with a change in them


@dataclass(frozen=True, slots=True)
class PhaseOfDays:
    """One phase over all seeds. `best`: the fixed scheduler, `fixed`: its mean outcome; `whole`, `settled`: the zone's
    outcomes less that scheduler's, of the phase and of its last half.
    """

    phase: str
    best: ZoneMode
    fixed: float
    whole: Interval
    settled: Interval

    @property
    def verdict(self) -> str:
        """Of the whole phase: better, as good, loses, or not told apart."""
        return verdict(self.whole)

    @property
    def settled_verdict(self) -> str:
        """Of its last half."""
        return verdict(self.settled)


@dataclass(frozen=True, slots=True)
class Days:
    """`all_day`: the best scheduler for a whole day, whose mean outcome is `all_day_fixed`; `all_day_less`: the zone's
    less it. `regret`: of a day; `most_regret`: of the worst one; `bound`: of the day that came nearest to its own;
    `broken`: days above theirs.
    """

    phases: tuple[PhaseOfDays, ...]
    all_day: ZoneMode
    all_day_fixed: float
    all_day_less: Interval
    regret: Interval
    most_regret: float
    bound: float
    broken: int
    readings: int


def days(one_day: Callable[[int], Sequence[PhaseOutcome]], seeds: Sequence[int]) -> Days:
    """`one_day`: the day of a seed."""
    each = [one_day(seed) for seed in seeds]
    phases = tuple(_phase([day[at] for day in each]) for at in range(len(each[0])))
    regrets = [sum(phase.regret for phase in day) for day in each]
    bounds = [bound_of(day) for day in each]
    nearest = max(range(len(each)), key=lambda at: regrets[at] / bounds[at])
    broken = sum(regret > bound for regret, bound in zip(regrets, bounds, strict=True))
    readings = sum(phase.readings for phase in each[0])
    fixed = {mode: [float(np.mean([phase.fixed[mode] for phase in day])) for day in each] for mode in USUAL_MODES}
    best = max(USUAL_MODES, key=lambda mode: float(np.mean(fixed[mode])))
    zone = [float(np.mean([phase.learned for phase in day])) for day in each]
    less = paired_difference(zone, fixed[best])
    return Days(
        phases,
        best,
        float(np.mean(fixed[best])),
        less,
        interval(regrets),
        max(regrets),
        bounds[nearest],
        broken,
        readings,
    )


def bound_of(day: Sequence[PhaseOutcome]) -> float:
    """What a day's regret is at most: trials of the worse modes by kind of phase, and the unsettled readings of each
    phase.
    """
    total = 0.0
    for name in sorted({phase.phase for phase in day}):
        same = [phase for phase in day if phase.phase == name]
        gap = max(phase.best - min(phase.fixed.values()) for phase in same)
        worse = len(USUAL_MODES) - 1
        trials = worse * (wanted_readings(sum(phase.readings for phase in same), len(USUAL_MODES)) + TRIAL)
        total += gap * (trials + UNSETTLED * len(same)) + PRICE
    return total


def _phase(same: Sequence[PhaseOutcome]) -> PhaseOfDays:
    means: Mapping[ZoneMode, float] = {
        mode: float(np.mean([phase.fixed[mode] for phase in same])) for mode in USUAL_MODES
    }
    best = max(USUAL_MODES, key=lambda mode: means[mode])
    return PhaseOfDays(
        same[0].phase,
        best,
        means[best],
        paired_difference([phase.learned for phase in same], [phase.fixed[best] for phase in same]),
        paired_difference([phase.settled for phase in same], [phase.fixed_settled[best] for phase in same]),
    )


def verdict(found: Interval) -> str:
    """In words: better, as good, loses, or not told apart."""
    if found.low > -NEAR and found.high < NEAR:
        return "as good"
    if found.low > 0:
        return "better"
    if found.high < 0:
        return "loses"
    return "not told apart"


def table(found: Days) -> list[str]:
    """One line a phase, and the regret."""
    return [
        f"{'phase':36}{'best fixed':>18}  {'zone less it':>17} {'':14}  {'last half':>17}",
        *(
            f"{phase.phase:36}{f'{phase.best.value} {phase.fixed:.3f}':>18}  {_words(phase.whole):>17} "
            f"{phase.verdict:14}  {_words(phase.settled):>17} {phase.settled_verdict}"
            for phase in found.phases
        ),
        f"{'a whole day':36}{f'{found.all_day.value} {found.all_day_fixed:.3f}':>18}  "
        f"{_words(found.all_day_less):>17} {verdict(found.all_day_less)}",
        f"regret of a day: {found.regret.mean:.1f} ± {found.regret.half_width:.1f} of {found.readings} readings, "
        f"{found.most_regret:.1f} at most; above its bound on {found.broken} of {found.regret.count} days",
    ]


def _words(found: Interval) -> str:
    return f"{found.mean:+.3f} ± {found.half_width:.3f}"
