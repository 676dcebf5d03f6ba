"""An imported trace in the co-located world: its arrivals, sizes and usage beside services, in the founding world's
form.

No public trace has services, batch and objectives on the same machines, and none is of the size of a run. What the
trace records replaces the founding draws; the rest stays drawn. A seed takes a contiguous part of the trace with as
many pods as the world has room for, its arrivals are mapped to the run's horizon, and durations are scaled by one
factor that meets the load. Instances of a task beyond the largest stage run side by side in wider pods, as in the
founding workload.
Limits: DAGs are the workload `dag`; deadlines, sensitivity and pressure are in no trace and are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isnan, log
from typing import TYPE_CHECKING

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.errors import InvalidInput
from cotenant_lab.workloads.colocation import Stages, drawn_tenants, profile_pairs
from cotenant_lab.world.config import WorldConfig

if TYPE_CHECKING:
    from cotenant_lab.workloads.imported import Imported  # loads polars

_MIB = float(1 << 20)
_WIDEST_CORES = 32.0  # of a pod that runs instances side by side: the founding workload's widest


@dataclass(slots=True)
class Replayed:
    """The draws that a trace replaces (see `colocation.Given`); `said` collects the assumptions of one run."""

    work: Imported
    said: list[str] = field(default_factory=list)
    _arrivals: Float | None = None

    def services(self, config: WorldConfig, rng: np.random.Generator) -> tuple[Int, Int, Int] | None:
        """The trace's services in an order drawn from the seed; None where it has none."""
        work = self.work
        if not work.service_cores.size:
            return None
        order = rng.permutation(len(work.service_cores))
        cores = np.clip(np.rint(work.service_cores[order]), 1, config.node_cores).astype(np.int64)
        most = config.replicas_per_node * config.nodes
        replicas = np.clip(work.service_replicas[order], 1, most).astype(np.int64)
        largest = config.node_memory_bytes / config.replicas_per_node
        memory = np.rint(np.clip(work.service_memory_bytes[order], _MIB, largest)).astype(np.int64)
        cut = int((work.service_memory_bytes > largest).sum())
        self.said.append(
            f"Services are taken in random order until they request {config.service_share:.0%} of the CPU; cores are "
            f"rounded, at most {most} replicas each; "
            f"memory of {cut} of {len(order)} services is cut to {largest / 2**30:g} GiB. Their load, objectives and "
            "profiles are drawn."
        )
        return cores, replicas, memory

    def stages(self, config: WorldConfig, rng: np.random.Generator, pods: int) -> tuple[Stages, Int] | None:
        """A part of the trace with at most `pods` pods; None where it has no tasks."""
        work = self.work
        if not work.arrival_s.size:
            return None
        cores, width, count, lost = _pods_of(work, config)
        first, last = _part(work.job, count, pods, rng)
        if first == last:
            raise InvalidInput("pods", pods, "room for at least one job of the trace", "take more nodes")
        rows = slice(first, last)
        jobs, job = np.unique(work.job[rows], return_inverse=True)
        _, begin = np.unique(work.job[rows], return_index=True)
        order = np.argsort(begin)  # jobs in the order of the trace
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        job = rank[job]
        chain = np.bincount(job, minlength=len(jobs))
        level = np.arange(len(job)) - np.sort(begin)[job]
        n = last - first
        memory = np.where(np.isnan(work.memory_bytes), work.memory_share * config.node_memory_bytes, work.memory_bytes)[
            rows
        ]
        plan = rng.choice(np.array(config.plan_memory), n, p=np.array(config.plan_memory_p)) * config.plan_memory_scale
        drawn = np.minimum(config.plan_memory_most, plan * cores[rows]) * config.node_memory_bytes
        known = ~np.isnan(memory)
        memory = np.where(known, memory * width[rows], drawn)
        memory = np.rint(np.clip(memory, _MIB, config.node_memory_bytes))
        real = np.minimum(config.real_cpu_most, rng.lognormal(log(config.real_cpu_median), config.real_cpu_log_sd, n))
        real_memory = rng.lognormal(log(config.real_memory_median), config.real_memory_log_sd, n)
        use = np.where(np.isnan(work.used_cores[rows]), cores[rows] * real, work.used_cores[rows] * width[rows])
        use_memory = np.where(
            np.isnan(work.used_memory_bytes[rows]), memory * real_memory, work.used_memory_bytes[rows] * width[rows]
        )
        a, b = profile_pairs(config, rng, n)
        arrival = work.arrival_s[rows][np.sort(begin)]
        span = float(arrival.max() - arrival.min())
        scaled = (
            (arrival - arrival.min()) / span * config.horizon_s * (1 - 1e-9) if span > 0 else np.zeros(len(arrival))
        )
        self._arrivals = scaled
        self.said.append(
            f"Rows {first + 1:,} to {last:,} of {len(work.job):,} by arrival, chosen by the seed: {len(jobs):,} jobs, "
            f"{int(count[rows].sum()):,} pods; "
            f"{span / 3600:.2f} h of arrivals are mapped to {config.horizon_s / 3600:g} h; durations are scaled by "
            "one factor that meets the load, "
            f"and kept between {config.duration_least_s:g} s and {config.duration_chain_most_s:g} s / stages."
        )
        wide = int((width[rows] > 1).sum())
        if wide or lost[rows].any():
            self.said.append(
                f"{wide:,} tasks run instances side by side in wider pods (at most {config.stage_pods_most} pods a "
                f"task, {_WIDEST_CORES:g} cores a pod); {int(lost[rows].sum()):,} instances beyond that are left "
                "out."
            )
        missing = [
            name
            for name, column in (
                ("memory requests", np.where(known, 1.0, np.nan)),
                ("CPU use", work.used_cores[rows]),
                ("memory use", work.used_memory_bytes[rows]),
            )
            if np.isnan(column).any()
        ]
        self.said.append(
            "Not in the trace, drawn as in the founding workload: "
            + ", ".join([*missing, "sensitivity", "pressure", "deadlines", "tenants", "services"])
            + "."
        )
        stages = Stages(
            job=job,
            level=level,
            chain=chain[job],
            pods=count[rows],
            cpu_milli=np.maximum(1, np.rint(1000.0 * cores[rows])).astype(np.int64),
            memory_bytes=memory.astype(np.int64),
            relative_duration=work.duration_s[rows] / float(np.median(work.duration_s[rows])),
            use_cores=np.minimum(use, float(config.node_cores)),
            use_memory_bytes=np.minimum(use_memory, float(config.node_memory_bytes)),
            sensitivity=a,
            pressure=b,
        )
        return stages, drawn_tenants(config, rng, len(jobs))

    def arrivals(self, config: WorldConfig, rng: np.random.Generator, jobs: int) -> Float | None:
        """The arrivals of the part, or draws in proportion to the trace's curve; None: drawn as in the founding
        workload.
        """
        curve = self.work.curve
        if curve.size:
            total = np.concatenate(([0.0], np.cumsum(curve)))
            if not total[-1] > 0:
                raise InvalidInput("traces", float(total[-1]), "CPU in use above 0 somewhere")
            at = np.interp(rng.random(jobs), total / total[-1], np.arange(len(total)) / len(curve))
            self.said.append(f"{len(curve):,} samples of the cell are mapped to {config.horizon_s / 3600:g} h.")
            return np.minimum(at, 1 - 1e-9) * config.horizon_s
        return self._arrivals

    def configured(self, config: WorldConfig) -> WorldConfig:
        """The world with what the trace records of it."""
        share = self.work.memory_used_share
        return config if isnan(share) else replace(config, real_memory_median=share)

    def notes(self) -> tuple[str, ...]:
        """The trace's notes and the assumptions of the run."""
        return (*self.work.notes, *self.said)


def _pods_of(work: Imported, config: WorldConfig) -> tuple[Float, Int, Int, Int]:
    """By task: cores of a pod, instances a pod runs side by side, pods, and instances left out."""
    single = np.minimum(work.cores, float(config.node_cores))
    wanted = np.ceil(work.instances / config.stage_pods_most)
    width = np.clip(wanted, 1, np.maximum(1, np.floor(_WIDEST_CORES / np.maximum(single, 1e-3)))).astype(np.int64)
    count = np.minimum(np.ceil(work.instances / width), config.stage_pods_most).astype(np.int64)
    return single * width, width, count, np.maximum(0, work.instances - count * width)


def _part(job: Int, count: Int, pods: int, rng: np.random.Generator) -> tuple[int, int]:
    """First and last row (exclusive) of whole jobs with at most `pods` pods; all rows where they fit."""
    total = np.cumsum(count)
    starts = np.flatnonzero(np.concatenate(([True], job[1:] != job[:-1])))
    ends = np.append(starts[1:], len(job))
    if total[-1] <= pods:
        return 0, len(job)
    before = total[starts] - count[starts]
    possible = np.flatnonzero(before <= total[-1] - pods)
    at = int(rng.integers(len(possible)))
    inside = np.flatnonzero(total[ends - 1] - before[at] <= pods)
    return int(starts[at]), int(ends[inside[-1]]) if inside.size and inside[-1] >= at else int(starts[at])
