"""Pods entering and leaving nodes: the only code that changes who is where. Compiled.

Each function keeps the node's list and request sums, the tenants' sums, the services' live replicas and the pod's status
together, so that a pod is in one place only.
"""

from __future__ import annotations

from math import pi, sin

from cotenant.lab.world.state import (
    BATCH_LEFT,
    EVICTED_TOLD,
    FINISHED,
    FINISHED_TOLD,
    MEMORY,
    READY,
    READY_TOLD,
    RUNNING,
    UNTOLD,
    WORK_COMPLETED,
    WORK_DONE,
    WORK_LOST,
    Law,
    State,
)
from cotenant.model.compiled import njit


@njit
def set_completion(s: State, node: int, at_s: float) -> None:
    """Store a node's next completion and the minima above it."""
    i = s.tree.shape[0] // 2 + node
    s.tree[i] = at_s
    i //= 2
    while i >= 1:
        s.tree[i] = min(s.tree[2 * i], s.tree[2 * i + 1])
        i //= 2


@njit
def earliest(s: State) -> int:
    """The node whose next completion is first; the lowest row among equals."""
    leaves = s.tree.shape[0] // 2
    i = 1
    while i < leaves:
        i = 2 * i if s.tree[2 * i] <= s.tree[2 * i + 1] else 2 * i + 1
    return i - leaves


@njit
def progress(s: State, node: int, t: float) -> None:
    """Let the residents work until `t` at the speeds last set."""
    passed = t - s.updated_s[node]
    s.updated_s[node] = t
    if passed <= 0.0:
        return
    done = 0.0
    p = s.first[node]
    while p >= 0:
        if s.service[p] < 0:
            step = s.speed[p] * passed
            s.remaining_s[p] -= step
            done += step
        p = s.next[p]
    s.work[WORK_DONE] += done


@njit
def cpu_wanted(s: State, w: Law, p: int) -> float:
    """Cores that a batch pod would use now if nothing held it back."""
    done = 1.0 - s.remaining_s[p] / s.duration_s[p]
    return s.use_cores[p] * (1.0 + w.cpu_swing * sin(2.0 * pi * (done + s.swing_phase[p])))


@njit
def memory_now(s: State, w: Law, p: int) -> float:
    """Bytes that a pod uses now: a batch pod grows to its full level over the first part of its work."""
    if s.service[p] >= 0:
        return s.use_memory[p]
    done = 1.0 - s.remaining_s[p] / s.duration_s[p]
    return s.use_memory[p] * (w.memory_start + (1.0 - w.memory_start) * min(1.0, max(0.0, done) / w.memory_ramp))


@njit
def enter(s: State, p: int, node: int, t: float) -> None:
    """A ready pod starts on a node, from zero."""
    head = s.first[node]
    s.next[p] = head
    s.previous[p] = -1
    if head >= 0:
        s.previous[head] = p
    s.first[node] = p
    s.node[p] = node
    s.status[p] = RUNNING
    s.remaining_s[p] = s.duration_s[p]
    s.slowdown[p] = 1.0
    s.placed_s[p] = t
    if not s.started_s[p] >= 0.0:
        s.started_s[p] = t
    s.requested_milli[node] += s.cpu_milli[p]
    s.requested_bytes[node] += s.memory_bytes[p]
    owner = s.tenant[p]
    s.held_milli[owner] += s.cpu_milli[p]
    s.held_bytes[owner] += s.memory_bytes[p]
    s.queued_milli[owner] -= s.cpu_milli[p]
    s.queued_bytes[owner] -= s.memory_bytes[p]
    if s.service[p] >= 0:
        s.service_live[s.service[p]] += 1


@njit
def _leave(s: State, p: int) -> None:
    node = s.node[p]
    before, after = s.previous[p], s.next[p]
    if before >= 0:
        s.next[before] = after
    else:
        s.first[node] = after
    if after >= 0:
        s.previous[after] = before
    s.next[p] = -1
    s.previous[p] = -1
    s.node[p] = -1
    s.requested_milli[node] -= s.cpu_milli[p]
    s.requested_bytes[node] -= s.memory_bytes[p]
    owner = s.tenant[p]
    s.held_milli[owner] -= s.cpu_milli[p]
    s.held_bytes[owner] -= s.memory_bytes[p]
    if s.service[p] >= 0:
        s.service_live[s.service[p]] -= 1


@njit
def expel(s: State, w: Law, p: int, t: float, cause: int) -> None:
    """A running pod is thrown out and must start again from zero; one evicted for memory is held, longer each time."""
    s.evicted_told[s.counts[EVICTED_TOLD]] = p
    s.evicted_cause[s.counts[EVICTED_TOLD]] = cause
    s.evicted_memory[s.counts[EVICTED_TOLD]] = memory_now(s, w, p)
    s.counts[EVICTED_TOLD] += 1
    s.evictions[cause] += 1
    _leave(s, p)
    if s.service[p] < 0:
        s.work[WORK_LOST] += s.duration_s[p] - s.remaining_s[p]
        s.remaining_s[p] = s.duration_s[p]
    s.status[p] = UNTOLD
    s.restarts[p] += 1
    s.evicted_s[p] = t
    s.hold_until_s[p] = t
    if cause == MEMORY:
        s.hold_until_s[p] = t + w.hold_s * 2.0 ** min(s.restarts[p], w.hold_doublings)
    owner = s.tenant[p]
    s.queued_milli[owner] += s.cpu_milli[p]
    s.queued_bytes[owner] += s.memory_bytes[p]


@njit
def release(s: State, stage: int, t: float) -> None:
    """All pods of a stage become ready."""
    for p in range(s.stage_first_pod[stage], s.stage_first_pod[stage] + s.stage_pods[stage]):
        s.status[p] = READY
        s.ready_s[p] = t
        s.ready_told[s.counts[READY_TOLD]] = p
        s.counts[READY_TOLD] += 1
        owner = s.tenant[p]
        s.queued_milli[owner] += s.cpu_milli[p]
        s.queued_bytes[owner] += s.memory_bytes[p]


@njit
def complete(s: State, p: int, t: float) -> None:
    """A batch pod's work is done; the last of a stage opens the next, the last of a job ends it."""
    _leave(s, p)
    s.work[WORK_COMPLETED] += s.duration_s[p] - s.remaining_s[p]
    s.status[p] = FINISHED
    s.finished_s[p] = t
    s.finished_told[s.counts[FINISHED_TOLD]] = p
    s.counts[FINISHED_TOLD] += 1
    s.counts[BATCH_LEFT] -= 1
    stage = s.stage[p]
    s.stage_left[stage] -= 1
    if s.stage_left[stage] > 0:
        return
    job = s.stage_job[stage]
    if stage + 1 < s.job_first_stage[job] + s.job_stages[job]:
        release(s, stage + 1, t)
    else:
        s.job_finished_s[job] = t
