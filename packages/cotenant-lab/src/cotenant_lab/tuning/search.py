"""The search: trials in rounds, each trial a set of knobs run on every tuning seed.

A search takes hours, is interrupted, and must give the same trials again. Optuna's multi-objective TPE sampler with a
fixed seed, asked for a constant number of trials per round whatever the number of processes; every run is stored as
those of a comparison are. The same command asks for the same trials and finds their runs stored, so there is no
database to corrupt. The defaults are the first trial.
Limits: within a round trials do not know of one another; another version of Optuna may propose other trials (its
version is in the results).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.model.errors import InvalidInput
from cotenant_lab import experiment
from cotenant_lab.contract import RunSpec
from cotenant_lab.experiment import ExperimentPlan, Perform, RunFailure, RunProgress
from cotenant_lab.storage import RunRecord
from cotenant_lab.tuning.objectives import OBJECTIVES, values
from cotenant_lab.tuning.spaces import Space

ROUND = 8  # trials asked for at once
_DIGITS = 4  # significant digits of a knob, so that a profile file says exactly what was run

Knobs = tuple[tuple[str, float], ...]
OnStep = Callable[[RunProgress], None]


@dataclass(frozen=True, slots=True)
class TuningTrial:
    """Knobs (none = the policy's defaults) and the mean objectives on the tuning seeds, in the order of
    `OBJECTIVES`.
    """

    number: int
    knobs: Knobs
    figures: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class FoundTrials:
    """All trials that ran to the end, and the runs that failed."""

    trials: tuple[TuningTrial, ...]
    failures: tuple[RunFailure, ...]
    reused: int
    optuna: str


@dataclass(slots=True)
class Evaluator:
    """Runs sets of knobs on seeds, and reports progress over all runs of a search. `perform`: as of
    `experiment.run_specs`.
    """

    plan: ExperimentPlan  # of one policy
    folder: Path
    jobs: int
    total: int
    on_step: OnStep
    perform: Perform | None = None
    done: int = 0
    reused: int = 0

    def __call__(
        self, candidates: Sequence[Knobs], seeds: tuple[int, ...]
    ) -> tuple[list[list[RunRecord] | None], tuple[RunFailure, ...]]:
        """The runs of each candidate, in the order of seeds and loads; None where one failed."""
        per_candidate = [self.specs(knobs, seeds) for knobs in candidates]
        specs = tuple(dict.fromkeys(spec for specs in per_candidate for spec in specs))
        before = self.done

        def on_step(step: RunProgress) -> None:
            self.on_step(replace(step, done=min(self.total, before + step.done), total=self.total))

        outcome = experiment.run_specs(specs, self.folder, self.jobs, on_step, self.perform)
        self.done = before + len(specs)
        self.reused += outcome.reused
        records = {record.spec: record for record in outcome.records}
        found: list[list[RunRecord] | None] = []
        for specs_of_one in per_candidate:
            complete = all(spec in records for spec in specs_of_one)
            found.append([records[spec] for spec in specs_of_one] if complete else None)
        return found, outcome.failures

    def specs(self, knobs: Knobs, seeds: tuple[int, ...]) -> tuple[RunSpec, ...]:
        """The runs of one candidate."""
        (policy,) = self.plan.policies
        overrides = tuple((policy, name, value) for name, value in knobs)
        return replace(self.plan, seeds=seeds, overrides=overrides).specs()


def search(space: Space, trials: int, seeds: tuple[int, ...], seed: int, evaluate: Evaluator) -> FoundTrials:
    """Run `trials` trials, the defaults first. Raises `InvalidInput` where Optuna is not installed or an objective
    is not measured.
    """
    optuna = load_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=max(ROUND, trials // 4))
    directions = ["maximize" if objective.sign > 0 else "minimize" for objective in OBJECTIVES]
    study = optuna.create_study(sampler=sampler, directions=directions)
    found: list[TuningTrial] = []
    failures: list[RunFailure] = []
    records, failed = evaluate([()], seeds)
    failures += failed
    if records[0] is not None:
        found.append(TuningTrial(0, (), _figures(records[0])))
    number = 1
    while number < trials:
        asked = [study.ask() for _ in range(min(ROUND, trials - number))]
        knobs = [
            tuple((name, _rounded(entry.suggest_float(name, *span))) for name, span in space.items()) for entry in asked
        ]
        records, failed = evaluate(knobs, seeds)
        failures += failed
        for suggestion, tried, runs in zip(asked, knobs, records, strict=True):
            if runs is None:
                study.tell(suggestion, state=optuna.trial.TrialState.FAIL)
            else:
                figures = _figures(runs)
                study.tell(suggestion, figures)
                found.append(TuningTrial(number, tried, figures))
            number += 1
    return FoundTrials(tuple(found), tuple(failures), evaluate.reused, str(optuna.__version__))


def _figures(runs: Sequence[RunRecord]) -> tuple[float, ...]:
    mean = np.array([values(run.measures) for run in runs]).mean(axis=0)
    for objective, value in zip(OBJECTIVES, mean, strict=True):
        if not isfinite(value):
            raise InvalidInput("--workload", runs[0].spec.workload, f"a workload that measures {objective.name}")
    return tuple(float(value) for value in mean)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def load_optuna() -> Any:
    """The library. Raises `InvalidInput` with the command that installs it."""
    try:
        import optuna
    except ImportError as error:
        raise InvalidInput(
            "lab tune",
            "optuna is not installed",
            "the extra `tune`",
            "install it with: pip install 'cotenant-lab[tune]'",
        ) from error
    return optuna
