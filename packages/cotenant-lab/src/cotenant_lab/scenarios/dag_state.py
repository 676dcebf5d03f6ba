"""State of the dag scenario's event loop: inputs, mutable arrays, and their construction from a workload.

Millions of pods in a few hundred thousand events. Pods of a task are interchangeable, so those that start at one time
are one wave with one end, with one record per node; ready tasks wait in heaps, one for each CPU request (a request that
fits nowhere then blocks only its own heap until a wave ends) and each of two ranks (given up or not).
Limits: arrays are allocated for the largest possible number of waves at once.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant_lab.workloads.dag import Arrivals, children_of, paths


class NodeChoice(IntEnum):
    """The node choice for a task's next pods."""

    FIRST_FIT = 0
    BEST_FIT = 1
    LEAST_ALLOCATED = 2


class CountColumn(IntEnum):
    """Columns of `State.counts`."""

    ARRIVED = 0  # jobs
    RUNNING = 1  # waves in the heap
    SPARE = 2  # unused records
    ROUNDS = 3  # placements made
    SAMPLED = 4  # rows of `samples` filled
    WAITING = 5  # milli-CPU of ready pods that have not started


RANKS = 2  # 0: can make its deadline, 1: given up
SAMPLE_S = 60.0


class Fixed(NamedTuple):
    """The immutable inputs. J jobs, T tasks, E edges, N nodes, C distinct CPU requests."""

    start: Int  # [J + 1]
    arrival_s: Float  # [J]
    deadline_s: Float  # [J]
    job: Int  # [T]
    pods: Int  # [T]
    cpu: Int  # [T]
    memory: Int  # [T]
    kind: Int  # [T] index of the distinct CPU request
    duration_s: Float  # [T]
    path_s: Float  # [T] estimated, from the task's start to its job's end
    own_work: Float  # [T] estimated core-seconds
    job_path_s: Float  # [J] estimated, of the whole job
    parents: Int  # [T]
    child_start: Int  # [T + 1]
    child: Int  # [E] task
    window: Float  # [2] seconds, in which use is measured
    node_cpu: int  # milli-CPU of every node
    node_memory: int  # bytes of every node


class RunningWaves(NamedTuple):
    """Waves: pods of one task that end together, as chained records, one per node, and a heap of waves by end. M
    records.
    """

    end_s: Float  # [M] of the wave, in its first record
    task: Int
    node: Int
    pods: Int
    after: Int  # [M] the next record of the same wave, -1 = none
    heap: Int  # [M] first records of waves, the earliest end first
    spare: Int  # [M] unused records, used from the end


class DagState(NamedTuple):
    """The mutable state."""

    now: Float  # [1]
    counts: Int  # [len(Count)]
    free_cpu: Int  # [N]
    free_memory: Int  # [N]
    waiting: Int  # [T] pods not started
    unfinished: Int  # [T] pods not ended
    missing: Int  # [T] parents not ended
    tasks_left: Int  # [J]
    work_left: Float  # [J] estimated core-seconds of tasks not ended
    ready_s: Float  # [T] NaN = not ready yet
    started_s: Float  # [T] when the last pod started
    late_pods: Int  # [T] pods that started later than PATIENCE_S after the task became ready
    end_s: Float  # [J] inf = not ended
    key: Float  # [T]
    queue: Int  # [RANKS, C, T] heaps of ready tasks by key
    queued: Int  # [RANKS, C]
    pods_on: Int  # [N] scratch
    order: Int  # [N] scratch
    left: Float  # [N] scratch
    used: Float  # [2] core-seconds and GiB-seconds requested within the window
    samples: Float  # [S, 2] fraction of the CPU allocated, and CPU waiting as a fraction, every SAMPLE_S
    running: RunningWaves


def prepare(
    arrivals: Arrivals, nodes: int, node_cpu: int, node_memory: int, window: tuple[float, float]
) -> tuple[Fixed, DagState]:
    """Arrays of a workload for the loop; paths and work are derived from the estimates, never from the durations."""
    g = arrivals.graph
    jobs, tasks = len(g.start) - 1, len(g.pods)
    child = children_of(g)
    distinct, kind = np.unique(g.cpu, return_inverse=True)
    path = paths(g, arrivals.estimate_s)
    own_work = g.pods * g.cpu / 1000.0 * arrivals.estimate_s
    fixed = Fixed(
        start=g.start,
        arrival_s=arrivals.arrival_s,
        deadline_s=arrivals.deadline_s,
        job=np.repeat(np.arange(jobs), np.diff(g.start)),
        pods=g.pods,
        cpu=g.cpu,
        memory=g.memory,
        kind=kind.astype(np.int64),
        duration_s=g.duration_s,
        path_s=path,
        own_work=own_work,
        job_path_s=np.maximum.reduceat(path, g.start[:-1]),
        parents=np.bincount(child, minlength=tasks).astype(np.int64),
        child_start=g.child_start,
        child=child,
        window=np.array(window),
        node_cpu=node_cpu,
        node_memory=node_memory,
    )
    records = nodes * (node_cpu // int(distinct[0])) + 1
    running = RunningWaves(
        end_s=np.zeros(records),
        task=np.zeros(records, np.int64),
        node=np.zeros(records, np.int64),
        pods=np.zeros(records, np.int64),
        after=np.zeros(records, np.int64),
        heap=np.zeros(records, np.int64),
        spare=np.arange(records, dtype=np.int64),
    )
    counts = np.zeros(len(CountColumn), np.int64)
    counts[CountColumn.SPARE] = records
    state = DagState(
        now=np.zeros(1),
        counts=counts,
        free_cpu=np.full(nodes, node_cpu),
        free_memory=np.full(nodes, node_memory),
        waiting=g.pods.copy(),
        unfinished=g.pods.copy(),
        missing=fixed.parents.copy(),
        tasks_left=np.diff(g.start),
        work_left=np.add.reduceat(own_work, g.start[:-1]),
        ready_s=np.full(tasks, np.nan),
        started_s=np.full(tasks, np.nan),
        late_pods=np.zeros(tasks, np.int64),
        end_s=np.full(jobs, np.inf),
        key=np.zeros(tasks),
        queue=np.zeros((RANKS, len(distinct), tasks), np.int64),
        queued=np.zeros((RANKS, len(distinct)), np.int64),
        pods_on=np.zeros(nodes, np.int64),
        order=np.zeros(nodes, np.int64),
        left=np.zeros(nodes),
        used=np.zeros(2),
        samples=np.zeros((int(window[1] // SAMPLE_S) + 1, 2)),
        running=running,
    )
    return fixed, state
