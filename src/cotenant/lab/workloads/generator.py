"""Batch jobs that look like Alibaba 2018: seeded, with DAGs, in the official units.

Problem: the trace's batch tables are too large to ship, and small samples of it are biased to large jobs. Choice: draw every
quantity from the population's published distribution by inverse transform, tied together by Gaussian copulas whose correlations come
from a sample (`calibration.py`). Durations of a task and of its instances are both exact: an instance's duration is the quantile of
its own distribution at the instance-weighted rank of its task's, so it never exceeds its task's and the weighted marginal holds. Jobs
are built level by level from the published distributions of the longest path and of the levels of the other tasks (Tian, Zheng,
Wang, SoCC 2019).

Limits: used CPU and memory are independent of the plan (only marginals are published); arrivals have the published gaps, no day
shape; a task waits for at most eleven others, because the official names hold 50 characters; instances of a task are alike.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
from scipy.special import ndtr, ndtri

from cotenant.lab.storage import write_atomic
from cotenant.lab.workloads import calibration as published
from cotenant.lab.workloads.dag_shapes import build_dags, earliest_starts
from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.errors import InvalidInput

MOST_JOBS = 5_000_000  # the whole trace has 4.2 million
FIRST_ARRIVAL_S = 1  # a start of 0 means "never started" in the official table
CORES_PER_MACHINE = 96

MEAN_INSTANCE_S = 35.4
MEAN_PLAN_CORES = 0.791


@dataclass(frozen=True, slots=True)
class BatchTrace:
    """Generated jobs. J jobs, N tasks, contiguous by job and in topological order within it; E dependencies.

    `start_s` and `end_s` are those of a run without contention: a task starts when its parents have ended.
    """

    job_offset: Int  # [J + 1] tasks of job j are rows job_offset[j] .. job_offset[j + 1]
    arrival_s: Int  # [J]
    parent_offset: Int  # [N + 1]
    parent: Int  # [E] rows
    level: Int  # [N] tasks on the longest path that ends here, from 1
    instances: Int  # [N]
    plan_cpu: Float  # [N] 100 = core, per instance
    plan_memory: Float  # [N] percent of a machine, per instance
    start_s: Int  # [N]
    end_s: Int  # [N]
    instance_s: Int  # [N] duration of one instance, at most end - start
    cpu_used: Float  # [N] mean over the instance's life, 100 = core
    memory_used: Float  # [N] percent of a machine

    @property
    def jobs(self) -> int:
        """J."""
        return len(self.arrival_s)

    @property
    def tasks(self) -> int:
        """N."""
        return len(self.instances)

    def core_seconds(self) -> float:
        """Planned cores times seconds, over all instances."""
        return float(np.sum(self.instances * self.plan_cpu * self.instance_s) / 100)

    def frame(self) -> pl.DataFrame:
        """The official batch_task table, in its columns, units and types."""
        sizes = np.diff(self.job_offset)
        job = pl.Series(np.repeat(np.arange(self.jobs), sizes)).cast(pl.String)
        return pl.DataFrame(
            {
                "task_name": self.task_names(),
                "instance_num": self.instances,
                "job_name": "j_" + job,
                "task_type": pl.repeat("1", self.tasks, eager=True),
                "status": pl.repeat("Terminated", self.tasks, eager=True),
                "start_time": self.start_s,
                "end_time": self.end_s,
                "plan_cpu": self.plan_cpu,
                "plan_mem": self.plan_memory,
            }
        )

    def task_names(self) -> list[str]:
        """Official codes: M waits for nothing, R for one task, J joins several; numbers from 1 within the job."""
        first = np.repeat(self.job_offset[:-1], np.diff(self.job_offset))
        number = (np.arange(self.tasks) - first + 1).tolist()
        parents = (self.parent - np.repeat(first, np.diff(self.parent_offset)) + 1).tolist()
        offset = self.parent_offset.tolist()
        names = []
        for task, own in enumerate(number):
            of = parents[offset[task] : offset[task + 1]]
            letter = "MRJ"[min(len(of), 2)]
            names.append("_".join([f"{letter}{own}", *map(str, of)]))
        return names

    def write(self, path: Path) -> None:
        """Write the official table: `.parquet` (zstd), `.csv` or `.csv.gz` (without a header, as published).

        All or nothing. Raises `Permanent` where the file cannot be written and `InvalidInput` for another ending.
        """
        held = BytesIO()
        name = path.name.lower()
        if name.endswith(".parquet"):
            self.frame().write_parquet(held, compression="zstd")
        elif name.endswith((".csv", ".csv.gz")):
            self.frame().write_csv(held, include_header=False)
        else:
            raise InvalidInput(str(path), path.suffix or "no ending", "a file named .csv, .csv.gz or .parquet")
        data = gzip.compress(held.getvalue(), 6, mtime=0) if name.endswith(".gz") else held.getvalue()
        write_atomic(path, lambda file: file.write(data))


def generate_batch(
    jobs: int, rng: np.random.Generator, machines: int = published.SOURCE_MACHINES, tasks_per_job: Int | None = None
) -> BatchTrace:
    """Draw `jobs` jobs. Equal generators give equal traces.

    `machines`: arrivals are thinned from the source's 4,034 machines to this many. `tasks_per_job`: sizes to use
    instead of drawing them, [jobs]. Raises `InvalidInput` for counts that make no sense.
    """
    if not 1 <= jobs <= MOST_JOBS:
        raise InvalidInput("jobs", jobs, f"1..{MOST_JOBS:,}")
    if not 1 <= machines <= published.SOURCE_MACHINES:
        raise InvalidInput("machines", machines, f"1..{published.SOURCE_MACHINES:,}")
    if tasks_per_job is None:
        sizes = draw(published.TASKS_PER_JOB, rng.random(jobs)).astype(np.int64)
    else:
        sizes = np.asarray(tasks_per_job, dtype=np.int64)
        if sizes.shape != (jobs,) or sizes.min() < 1 or sizes.max() > 999:
            raise InvalidInput("tasks_per_job", tasks_per_job, f"{jobs} sizes in 1..999")
    job = np.repeat(np.arange(jobs), sizes)
    tasks = len(job)

    duration_z = _shared(rng, job, jobs, published.DURATION_WITHIN_JOB)
    job_busy, own_busy = rng.standard_normal(jobs), rng.standard_normal(tasks)
    share = published.INSTANCES_WITHIN_JOB
    busy_z = np.sqrt(share) * job_busy[job] + np.sqrt(1 - share) * own_busy
    rho = published.DURATION_WITH_INSTANCES
    instances_z = rho * duration_z + np.sqrt(1 - rho**2) * busy_z

    instances = draw(published.INSTANCES_PER_TASK, ndtr(instances_z)).astype(np.int64)
    duration_u = ndtr(duration_z)
    duration = draw(published.TASK_DURATION_S, duration_u).astype(np.int64)
    instance_s = np.where(instances == 1, duration, np.minimum(duration, _instance_durations(duration_u)))

    # the job's own part of its instances' score is all that a job-wide request can follow
    tie = published.CPU_WITH_INSTANCES / np.sqrt((1 - rho**2) * share)
    cpu_z = tie * job_busy + np.sqrt(1 - tie**2) * rng.standard_normal(jobs)
    plan_cpu = draw_atoms(published.PLAN_CPU, ndtr(cpu_z))[job]
    pull = published.MEMORY_WITH_INSTANCES
    memory_z = pull * busy_z + np.sqrt(1 - pull**2) * _shared(rng, job, jobs, published.MEMORY_WITHIN_JOB)
    plan_memory = _plan_memory(ndtr(memory_z), plan_cpu >= 100)

    dags = build_dags(sizes, rng)
    arrival = _arrivals(jobs, machines, rng)
    start = earliest_starts(dags, arrival, duration)
    return BatchTrace(
        job_offset=dags.job_offset,
        arrival_s=arrival,
        parent_offset=dags.parent_offset,
        parent=dags.parent,
        level=dags.level,
        instances=instances,
        plan_cpu=plan_cpu,
        plan_memory=plan_memory,
        start_s=start,
        end_s=start + duration,
        instance_s=instance_s,
        cpu_used=draw(published.CPU_USED, rng.random(tasks)),
        memory_used=draw(published.MEMORY_USED, rng.random(tasks), step=0.01),
    )


def draw(knots: published.Knots, u: Float, step: float = 1.0) -> Float:
    """Inverse transform: the value below which a share u lies. Between knots log-linear, rounded up to `step`.

    Exact at the knots: a share of values equal to each knot's is at most it.
    """
    value, share = np.array(knots).T
    at = np.minimum(np.searchsorted(share, u, side="left"), len(share) - 1)
    below = np.where(at > 0, value[at - 1], value[0])
    share_below = np.where(at > 0, share[at - 1], 0.0)
    fraction = np.clip((u - share_below) / np.maximum(share[at] - share_below, 1e-300), 0.0, 1.0)
    start = np.maximum(below, step / 2)
    between = start * (np.maximum(value[at], start) / start) ** fraction
    rounded = np.ceil(between / step - 1e-9) * step
    return np.round(np.where(at == 0, value[0], np.clip(rounded, below + step, value[at])), 9)


def draw_atoms(atoms: published.Knots, u: Float) -> Float:
    """The atom, in the order given, whose cumulated weight reaches u."""
    value, weight = np.array(atoms).T
    return value[np.minimum(np.searchsorted(np.cumsum(weight) / weight.sum(), u, side="left"), len(value) - 1)]


def batch_core_seconds(instances: int, mean_s: float = MEAN_INSTANCE_S, mean_cores: float = MEAN_PLAN_CORES) -> float:
    """Cores times seconds that so many real instances ask for."""
    return instances * mean_s * mean_cores


def seconds_filled(core_seconds: float, machines: int, share: float, cores: int = CORES_PER_MACHINE) -> float:
    """How long that work keeps a share of the machines' cores busy: 20,000 real instances fill 249 machines to 77 % for 30 s."""
    if not (machines > 0 and 0 < share <= 1 and cores > 0):
        raise InvalidInput("share of machines", (machines, share, cores), "positive counts and a share in (0, 1]")
    return core_seconds / (machines * cores * share)


def _shared(rng: np.random.Generator, job: Int, jobs: int, within: float) -> Float:
    """Standard normal scores of tasks, correlated by `within` inside a job."""
    return np.sqrt(within) * rng.standard_normal(jobs)[job] + np.sqrt(1 - within) * rng.standard_normal(len(job))


def _plan_memory(u: Float, whole_core: Mask) -> Float:
    value, weight, share = np.array(published.PLAN_MEMORY).T
    small = draw_atoms(tuple(zip(value, weight * (1 - share), strict=True)), u)
    large = draw_atoms(tuple(zip(value, weight * share, strict=True)), u)
    return np.where(whole_core, large, small)


@cache
def _rank_by_instances() -> tuple[Float, Float]:
    """For shares of tasks by duration, the share of *instances* in tasks at most that long: E[n P(D <= d | n)] / E[n].

    Duration and number of instances are joined by a Gaussian copula, so the inner probability is
    Phi((Phi^-1(share) - rho z) / sqrt(1 - rho^2)) at the score z of n.
    """
    rho = published.DURATION_WITH_INSTANCES
    z = ndtri((np.arange(20_000) + 0.5) / 20_000)
    weight = draw(published.INSTANCES_PER_TASK, ndtr(z))
    share = np.concatenate([[0.0], np.linspace(1e-4, 0.99, 400), 1 - np.geomspace(0.01, 1e-7, 200), [1.0]])
    inner = ndtr((ndtri(share)[:, None] - rho * z) / np.sqrt(1 - rho**2))
    return share, inner @ weight / weight.sum()


def _instance_durations(duration_u: Float) -> Int:
    share, by_instances = _rank_by_instances()
    return draw(published.INSTANCE_DURATION_S, np.interp(duration_u, share, by_instances)).astype(np.int64)


def _arrivals(jobs: int, machines: int, rng: np.random.Generator) -> Int:
    """Arrival times in whole seconds; each job of the source is kept with the machines' ratio, so gaps add up."""
    keep = machines / published.SOURCE_MACHINES
    skipped = rng.geometric(keep, jobs)
    total = 0
    arrival = np.empty(jobs, dtype=np.int64)
    most = 4_000_000  # gaps drawn at a time
    ends = np.cumsum(skipped)
    first = 0
    while first < jobs:
        offset = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, offset + most, side="right")))
        gaps = draw(published.JOB_GAP_S, rng.random(int(ends[last - 1]) - offset)).astype(np.int64)
        times = np.cumsum(gaps) + total
        arrival[first:last] = times[ends[first:last] - offset - 1]
        total = int(times[-1])
        first = last
    return arrival - arrival[0] + FIRST_ARRIVAL_S
