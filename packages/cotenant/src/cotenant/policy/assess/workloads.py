"""Requests against use by workload, and who holds most of what nobody uses.

A workload asks for what its pods request together; it needs what they use together, whose peak is less than the sum of
the pods' peaks. Idle is what is requested beyond the p99 of that sum; of fewer than `MIN_STEPS` measurements, beyond
the highest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.assess.history import AssessedHistory
from cotenant.model.assess.report import WorkloadUse
from cotenant.policy.assess.rows import quantiles
from cotenant.policy.assess.use import MIN_STEPS, SHARES, day_peaks, peak_hours

MOST_IDLE = 10


class WorkloadRequests(NamedTuple):
    """Workloads by name, aligned: their pods, and what these request."""

    names: Sequence[str]
    pods: Int
    cpu_m: Int
    memory_mib: Int


def by_workload(requested: WorkloadRequests, use: AssessedHistory | None) -> tuple[WorkloadUse, ...]:
    """Every workload, the one with the largest requests of CPU first. `use`: by workload; None = not measured."""
    rows = use.rows(requested.names) if use is not None else np.full(len(requested.names), -1, np.int64)
    cpu = memory = np.zeros((0, len(SHARES)))
    known = np.zeros(0, np.int64)
    if use is not None and len(use.names):
        cpu = np.column_stack([quantiles(use.cpu_m, share) for share in SHARES])
        memory = np.column_stack([quantiles(use.memory_mib, share) for share in SHARES])
        known = (~np.isnan(use.cpu_m)).sum(axis=1)
    found = []
    for at, (name, row) in enumerate(zip(requested.names, rows.tolist(), strict=True)):
        asked_m, asked_mib = int(requested.cpu_m[at]), int(requested.memory_mib[at])
        pods = int(requested.pods[at])
        if use is None or row < 0 or known[row] == 0:
            found.append(WorkloadUse(name, pods, asked_m, asked_mib, None, None, None, None, None, (), None, None))
            continue
        p50, p95, p99 = (float(value) for value in cpu[row])  # of few steps: the p99 is the highest
        p99_mib = float(memory[row][-1])
        is_enough = known[row] >= MIN_STEPS
        found.append(
            WorkloadUse(
                name,
                pods,
                asked_m,
                asked_mib,
                p50 if is_enough else None,
                p95 if is_enough else None,
                p99 if is_enough else None,
                day_peaks(use.cpu_m[row], use.step_s),
                p99_mib if is_enough and np.isfinite(p99_mib) else None,
                peak_hours(use.cpu_m[row], use.start_s, use.step_s),
                max(0.0, asked_m - p99),
                max(0.0, asked_mib - p99_mib) if np.isfinite(p99_mib) else None,
            )
        )
    return tuple(sorted(found, key=lambda workload: (-workload.cpu_request_m, workload.name)))


def most_idle(workloads: Sequence[WorkloadUse]) -> tuple[WorkloadUse, ...]:
    """The ten that hold most idle cores, where it is known."""
    known = [workload for workload in workloads if workload.idle_cpu_m]
    return tuple(sorted(known, key=lambda workload: (-(workload.idle_cpu_m or 0.0), workload.name))[:MOST_IDLE])
