"""The same tuning budget for every policy that has knobs, on seeds that are never used for results.

    python -m bench.tuning --policy cotenant --policy edf-paragon --trials 24 --json

A tuned policy that beats an untuned one proves nothing. Each gets the same number of trials of the same sampler
(Optuna's TPE, seeded, starting from the policy's defaults) on the same load and seeds, and the same objective:
violation of services plus violation of batch, each a mean over seeds. Reported seeds are 0, 1, 2, ...; these start at
100.
Limits: few seeds per trial, so the best of many trials is partly luck.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from cotenant_lab.contract import RunSpec
from cotenant_lab.registry import scenario
from cotenant_lab.tuning.search import load_optuna
from cotenant_lab.tuning.spaces import SPACES


@dataclass(frozen=True, slots=True)
class Trial:
    """The knobs of a trial, and the resulting mean violations."""

    knobs: tuple[tuple[str, float], ...]
    service: float
    batch: float

    @property
    def objective(self) -> float:
        """The minimised value."""
        return self.service + self.batch


def _run(spec: RunSpec) -> tuple[float, float]:
    measures = scenario(spec.workload).run(spec).measures
    return measures.violation_service, measures.violation_batch


def evaluate(
    pool: Executor, policy: str, knobs: tuple[tuple[str, float], ...], load: float, seeds: tuple[int, ...]
) -> Trial:
    """One trial: one run per seed."""
    specs = [RunSpec("colocation", policy, seed, load, overrides=knobs) for seed in seeds]
    found = list(pool.map(_run, specs))
    return Trial(knobs, sum(f[0] for f in found) / len(found), sum(f[1] for f in found) / len(found))


def tune(pool: Executor, policy: str, trials: int, load: float, seeds: tuple[int, ...]) -> list[Trial]:
    """All trials of one policy, the defaults first."""
    optuna = load_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0, n_startup_trials=max(4, trials // 3)))
    done = [evaluate(pool, policy, (), load, seeds)]
    for _ in range(trials - 1):
        suggestion = study.ask()
        knobs = tuple((name, suggestion.suggest_float(name, *span)) for name, span in SPACES[policy].items())
        done.append(evaluate(pool, policy, knobs, load, seeds))
        study.tell(suggestion, done[-1].objective)
    return done


def main() -> None:
    """Tune and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", action="append", choices=sorted(SPACES), help="repeat; default: every one")
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--seeds", type=int, default=4, help="number of seeds, from 100")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    seeds = tuple(range(100, 100 + given.seeds))
    rows = []
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        for policy in given.policy or sorted(SPACES):
            trials = tune(pool, policy, given.trials, given.load, seeds)
            best = min(trials, key=lambda trial: trial.objective)
            rows.append(
                {
                    "policy": policy,
                    "trials": len(trials),
                    "default": {"violation_service": trials[0].service, "violation_batch": trials[0].batch},
                    "best": {"violation_service": best.service, "violation_batch": best.batch},
                    "knobs": {name: round(value, 4) for name, value in best.knobs},
                }
            )
            if not given.json:
                print(json.dumps(rows[-1], indent=2), flush=True)
    if given.json:
        print(json.dumps({"load": given.load, "seeds": seeds, "rows": rows}))


if __name__ == "__main__":
    main()
