"""The event loop of the dag scenario, compiled: arrivals, waves of pods that end together, barriers, and placement in between.

Problem: millions of pods in a few hundred thousand events. Choice: pods of a task are interchangeable, so those that start at one time
are one wave with one end, a record a node; ready tasks wait in heaps, one for each CPU request (a request that fits nowhere then
blocks only its own heap until something ends) and each of two ranks (given up or not). Placement runs after every event time.
Limits: no contention (a pod runs its duration), no failures, no preemption: a started pod runs to its end.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from cotenant.lab.workloads.dag import Arrivals, children_of, paths
from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.compiled import njit
from cotenant.policy.placement.job_order import OrderKnobs, given_up_at, key_at, trust


class Where(IntEnum):
    """Which node a task's next pods go to."""

    FIRST_FIT = 0
    BEST_FIT = 1
    LEAST_ALLOCATED = 2


class Count(IntEnum):
    """Columns of `State.counts`."""

    ARRIVED = 0  # jobs
    RUNNING = 1  # waves in the heap
    SPARE = 2  # records not in use
    ROUNDS = 3  # placements made
    SAMPLED = 4  # rows of `samples` filled
    WAITING = 5  # milli-CPU of ready pods that have not started


_FIRST, _BEST, _LEAST = int(Where.FIRST_FIT), int(Where.BEST_FIT), int(Where.LEAST_ALLOCATED)
_ARRIVED, _RUNNING, _SPARE = int(Count.ARRIVED), int(Count.RUNNING), int(Count.SPARE)
_ROUNDS, _SAMPLED, _WAITING = int(Count.ROUNDS), int(Count.SAMPLED), int(Count.WAITING)
RANKS = 2  # 0: can make its deadline, 1: given up
PATIENCE_S = 600.0
SAMPLE_S = 60.0
FEW_PODS = 8  # up to here scanning for each is cheaper than building a heap
GIB = 2.0**30


class Fixed(NamedTuple):
    """What does not change. J jobs, T tasks, E edges, N nodes, C distinct CPU requests."""

    start: Int  # [J + 1]
    arrival_s: Float  # [J]
    deadline_s: Float  # [J]
    job: Int  # [T]
    pods: Int  # [T]
    cpu: Int  # [T]
    memory: Int  # [T]
    kind: Int  # [T] which distinct CPU request
    duration_s: Float  # [T]
    path_s: Float  # [T] estimated, from the task's start to its job's end
    own_work: Float  # [T] estimated core-seconds
    job_path_s: Float  # [J] estimated, of the whole job
    parents: Int  # [T]
    child_start: Int  # [T + 1]
    child: Int  # [E] task
    window: Float  # [2] seconds, over which use is observed
    node_cpu: int  # milli-CPU of every node
    node_memory: int  # bytes of every node


class Running(NamedTuple):
    """Waves: pods of one task that end together, as chained records, a node each, and a heap of them by end. M records."""

    end_s: Float  # [M] of the wave, in its first record
    task: Int
    node: Int
    pods: Int
    after: Int  # [M] the next record of the same wave, -1 = none
    heap: Int  # [M] first records of waves, the earliest end first
    spare: Int  # [M] records not in use, the last ones first


class State(NamedTuple):
    """What changes."""

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
    running: Running


def prepare(
    arrivals: Arrivals, nodes: int, node_cpu: int, node_memory: int, window: tuple[float, float]
) -> tuple[Fixed, State]:
    """Lay a workload out for the loop; paths and work are derived from the estimates, never from the durations."""
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
    running = Running(
        end_s=np.zeros(records),
        task=np.zeros(records, np.int64),
        node=np.zeros(records, np.int64),
        pods=np.zeros(records, np.int64),
        after=np.zeros(records, np.int64),
        heap=np.zeros(records, np.int64),
        spare=np.arange(records, dtype=np.int64),
    )
    counts = np.zeros(len(Count), np.int64)
    counts[Count.SPARE] = records
    state = State(
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


@njit
def _push(heap: Int, size: int, item: int, key: Float) -> None:
    i = size
    while i > 0:
        parent = (i - 1) // 2
        if key[heap[parent]] < key[item] or (key[heap[parent]] == key[item] and heap[parent] < item):
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = item


@njit
def _pop(heap: Int, size: int, key: Float) -> int:
    top = heap[0]
    last = heap[size - 1]
    size -= 1
    i = 0
    while True:
        c = 2 * i + 1
        if c >= size:
            break
        if c + 1 < size:
            a, b = heap[c], heap[c + 1]
            if key[b] < key[a] or (key[b] == key[a] and b < a):
                c += 1
        if key[last] < key[heap[c]] or (key[last] == key[heap[c]] and last < heap[c]):
            break
        heap[i] = heap[c]
        i = c
    if size > 0:
        heap[i] = last
    return top


@njit
def _ready(t: int, order: int, knobs: OrderKnobs, fixed: Fixed, state: State) -> None:
    j = fixed.job[t]
    state.ready_s[t] = state.now[0]
    arrival, deadline = fixed.arrival_s[j], fixed.deadline_s[j]
    scale = trust(arrival, deadline, fixed.job_path_s[j], knobs)
    state.key[t] = key_at(order, arrival, deadline, scale * fixed.path_s[t], scale * state.work_left[j], knobs)
    state.counts[_WAITING] += fixed.pods[t] * fixed.cpu[t]
    kind = fixed.kind[t]
    _push(state.queue[0, kind], state.queued[0, kind], t, state.key)
    state.queued[0, kind] += 1


@njit
def _best_node(t: int, where: int, fixed: Fixed, state: State) -> int:
    cpu, memory = fixed.cpu[t], fixed.memory[t]
    best, best_left = -1, np.inf
    for n in range(state.free_cpu.shape[0]):
        if state.free_cpu[n] >= cpu and state.free_memory[n] >= memory:
            if where == _FIRST:
                return n
            left = state.free_cpu[n] / fixed.node_cpu + state.free_memory[n] / fixed.node_memory
            if where != _BEST:
                left = -left
            if left < best_left:
                best, best_left = n, left
    return best


@njit
def _start(t: int, fixed: Fixed, state: State) -> None:
    """Make one wave of the pods in `pods_on`: a record a node, chained, and the first of them in the heap."""
    r = state.running
    first = -1
    for n in range(state.pods_on.shape[0]):
        if state.pods_on[n] > 0:
            state.counts[_SPARE] -= 1
            i = r.spare[state.counts[_SPARE]]
            r.task[i] = t
            r.node[i] = n
            r.pods[i] = state.pods_on[n]
            r.after[i] = first
            first = i
            state.pods_on[n] = 0
    r.end_s[first] = state.now[0] + fixed.duration_s[t]
    _push(r.heap, state.counts[_RUNNING], first, r.end_s)
    state.counts[_RUNNING] += 1


@njit
def _take(t: int, n: int, pods: int, fixed: Fixed, state: State) -> None:
    state.free_cpu[n] -= pods * fixed.cpu[t]
    state.free_memory[n] -= pods * fixed.memory[t]
    state.waiting[t] -= pods
    state.counts[_WAITING] -= pods * fixed.cpu[t]
    state.pods_on[n] += pods


@njit
def _fill(t: int, where: int, fixed: Fixed, state: State) -> None:
    """First-fit and best-fit: the node chosen for one pod stays the choice until it is full."""
    while state.waiting[t] > 0:
        n = _best_node(t, where, fixed, state)
        if n < 0:
            break
        pods = min(state.waiting[t], state.free_cpu[n] // fixed.cpu[t])
        if fixed.memory[t] > 0:
            pods = min(pods, state.free_memory[n] // fixed.memory[t])
        _take(t, n, pods, fixed, state)


@njit
def _spread(t: int, fixed: Fixed, state: State) -> None:
    """Least-allocated, pod by pod; for many pods, from a heap of the nodes by what they have left."""
    while 0 < state.waiting[t] <= FEW_PODS:
        n = _best_node(t, _LEAST, fixed, state)
        if n < 0:
            return
        _take(t, n, 1, fixed, state)
    cpu, memory = fixed.cpu[t], fixed.memory[t]
    size = 0
    for n in range(state.free_cpu.shape[0]):
        if state.free_cpu[n] >= cpu and state.free_memory[n] >= memory:
            state.left[n] = -(state.free_cpu[n] / fixed.node_cpu + state.free_memory[n] / fixed.node_memory)
            _push(state.order, size, n, state.left)
            size += 1
    while state.waiting[t] > 0 and size > 0:
        n = _pop(state.order, size, state.left)
        size -= 1
        _take(t, n, 1, fixed, state)
        if state.free_cpu[n] >= cpu and state.free_memory[n] >= memory:
            state.left[n] = -(state.free_cpu[n] / fixed.node_cpu + state.free_memory[n] / fixed.node_memory)
            _push(state.order, size, n, state.left)
            size += 1


@njit
def _given_up(t: int, knobs: OrderKnobs, fixed: Fixed, state: State) -> bool:
    j = fixed.job[t]
    deadline = fixed.deadline_s[j]
    scale = trust(fixed.arrival_s[j], deadline, fixed.job_path_s[j], knobs)
    return given_up_at(state.now[0], deadline, scale * fixed.path_s[t], scale * state.work_left[j], knobs)


@njit
def _next_kind(rank: int, blocked: Mask, state: State) -> int:
    """The kind whose first task has the least key, -1 if all are blocked or empty."""
    best = -1
    for c in range(blocked.shape[0]):
        if blocked[c] or state.queued[rank, c] == 0:
            continue
        if best < 0:
            best = c
            continue
        a, b = state.queue[rank, c, 0], state.queue[rank, best, 0]
        if state.key[a] < state.key[b] or (state.key[a] == state.key[b] and a < b):
            best = c
    return best


@njit
def place(where: int, knobs: OrderKnobs, fixed: Fixed, state: State) -> int:
    """Start pods until nothing that waits fits; how many were started."""
    now = state.now[0]
    state.counts[_ROUNDS] += 1
    placed = 0
    for rank in range(RANKS):
        blocked = np.zeros(state.queued.shape[1], np.bool_)
        while True:
            kind = _next_kind(rank, blocked, state)
            if kind < 0:
                break
            t = state.queue[rank, kind, 0]
            j = fixed.job[t]
            before = state.waiting[t]
            untouched = before == fixed.pods[t]
            if rank == 0 and untouched and _given_up(t, knobs, fixed, state):
                _pop(state.queue[0, kind], state.queued[0, kind], state.key)
                state.queued[0, kind] -= 1
                state.key[t] = state.work_left[j]
                _push(state.queue[1, kind], state.queued[1, kind], t, state.key)
                state.queued[1, kind] += 1
                continue
            if where <= _BEST:
                _fill(t, where, fixed, state)
            else:
                _spread(t, fixed, state)
            started = before - state.waiting[t]
            if started > 0:
                _start(t, fixed, state)
                placed += started
                state.started_s[t] = now
                if now > state.ready_s[t] + PATIENCE_S:
                    state.late_pods[t] += started
            if state.waiting[t] == 0:
                _pop(state.queue[rank, kind], state.queued[rank, kind], state.key)
                state.queued[rank, kind] -= 1
            else:
                blocked[kind] = True
    return placed


@njit
def _end(i: int, order: int, knobs: OrderKnobs, fixed: Fixed, state: State) -> None:
    """The wave that begins with record i ends."""
    r = state.running
    t = r.task[i]
    while i >= 0:
        n, pods = r.node[i], r.pods[i]
        state.free_cpu[n] += pods * fixed.cpu[t]
        state.free_memory[n] += pods * fixed.memory[t]
        state.unfinished[t] -= pods
        r.spare[state.counts[_SPARE]] = i
        state.counts[_SPARE] += 1
        i = r.after[i]
    if state.unfinished[t] > 0:
        return
    j = fixed.job[t]
    state.work_left[j] -= fixed.own_work[t]
    state.tasks_left[j] -= 1
    if state.tasks_left[j] == 0:
        state.end_s[j] = state.now[0]
    for e in range(fixed.child_start[t], fixed.child_start[t + 1]):
        c = fixed.child[e]
        state.missing[c] -= 1
        if state.missing[c] == 0:
            _ready(c, order, knobs, fixed, state)


@njit
def _observe(until: float, fixed: Fixed, state: State) -> None:
    """Account for the time up to `until`, over which nothing changes."""
    free_cpu, free_memory = 0, 0
    for n in range(state.free_cpu.shape[0]):
        free_cpu += state.free_cpu[n]
        free_memory += state.free_memory[n]
    nodes = state.free_cpu.shape[0]
    capacity = float(nodes * fixed.node_cpu)
    span = min(until, fixed.window[1]) - max(state.now[0], fixed.window[0])
    if span > 0.0:
        state.used[0] += span * (capacity - free_cpu) / 1000.0
        state.used[1] += span * (float(nodes) * fixed.node_memory - free_memory) / GIB
    while state.counts[_SAMPLED] < state.samples.shape[0] and state.counts[_SAMPLED] * SAMPLE_S <= until:
        state.samples[state.counts[_SAMPLED], 0] = 1.0 - free_cpu / capacity
        state.samples[state.counts[_SAMPLED], 1] = state.counts[_WAITING] / capacity
        state.counts[_SAMPLED] += 1


@njit
def advance(order: int, knobs: OrderKnobs, fixed: Fixed, state: State) -> bool:
    """Move to the next time at which anything happens, and let it happen; False when nothing is left to come."""
    r = state.running
    jobs = fixed.arrival_s.shape[0]
    to = np.inf
    if state.counts[_ARRIVED] < jobs:
        to = fixed.arrival_s[state.counts[_ARRIVED]]
    if state.counts[_RUNNING] > 0:
        to = min(to, r.end_s[r.heap[0]])
    if to == np.inf:
        return False
    _observe(to, fixed, state)
    state.now[0] = to
    while state.counts[_RUNNING] > 0 and r.end_s[r.heap[0]] <= to:
        i = _pop(r.heap, state.counts[_RUNNING], r.end_s)
        state.counts[_RUNNING] -= 1
        _end(i, order, knobs, fixed, state)
    while state.counts[_ARRIVED] < jobs and fixed.arrival_s[state.counts[_ARRIVED]] <= to:
        j = state.counts[_ARRIVED]
        state.counts[_ARRIVED] += 1
        for t in range(fixed.start[j], fixed.start[j + 1]):
            if fixed.parents[t] == 0:
                _ready(t, order, knobs, fixed, state)
    return True


@njit
def play(rounds: int, until_ready: int, order: int, where: int, knobs: OrderKnobs, fixed: Fixed, state: State) -> bool:
    """Up to `rounds` event times, each followed by a placement; False when all has ended.

    With `until_ready` >= 0, stops before the placement at the time that task becomes ready.
    """
    for _ in range(rounds):
        if not advance(order, knobs, fixed, state):
            return False
        if until_ready >= 0 and not np.isnan(state.ready_s[until_ready]):
            return True
        place(where, knobs, fixed, state)
    return True
