"""The true properties of a workload, used by the world.

Only the world, its accounting and the generators may import this; a scheduler gets `cotenant_lab.world.offer.Offer`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.errors import InvalidInput
from cotenant_lab.world.config import WorldConfig


class Truth(NamedTuple):
    """A workload with its true values. P pods, S services, G stages, J jobs, jobs in any order of arrival.

    Pods of a stage are numbered `stage_first_pod .. + stage_pods - 1`; stages of a job are consecutive.
    """

    # by pod, [P]
    cpu_milli: Int  # requested
    memory_bytes: Int  # requested
    tenant: Int
    service: Int  # -1 for batch
    stage: Int  # -1 for a service's replica
    use_cores: Float  # mean CPU in use alone; a replica's follows its service's load, so 0 here
    use_memory_bytes: Float  # at its full level
    sensitivity: Float  # a, at interference 1
    pressure: Float  # b
    duration_s: Float  # alone; inf for a replica
    # by service, [S]
    service_cores: Int  # workers of a replica
    service_peak: Float  # peak load of a replica, erlangs
    service_time_s: Float  # mean, alone
    service_objective: Float  # p99 objective in units of the service time
    service_swing: Float  # the trough is 1 - swing of the peak
    service_phase: Float  # of a day
    # by stage, [G]
    stage_job: Int
    stage_pods: Int
    stage_first_pod: Int
    # by job, [J]
    job_arrival_s: Float
    job_deadline_s: Float
    job_first_stage: Int
    job_stages: Int

    tenants: int


def check(truth: Truth, config: WorldConfig) -> None:
    """Raise `InvalidInput` if a workload cannot run on these nodes: NaN, an empty workload, a pod larger than any
    node.
    """
    pods = len(truth.cpu_milli)
    if pods == 0:
        raise InvalidInput("workload", 0, "at least one pod")
    for name in ("use_cores", "use_memory_bytes", "sensitivity", "pressure", "duration_s"):
        column = getattr(truth, name)
        bad = np.flatnonzero(~(column >= 0))
        if bad.size:
            raise InvalidInput(f"{name} of pod {bad[0]}", float(column[bad[0]]), "0 or more")
    for name in ("job_arrival_s", "job_deadline_s"):
        column = getattr(truth, name)
        bad = np.flatnonzero(~(column >= 0))
        if bad.size:
            raise InvalidInput(f"{name} of job {bad[0]}", float(column[bad[0]]), "0 or more")
    for name, capacity in (("cpu_milli", config.node_cores * 1000), ("memory_bytes", config.node_memory_bytes)):
        column = getattr(truth, name)
        bad = np.flatnonzero((column <= 0) | (column > capacity))
        if bad.size:
            expected = f"more than 0 and at most a node's {capacity}"
            raise InvalidInput(f"{name} of pod {bad[0]}", int(column[bad[0]]), expected, "no node could ever hold it")
    batch = truth.service < 0
    bad = np.flatnonzero(batch & ~((truth.duration_s > 0) & np.isfinite(truth.duration_s)))
    if bad.size:
        raise InvalidInput(f"duration_s of pod {bad[0]}", float(truth.duration_s[bad[0]]), "finite and more than 0")
