"""Placement of ready tasks in the dag scenario, compiled: heaps, the choice of nodes, and the rounds between events.

A round starts pods in key order until none fits. A task whose first pod cannot be placed blocks the tasks with the same
CPU request only. A task is given up before its first pod if its job is estimated to miss its deadline; it then waits in
the second rank.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.compiled import njit
from cotenant.policy.placement.job_order import OrderKnobs, given_up_at, trust
from cotenant_lab.scenarios.dag_state import RANKS, CountColumn, DagState, Fixed, NodeChoice

_FIRST, _BEST, _LEAST = int(NodeChoice.FIRST_FIT), int(NodeChoice.BEST_FIT), int(NodeChoice.LEAST_ALLOCATED)
_RUNNING, _SPARE, _ROUNDS, _WAITING = (
    int(CountColumn.RUNNING),
    int(CountColumn.SPARE),
    int(CountColumn.ROUNDS),
    int(CountColumn.WAITING),
)
PATIENCE_S = 600.0
FEW_PODS = 8  # up to this number, a scan per pod is cheaper than building a heap


@njit
def push(heap: Int, size: int, item: int, key: Float) -> None:
    """Add to a heap of `size` items, ordered by key, then item."""
    i = size
    while i > 0:
        parent = (i - 1) // 2
        if key[heap[parent]] < key[item] or (key[heap[parent]] == key[item] and heap[parent] < item):
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = item


@njit
def pop(heap: Int, size: int, key: Float) -> int:
    """Remove and return the first of `size` items."""
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
def _best_node(t: int, where: int, fixed: Fixed, state: DagState) -> int:
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
def _start(t: int, fixed: Fixed, state: DagState) -> None:
    """Make one wave of the pods in `pods_on`: one record per node, chained, and the first of them in the heap."""
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
    push(r.heap, state.counts[_RUNNING], first, r.end_s)
    state.counts[_RUNNING] += 1


@njit
def _take(t: int, n: int, pods: int, fixed: Fixed, state: DagState) -> None:
    state.free_cpu[n] -= pods * fixed.cpu[t]
    state.free_memory[n] -= pods * fixed.memory[t]
    state.waiting[t] -= pods
    state.counts[_WAITING] -= pods * fixed.cpu[t]
    state.pods_on[n] += pods


@njit
def _fill(t: int, where: int, fixed: Fixed, state: DagState) -> None:
    """First-fit and best-fit: the node chosen for one pod is used until it is full."""
    while state.waiting[t] > 0:
        n = _best_node(t, where, fixed, state)
        if n < 0:
            break
        pods = min(state.waiting[t], state.free_cpu[n] // fixed.cpu[t])
        if fixed.memory[t] > 0:
            pods = min(pods, state.free_memory[n] // fixed.memory[t])
        _take(t, n, pods, fixed, state)


@njit
def _spread(t: int, fixed: Fixed, state: DagState) -> None:
    """Least-allocated, pod by pod; for many pods, from a heap of the nodes by free capacity."""
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
            push(state.order, size, n, state.left)
            size += 1
    while state.waiting[t] > 0 and size > 0:
        n = pop(state.order, size, state.left)
        size -= 1
        _take(t, n, 1, fixed, state)
        if state.free_cpu[n] >= cpu and state.free_memory[n] >= memory:
            state.left[n] = -(state.free_cpu[n] / fixed.node_cpu + state.free_memory[n] / fixed.node_memory)
            push(state.order, size, n, state.left)
            size += 1


@njit
def _given_up(t: int, knobs: OrderKnobs, fixed: Fixed, state: DagState) -> bool:
    j = fixed.job[t]
    deadline = fixed.deadline_s[j]
    scale = trust(fixed.arrival_s[j], deadline, fixed.job_path_s[j], knobs)
    return given_up_at(state.now[0], deadline, scale * fixed.path_s[t], scale * state.work_left[j], knobs)


@njit
def _next_kind(rank: int, blocked: Mask, state: DagState) -> int:
    """The CPU request whose first task has the smallest key, -1 if all are blocked or empty."""
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
def place(where: int, knobs: OrderKnobs, fixed: Fixed, state: DagState) -> int:
    """Start waiting pods until none fits; returns the number started."""
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
                pop(state.queue[0, kind], state.queued[0, kind], state.key)
                state.queued[0, kind] -= 1
                state.key[t] = state.work_left[j]
                push(state.queue[1, kind], state.queued[1, kind], t, state.key)
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
                pop(state.queue[rank, kind], state.queued[rank, kind], state.key)
                state.queued[rank, kind] -= 1
            else:
                blocked[kind] = True
    return placed
