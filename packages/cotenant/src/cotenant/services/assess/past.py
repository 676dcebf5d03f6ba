"""What a cluster's own past says of our predictions: lendable CPU, and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from cotenant.engine.assess.lending import RecordedNodes, replay
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.assess.report import PastTrial, SizeTrial, SizeTried, Tried, WorkloadUse
from cotenant.model.resources import CPU_NAME
from cotenant.policy.assess.back_test import back_test, origins_of, past_of
from cotenant.policy.assess.predictor import DAY_S
from cotenant.policy.assess.sizes import size_test
from cotenant.services.assess.copying import ClusterCopy

MIN_DAYS = 2  # of pods' use, for a first half of a day
MAX_SIZED = 1_000  # workloads, those that request most: every rule costs a pass over each one's history
_EVERY_S = 43_200.0


def past_trial(copy: ClusterCopy, history: ClusterHistory, risk: float) -> PastTrial | None:
    """Predictions of nodes' CPU use from the first part of the history, judged by the rest, beside rivals'."""
    nodes = history.nodes
    rows = [row for row, name in enumerate(nodes.names) if name in copy.managed]
    if nodes.steps * nodes.step_s < DAY_S or not rows:
        return None
    kept = nodes.of_rows(np.array(rows, np.int64))
    capacity = np.array([copy.managed[name].capacity.cpu_m for name in kept.names], np.float64)
    asked = dict.fromkeys(kept.names, 0)
    for info in copy.engine.every_pod():
        if info.node in asked and info.seen.occupies:
            asked[info.node] += info.seen.pod.requests.get(CPU_NAME)
    requested = np.array([asked[name] for name in kept.names], np.float64)
    tried = back_test(past_of(kept, "cpu", requested, capacity), kept.start_s, risk=risk)
    scores = tuple(
        Tried(one.name, *map(_known, (one.risk_pct, one.pinball_pct, one.lent_pct, one.squeezed_pct)))
        for one in tried.scores
    )
    lent = replay(RecordedNodes(kept.start_s, kept.step_s, kept.cpu_m, requested, capacity))
    whole = [day for day in lent.days if day.node_hours >= 20 * lent.nodes] or list(lent.days)
    worst = max(whole, key=lambda day: day.touched_share, default=None)
    told = "" if worst is None else f"{worst.told()} It was the worst of {len(whole)} days, by the manager's own rule."
    return PastTrial("CPU of nodes", scores, tried.verdict, told)


def size_trial(history: ClusterHistory, workloads: Sequence[WorkloadUse], risk: float) -> SizeTrial | None:
    """What workloads would have been given by what was known, against the peaks of the day after."""
    pods = history.pods
    if not pods.use.names or pods.use.steps * pods.use.step_s < MIN_DAYS * DAY_S:
        return None
    use = pods.by_workload()
    there = set(use.names)
    some = [one for one in workloads if one.name in there][:MAX_SIZED]
    if not some:
        return None
    kept = use.of_rows(use.rows([one.name for one in some]))
    past = past_of(kept, "cpu", np.array([one.cpu_request_m for one in some], np.float64), np.full(len(some), np.nan))
    horizon = max(1, min(round(DAY_S / past.step_s), use.steps // 3))
    tried = size_test(past, risk=risk, origins=origins_of(past, horizon, _EVERY_S, 0.5))
    rules = tuple(
        SizeTried(one.name, *map(_known, (one.short_pct, one.over_pct, one.pinball_pct))) for one in tried.scores
    )
    left = len(workloads) - len(some)
    more = f" The {left} that request least, or have no use that is known, were not tried." if left else ""
    return SizeTrial("CPU of workloads", len(some), rules, f"{tried.verdict}{more}")


def _known(value: float) -> float | None:
    return value if isfinite(value) else None
