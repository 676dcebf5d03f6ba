"""The judgement on held-out seeds: is a trial of the front better than the defaults?

The best of many trials on few seeds is partly luck. One trial is selected on the tuning seeds alone; then members of
the front and the defaults run on seeds that the search never used, paired by seed. The selected trial is recommended
only if no objective is worse and at least one is better, each with an interval that excludes zero; otherwise the
defaults stay.
Limits: verdicts on the other members are several comparisons at once, so some hold by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cotenant_lab.experiment import RunFailure
from cotenant_lab.statistics import Interval, interval, paired_difference
from cotenant_lab.tuning.objectives import OBJECTIVES, compared, front, spread_over, values
from cotenant_lab.tuning.search import Evaluator, FoundTrials, TuningTrial

MAX_JUDGED = 12

Verdict = Literal["better", "worse", "trade-off", "not separated", "defaults"]


@dataclass(frozen=True, slots=True)
class JudgedTrial:
    """A trial on held-out seeds: each objective's mean with its interval, and the paired difference from the
    defaults.
    """

    trial: TuningTrial
    means: tuple[Interval, ...]
    differences: tuple[Interval, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result. `front`: numbers of trials on the front of the tuning seeds. `selected` was chosen there,
    `recommended` held on the held-out seeds.
    """

    found: FoundTrials
    front: tuple[int, ...]
    judged: tuple[JudgedTrial, ...]  # the defaults first, then by violation on the tuning seeds
    selected: int
    recommended: int
    failures: tuple[RunFailure, ...]


def selected(trials: Sequence[TuningTrial]) -> TuningTrial:
    """The least violation among trials that are nowhere worse than the defaults, on the tuning seeds; the defaults
    if there is none.
    """
    defaults = trials[0]
    floor = compared(defaults.figures)
    no_worse = [trial for trial in trials if all(a >= b for a, b in zip(compared(trial.figures), floor, strict=True))]
    return min(no_worse, key=lambda trial: (trial.figures[-1], trial.number))


def verdict(differences: Sequence[Interval]) -> Verdict:
    """What paired differences (trial minus defaults) say, objective by objective."""
    signs = {
        (1 if difference.mean * objective.sign > 0 else -1)
        for objective, difference in zip(OBJECTIVES, differences, strict=True)
        if difference.excludes_zero
    }
    if signs == {1}:
        return "better"
    if signs == {-1}:
        return "worse"
    return "trade-off" if signs else "not separated"


def to_judge(found: FoundTrials) -> tuple[tuple[int, ...], tuple[TuningTrial, ...]]:
    """The numbers of the trials on the front, and the trials to run on held-out seeds: defaults, selected, and a
    spread of the front.
    """
    trials = found.trials
    rows = front([trial.figures for trial in trials])
    chosen = [trials[0], selected(trials), *(trials[row] for row in spread_over(rows, MAX_JUDGED))]
    return tuple(trials[row].number for row in rows), tuple(dict.fromkeys(chosen))


def judge(found: FoundTrials, held_out: tuple[int, ...], evaluate: Evaluator) -> Tuned:
    """Run the trials to judge on the held-out seeds and compare each with the defaults."""
    numbers, chosen = to_judge(found)
    records, failures = evaluate([entry.knobs for entry in chosen], held_out)
    base = records[0]
    judged: list[JudgedTrial] = []
    for trial, runs in zip(chosen, records, strict=True):
        if runs is None or base is None:
            continue
        own = [values(run.measures) for run in runs]
        reference = [values(run.measures) for run in base]
        count = len(OBJECTIVES)
        means = tuple(interval([row[i] for row in own]) for i in range(count))
        differences = tuple(
            paired_difference([row[i] for row in own], [row[i] for row in reference]) for i in range(count)
        )
        judged.append(
            JudgedTrial(trial, means, differences, "defaults" if trial is chosen[0] else verdict(differences))
        )
    best = selected(found.trials)
    holds = any(entry.trial.number == best.number and entry.verdict == "better" for entry in judged)
    ordered = judged[:1] + sorted(judged[1:], key=lambda entry: (entry.trial.figures[-1], entry.trial.number))
    return Tuned(found, numbers, tuple(ordered), best.number, best.number if holds else 0, failures)
