"""The event loop of the dag scenario, compiled: arrivals, ends of waves, barriers, and a placement after every event
time.

Limits: no contention (a pod runs its duration), no failures, no preemption: a started pod runs to its end.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.compiled import njit
from cotenant.policy.placement.job_order import OrderKnobs, key_at, trust
from cotenant_lab.scenarios.dag_placement import place, pop, push
from cotenant_lab.scenarios.dag_state import SAMPLE_S, CountColumn, DagState, Fixed

_ARRIVED, _RUNNING, _SPARE = int(CountColumn.ARRIVED), int(CountColumn.RUNNING), int(CountColumn.SPARE)
_SAMPLED, _WAITING = int(CountColumn.SAMPLED), int(CountColumn.WAITING)
GIB = 2.0**30


@njit
def _ready(t: int, order: int, knobs: OrderKnobs, fixed: Fixed, state: DagState) -> None:
    j = fixed.job[t]
    state.ready_s[t] = state.now[0]
    arrival, deadline = fixed.arrival_s[j], fixed.deadline_s[j]
    scale = trust(arrival, deadline, fixed.job_path_s[j], knobs)
    state.key[t] = key_at(order, arrival, deadline, scale * fixed.path_s[t], scale * state.work_left[j], knobs)
    state.counts[_WAITING] += fixed.pods[t] * fixed.cpu[t]
    kind = fixed.kind[t]
    push(state.queue[0, kind], state.queued[0, kind], t, state.key)
    state.queued[0, kind] += 1


@njit
def _end(i: int, order: int, knobs: OrderKnobs, fixed: Fixed, state: DagState) -> None:
    """End the wave whose first record is i."""
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
def _observe(until: float, fixed: Fixed, state: DagState) -> None:
    """Account for the time up to `until`, in which nothing changes."""
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
def advance(order: int, knobs: OrderKnobs, fixed: Fixed, state: DagState) -> bool:
    """Advance to the time of the next events and process them; False if there are none."""
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
        i = pop(r.heap, state.counts[_RUNNING], r.end_s)
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
def play(
    rounds: int, until_ready: int, order: int, where: int, knobs: OrderKnobs, fixed: Fixed, state: DagState
) -> bool:
    """Process up to `rounds` event times, each followed by a placement; False when everything has ended.

    With `until_ready` >= 0, stops before the placement at the time that task becomes ready.
    """
    for _ in range(rounds):
        if not advance(order, knobs, fixed, state):
            return False
        if until_ready >= 0 and not np.isnan(state.ready_s[until_ready]):
            return True
        place(where, knobs, fixed, state)
    return True
