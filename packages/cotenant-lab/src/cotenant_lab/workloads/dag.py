"""Batch jobs as graphs of tasks, arriving over hours: real ones of Alibaba's 2018 trace, or drawn to its published
figures.

The public sample of DAG jobs over-represents large jobs, has no arrival times, and comes from a cluster sixteen times
as large as the simulated one. A pool of whole jobs (graph, pods, requests, durations stay together); the probability of
a job follows the full trace's tasks-per-job histogram. One-task jobs, which the sample leaves out although they are 38
% of all, are tasks without parents taken from jobs of two or three tasks. Jobs arrive at uniform times (a Poisson
process given its number) until their work is `load` of the cluster's CPU over the arrival window; a job's deadline is k
times its isolated time plus 60 s, k of 1.5, 2, 3 equally likely. A pool may be limited to one half of the jobs
(job_parts.py); the weights are then those of that half alone. Left out and counted: jobs with a dropped row or a fault
in their graph, and jobs wider or longer than the limits below.
Limits: all pods of a task take the task's recorded duration; recorded starts often precede the parents' ends, so paths
are upper estimates.
Sources: Tian, Zheng, Wang, "Characterizing and Synthesizing Task Dependencies of Data-Parallel Jobs", SoCC 2019, and
its histograms.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.special import ndtr

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.compiled import njit
from cotenant.model.errors import InvalidInput
from cotenant_lab.traces import read_table
from cotenant_lab.traces.dag import job_dags
from cotenant_lab.traces.folder import IN_WORDS, table_file
from cotenant_lab.workloads.job_parts import JobPart, holds

JOBS_FOLDER = "alibaba2018-dag-jobs"
HISTOGRAMS_FOLDER = "alibaba2018-full-distributions"

NODES = 249
NODE_MILLI_CPU = 96_000
GIB = 1 << 30
NODE_MEMORY = 512 * GIB  # the trace gives memory in percent of a machine, so the size only sets the unit
WIDEST = 1 / 3  # of the cluster's CPU, for one task; the trace's widest requested a sixth of a much larger cluster
LONGEST_S = 3_600.0  # isolated time; longer jobs would outlast any measurable window
WARM_UP_S, MEASURED_S, TAIL_S = 3_600.0, 14_400.0, 1_800.0  # arrivals over all three, counted in the second
TIGHTNESS = (1.5, 2.0, 3.0)
GRACE_S = 60.0

# Published figures behind the synthetic pool: (value, share of the population above it), log-linear in between.
SYNTHETIC_JOBS = 4_000
TASKS_PER_JOB = (
    (1, 0.62),
    (2, 0.42),
    (3, 0.29),
    (4, 0.22),
    (5, 0.17),
    (7, 0.10),
    (11, 0.05),
    (20, 0.01),
    (36, 0.001),
    (200, 1e-6),
)
PODS_PER_TASK = ((1, 0.338), (10, 0.181), (100, 0.067), (1_000, 0.0082), (10_000, 0.00026), (70_000, 1e-6))
DURATION_MU, DURATION_SIGMA = 2.15, 1.71  # of the logarithm of seconds
# Correlation behind width and duration; assumed, so that pods' mean duration is several times the tasks'.
WIDE_IS_LONG = 0.5


class Graph(NamedTuple):
    """Tasks of several jobs, concatenated. J jobs, T tasks, E edges."""

    start: Int  # [J + 1] first task of each job
    pods: Int  # [T]
    cpu: Int  # [T] milli-CPU per pod
    memory: Int  # [T] bytes per pod
    duration_s: Float  # [T] of every pod, alone
    child_start: Int  # [T + 1]
    child: Int  # [E] position within the job
    level: Int  # [T] tasks on the longest path that ends here; ascending order puts parents first


@dataclass(frozen=True, slots=True)
class JobPool:
    """Jobs to draw from, with their probabilities."""

    graph: Graph
    weight: Float  # [J] sums to 1
    source: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The jobs of one seed, in order of arrival."""

    graph: Graph
    arrival_s: Float  # [J]
    deadline_s: Float  # [J]
    isolated_s: Float  # [J] the job alone on the cluster
    tightness: Float  # [J] deadline factor
    estimate_s: Float  # [T] duration estimate given to every scheduler
    measured: Mask  # [J] whether the job counts


class DagJob(NamedTuple):
    """One job of a pool: aligned columns over its tasks."""

    pods: Int
    cpu: Int  # milli-CPU per pod
    memory: Int  # bytes per pod
    duration_s: Float
    parents: tuple[tuple[int, ...], ...]  # positions within the job


def _children_and_levels(job: DagJob) -> tuple[list[list[int]], list[int]]:
    """The children of each task, and the number of tasks on the longest path that ends in it. Parents may have any
    position.
    """
    children: list[list[int]] = [[] for _ in job.parents]
    for task, parents in enumerate(job.parents):
        for parent in parents:
            children[parent].append(task)
    level, missing = [1] * len(children), [len(parents) for parents in job.parents]
    ready = [task for task, count in enumerate(missing) if count == 0]
    for task in ready:  # grows during the loop
        for child in children[task]:
            level[child] = max(level[child], level[task] + 1)
            missing[child] -= 1
            if missing[child] == 0:
                ready.append(child)
    return children, level


def graph_of(jobs: list[DagJob]) -> Graph:
    """Concatenate jobs."""
    children, levels = zip(*(_children_and_levels(job) for job in jobs))
    degree = np.array([len(of) for job in children for of in job], np.int64)
    return Graph(
        np.concatenate([[0], np.cumsum([len(job.pods) for job in jobs])]).astype(np.int64),
        np.concatenate([job.pods for job in jobs]).astype(np.int64),
        np.concatenate([job.cpu for job in jobs]).astype(np.int64),
        np.concatenate([job.memory for job in jobs]).astype(np.int64),
        np.concatenate([job.duration_s for job in jobs]).astype(np.float64),
        np.concatenate([[0], np.cumsum(degree)]).astype(np.int64),
        np.array([c for job in children for of in job for c in of], np.int64),
        np.concatenate(levels).astype(np.int64),
    )


def children_of(graph: Graph) -> Int:
    """`Graph.child` as positions among all tasks: `int64[E]`."""
    tasks = np.diff(graph.start)
    return graph.child + np.repeat(np.repeat(graph.start[:-1], tasks), np.diff(graph.child_start))


def paths(graph: Graph, duration_s: Float) -> Float:
    """Seconds from each task's start to its job's end, if all pods had room at once: `float64[T]`."""
    order = np.argsort(-graph.level, kind="stable")
    return _longest(duration_s.copy(), order, graph.child_start, children_of(graph))


@njit
def _longest(path: Float, order: Int, child_start: Int, child: Int) -> Float:
    for t in order:
        longest = 0.0
        for e in range(child_start[t], child_start[t + 1]):
            longest = max(longest, path[child[e]])
        path[t] += longest
    return path


def isolated_s(graph: Graph) -> Float:
    """Seconds each job takes alone on the cluster: `float64[J]`. No task of a pool is wider than the cluster."""
    return np.maximum.reduceat(paths(graph, graph.duration_s), graph.start[:-1])


def work_of(graph: Graph) -> Float:
    """Core-seconds of each job: `float64[J]`."""
    return np.add.reduceat(graph.pods * graph.cpu / 1000.0 * graph.duration_s, graph.start[:-1])


def find_folders(traces: Path) -> tuple[Path, Path]:
    """Folders of the jobs and of the histograms. Raises `InvalidInput` naming `--traces`."""
    for folder in (JOBS_FOLDER, HISTOGRAMS_FOLDER):
        if not (traces / folder).is_dir():
            raise InvalidInput(
                "--traces", str(traces), f"a folder that holds {folder}", "--traces DIR names the folder of all traces"
            )
    return traces / JOBS_FOLDER, traces / HISTOGRAMS_FOLDER


def load_pool(traces: Path | None, part: JobPart = JobPart.ALL) -> JobPool:
    """Real jobs where `traces` is given, else synthetic ones; those of `part` only."""
    return synthetic_pool(part) if traces is None else real_pool(*find_folders(traces), part)


@lru_cache(maxsize=1)
def real_pool(jobs_folder: Path, histograms_folder: Path, part: JobPart = JobPart.ALL) -> JobPool:
    """The trace's jobs, weighted to the full trace's tasks per job. Raises `InvalidInput` for a file of another
    format.
    """
    tasks, tasks_report = read_table("alibaba2018", "batch_task", _file(jobs_folder, "batch_task"))
    bins, bins_report = read_table("alibaba2018-distributions", "histograms", _file(histograms_folder, "histograms"))
    notes = [*tasks_report.sentences(), *bins_report.sentences()]
    faulty: Counter[str] = Counter()
    jobs, instant, others = [], 0, 0
    columns = [tasks[name].to_numpy() for name in ("instance_num", "plan_cpu", "plan_mem", "start_time", "end_time")]
    for name, rows, dag in job_dags(tasks):
        if not holds(part, name):
            others += 1
            continue
        pods, cpu, memory, start, end = (column[rows.to_numpy()] for column in columns)
        if dag.faults:
            faulty[dag.faults[0][1].value] += 1
        elif (cpu <= 0).any():
            faulty["a task requests no CPU"] += 1
        else:
            instant += int((end <= start).sum())
            duration = np.maximum(1.0, end - start)
            jobs.append(DagJob(pods, np.ceil(cpu * 10.0), np.ceil(memory / 100.0 * NODE_MEMORY), duration, dag.parents))
    notes += [f"left out {count:,} jobs: {kind}" for kind, count in faulty.most_common()]
    if others:
        notes.append(_part_note(part, others))
    if instant:
        notes.append(f"{instant:,} tasks that ended in the second they began count as 1 s")
    sizes = bins.filter(pl.col("quantity") == "task_num")
    population = {int(size): int(count) for size, count in zip(sizes["right_closed"], sizes["count"])}
    if not jobs and others:
        raise InvalidInput("workload", f"dag:{part}", "a part that has jobs", f"all {others:,} are in the other half")
    if not jobs or not population:
        raise InvalidInput("--traces", str(jobs_folder.parent), "jobs, and a histogram of tasks per job (task_num)")
    jobs, weight = _reweighted(jobs, population)
    source = "real jobs of Alibaba's 2018 trace (sample of DAG jobs), weighted to the full trace's tasks per job"
    return _capped(jobs, weight, source, notes)


def _file(folder: Path, stem: str) -> Path:
    found = table_file(folder, stem)
    if found is None:
        raise InvalidInput("--traces", str(folder), f"a file {stem}{IN_WORDS} in it")
    return found


def _reweighted(jobs: list[DagJob], population: dict[int, int]) -> tuple[list[DagJob], Float]:
    """Weights so that tasks per job follow `population`; sizes missing from the sample count for the nearest size
    in it.
    """
    size = np.array([len(job.pods) for job in jobs])
    present = np.unique(size)
    share = dict.fromkeys(present.tolist(), 0.0)
    for wanted, count in population.items():
        if wanted > 1 or 1 in share:
            share[int(present[np.argmin(np.abs(present - wanted))])] += count
    held = np.bincount(size)
    weight = np.array([share[int(s)] / held[s] for s in size])
    if 1 in share:
        return jobs, weight
    lone = [
        DagJob(job.pods[t : t + 1], job.cpu[t : t + 1], job.memory[t : t + 1], job.duration_s[t : t + 1], ((),))
        for job in jobs
        if len(job.pods) <= 3
        for t in range(len(job.pods))
        if not job.parents[t]
    ]
    if not lone:
        return jobs, weight
    return [*jobs, *lone], np.concatenate([weight, np.full(len(lone), population.get(1, 0) / len(lone))])


def _capped(jobs: list[DagJob], weight: Float, source: str, notes: list[str]) -> JobPool:
    """Leave out jobs too large for the cluster or the window, and note their share."""
    everything = graph_of(jobs)
    cores = everything.pods * everything.cpu / 1000.0
    widest = np.maximum.reduceat(cores, everything.start[:-1])
    wide = widest > WIDEST * NODES * NODE_MILLI_CPU / 1000.0
    long = isolated_s(everything) > LONGEST_S
    keep = ~wide & ~long
    share, work = weight / weight.sum(), work_of(everything)
    kept = float((share * work)[keep].sum() / (share * work).sum())
    notes.append(
        f"left out {share[wide].sum():.2%} of jobs with a task wider than a third of the cluster and "
        f"{share[long].sum():.2%} longer than "
        f"{LONGEST_S:g} s alone; remaining: {share[keep].sum():.1%} of jobs and {kept:.0%} of their work"
    )
    return JobPool(_drawn(everything, np.flatnonzero(keep)), share[keep] / share[keep].sum(), source, tuple(notes))


def _part_note(part: JobPart, others: int) -> str:
    return f"only the {part} half of the jobs, by a hash of their names; {others:,} jobs are in the other"


@lru_cache(maxsize=1)
def synthetic_pool(part: JobPart = JobPart.ALL) -> JobPool:
    """Jobs drawn from the published figures, with a fixed seed. The i-th is named `synthetic-i`."""
    rng = np.random.default_rng(20180901)
    drawn = [_synthetic_job(rng) for _ in range(SYNTHETIC_JOBS)]
    jobs = [job for i, job in enumerate(drawn) if holds(part, f"synthetic-{i}")]
    source = "synthetic jobs, calibrated to the published figures of Alibaba's 2018 trace (no --traces given)"
    notes = [_part_note(part, len(drawn) - len(jobs))] if len(jobs) < len(drawn) else []
    return _capped(jobs, np.ones(len(jobs)), source, notes)


def _synthetic_job(rng: np.random.Generator) -> DagJob:
    size = int(_survival(TASKS_PER_JOB, 1.0 - rng.random()))
    common = rng.standard_normal(size)  # wide tasks are long: one normal per task drives both
    wide = ndtr(common)
    pods = np.array([int(_survival(PODS_PER_TASK, max(1e-6, 1.0 - u))) for u in wide], np.int64)
    mixed = WIDE_IS_LONG * common + np.sqrt(1.0 - WIDE_IS_LONG**2) * rng.standard_normal(size)
    duration = np.clip(np.round(np.exp(DURATION_MU + DURATION_SIGMA * mixed)), 1.0, 142_574.0)
    cpu = np.where(rng.random(size) < 0.419, 500, 1000).astype(np.int64)
    memory = rng.choice(np.array([0.20, 0.30, 0.39, 0.49, 0.59, 0.79]), size, p=[0.34, 0.23, 0.22, 0.12, 0.06, 0.03])
    return DagJob(
        pods, cpu, np.ceil(memory / 100.0 * NODE_MEMORY).astype(np.int64), duration, _synthetic_parents(size, rng)
    )


def _survival(curve: tuple[tuple[float, float], ...], probability: float) -> float:
    """The smallest whole value that is exceeded with at most `probability`; log-linear between the points (value,
    P(above)).
    """
    value, above = np.array(curve).T
    if probability >= above[0]:
        return float(value[0])
    return float(np.ceil(np.exp(np.interp(-np.log(probability), -np.log(above), np.log(value)))))


def _synthetic_parents(size: int, rng: np.random.Generator) -> tuple[tuple[int, ...], ...]:
    """A chain, an in-tree, an out-tree or a layered graph, with the frequencies of the sample; three or four levels
    unless a chain.
    """
    kind = rng.random()
    if size <= 2 or kind < 0.25:
        return tuple(() if t == 0 else (t - 1,) for t in range(size))
    levels = min(size - 1, int(rng.integers(3, 5)))
    level = np.sort(np.concatenate([np.arange(levels), rng.integers(0, levels, size - levels)]))
    if kind < 0.55:  # in-tree: one sink, each task feeds one of the next level
        level = np.sort(np.concatenate([np.arange(levels), rng.integers(0, levels - 1, size - levels)]))
        feeds = [
            int(rng.choice(np.flatnonzero(level == level[t] + 1))) if level[t] < levels - 1 else -1 for t in range(size)
        ]
        return tuple(tuple(p for p in range(size) if feeds[p] == t) for t in range(size))
    if kind < 0.59:  # out-tree: one source
        level = np.sort(np.concatenate([np.arange(levels), rng.integers(1, levels, size - levels)]))
        return tuple((int(rng.choice(np.flatnonzero(level == level[t] - 1))),) if level[t] else () for t in range(size))
    parents = []
    for t in range(size):
        before = np.flatnonzero(level == level[t] - 1)
        count = min(len(before), int(rng.integers(1, 3)))
        parents.append(tuple(sorted(int(p) for p in rng.choice(before, count, replace=False))) if level[t] else ())
    return tuple(parents)


def make(pool: JobPool, load: float, seed: int, estimate_error: float) -> Arrivals:
    """The jobs of one seed: drawn until their work is `load` of the cluster's CPU over the arrival window."""
    rng = np.random.default_rng([seed, 0])
    window = WARM_UP_S + MEASURED_S + TAIL_S
    target = load * NODES * (NODE_MILLI_CPU // 1000) * window
    work = work_of(pool.graph)
    expected = float(pool.weight @ work)
    picks = rng.choice(len(work), int(2.0 * target / expected) + 1_000, p=pool.weight)
    while work[picks].sum() < target:
        picks = np.concatenate([picks, rng.choice(len(work), len(picks), p=pool.weight)])
    picks = picks[: int(np.searchsorted(np.cumsum(work[picks]), target)) + 1]
    graph = _drawn(pool.graph, picks)
    alone = isolated_s(pool.graph)[picks]
    arrival = np.sort(rng.uniform(0.0, window, len(picks)))
    tightness = rng.choice(np.array(TIGHTNESS), len(picks))
    deadline = arrival + tightness * alone + GRACE_S
    # durations are harder to estimate than other figures: 1.5 times the error
    estimate = graph.duration_s * rng.lognormal(0.0, 1.5 * estimate_error, len(graph.pods))
    measured = (arrival >= WARM_UP_S) & (arrival < WARM_UP_S + MEASURED_S)
    return Arrivals(graph, arrival, deadline, alone, tightness, estimate, measured)


def _drawn(graph: Graph, picks: Int) -> Graph:
    """The picked jobs, concatenated (a job may be picked more than once)."""
    tasks, task_at = _ranges(graph.start[picks], graph.start[picks + 1])
    _, edge_at = _ranges(graph.child_start[task_at], graph.child_start[task_at + 1])
    degree = np.diff(graph.child_start)[task_at]
    return Graph(
        np.concatenate([[0], np.cumsum(tasks)]).astype(np.int64),
        graph.pods[task_at],
        graph.cpu[task_at],
        graph.memory[task_at],
        graph.duration_s[task_at],
        np.concatenate([[0], np.cumsum(degree)]).astype(np.int64),
        graph.child[edge_at],
        graph.level[task_at],
    )


def _ranges(first: Int, last: Int) -> tuple[Int, Int]:
    """Lengths of the ranges [first, last), and all their members concatenated."""
    length = last - first
    ends = np.cumsum(length)
    return length, np.arange(int(ends[-1]), dtype=np.int64) - np.repeat(ends - length, length) + np.repeat(
        first, length
    )
