"""`cotenant lab what-if`: contention in a copy of a cluster, as it is and after changes.

Places are the product's engine's, use is the cluster's own on one of its days, drawn by the seed; what one pod does to
another follows the world's mixed law with profiles drawn for each workload. The same seed has the same law, profiles
and day in every case, so differences are of the places alone.
Limits: services' latency is not in a copy, so a slowdown is said and no latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from cotenant.cli.assess.what_if_tables import show_what_ifs
from cotenant.model.assess.figure import AssessedFigure, counted, unknown
from cotenant.model.assess.what_if import WhatIfChanges
from cotenant.model.errors import InvalidInput
from cotenant.policy.assess.predictor import DAY_S
from cotenant.services.assess.copy_reading import read_files
from cotenant.services.assess.what_ifs.comparing import compared
from cotenant.services.assess.what_ifs.outcomes import CaseInputs, CaseOutcome
from cotenant_lab.crowding import Crowd, law_of_seed, profiles_of, slowdowns
from cotenant_lab.world.config import WorldConfig

SLOW = 1.1  # of a pod alone: a tenth more time
_MAX_STEPS = 48  # of a day: means over half an hour
_STREAM = 47  # of the seed
_UNIT = "% of pod time"


def report(files: Sequence[Path], cases: Sequence[WhatIfChanges], seeds: Sequence[int], as_json: bool) -> int:
    """Print all of it."""
    if not cases:
        raise InvalidInput("--what-if", "none", "at least one case", 'such as --what-if "load=1.3"')
    snapshot, history = read_files(files)
    found = compared(
        CaseInputs(snapshot, history, 0.01, None),
        cases,
        seeds,
        lambda words: None,
        lambda outcome, seed: crowding(outcome, seed),
    )
    if as_json:
        print(msgspec.json.encode(found).decode())
    else:
        show_what_ifs(found)
    return 0


def crowding(outcome: CaseOutcome, seed: int) -> tuple[AssessedFigure, ...]:
    """How much neighbours slow pods on one day under the seed's law."""
    definition = f"pod time in which neighbours make a pod at least {SLOW - 1:.0%} slower, by the mixed law"
    wanted = (
        ("crowding_share", "Slowed by neighbours", _UNIT, definition),
        ("crowding_mean", "Slowdown, mean", "%", "mean over pod time of the slowdown by neighbours, by the mixed law"),
        ("crowding_p99", "Slowdown, p99", "%", "the slowdown that 1 % of pod time exceeds, by the mixed law"),
    )
    crowd, workloads = _crowd(outcome, seed)
    if crowd is None:
        why = "it needs the use of pods over time, or of one moment, with their nodes"
        return tuple(unknown(*one, why) for one in wanted)
    sensitivity, pressure = _profiles(tuple(sorted(set(workloads))), seed)
    at = np.searchsorted(np.array(sorted(set(workloads))), np.array(workloads))
    slow = slowdowns(crowd, sensitivity[at], pressure[at], law_of_seed(seed))
    known = slow[~np.isnan(slow)]
    if not len(known):
        return tuple(unknown(*one, "no pod runs whose use is known") for one in wanted)
    values = (100 * (known >= SLOW).mean(), 100 * (known.mean() - 1), 100 * (np.quantile(known, 0.99) - 1))
    return tuple(
        counted(key, title, float(value), unit, words)
        for (key, title, unit, words), value in zip(wanted, values, strict=True)
    )


@cache
def _profiles(workloads: tuple[str, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    return profiles_of(workloads, seed, WorldConfig())


def _crowd(outcome: CaseOutcome, seed: int) -> tuple[Crowd | None, list[str]]:
    """The pods that run, with their use on the seed's day in means of at most `_MAX_STEPS` parts."""
    use = outcome.use.pods.use
    rows = [at for at, name in enumerate(use.names) if name in outcome.running]
    if not rows or not use.steps:
        return None, []
    nodes = sorted(outcome.capacity)
    row = {name: at for at, name in enumerate(nodes)}
    a_day = max(1, min(use.steps, round(DAY_S / use.step_s)))
    day = int(np.random.default_rng([seed, _STREAM]).integers(max(1, use.steps // a_day)))
    values = use.cpu_m[rows, day * a_day : (day + 1) * a_day]
    parts = np.array_split(np.arange(values.shape[1]), min(_MAX_STEPS, values.shape[1]))
    cores = np.stack([np.nan_to_num(values[:, part]).mean(axis=1) for part in parts], axis=1) / 1000.0
    on = np.array([row.get(outcome.running[use.names[at]], -1) for at in rows], np.int64)
    capacity = np.array([max(1, outcome.capacity[name]) for name in nodes], np.float64) / 1000.0
    workloads = [outcome.use.pods.workload[at] or use.names[at] for at in rows]
    return Crowd(cores.astype(np.float64), on, capacity), workloads
