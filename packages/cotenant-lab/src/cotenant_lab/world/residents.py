"""Pods starting on and leaving nodes: the only code that changes assignments in the world. Compiled.

Each function updates the node's list and request sums, the tenants' sums, the services' live replicas and the pod's
status together, so that a pod is in one place only.
"""

from __future__ import annotations

from math import pi, sin

from cotenant.model.compiled import njit
from cotenant_lab.world.state import (
    FINISHED,
    MEMORY,
    READY,
    RUNNING,
    UNREPORTED,
    Law,
    WorldState,
)


@njit
def set_completion(s: WorldState, node: int, at_s: float) -> None:
    """Store a node's next completion and the minima above it."""
    i = s.tree.shape[0] // 2 + node
    s.tree[i] = at_s
    i //= 2
    while i >= 1:
        s.tree[i] = min(s.tree[2 * i], s.tree[2 * i + 1])
        i //= 2


@njit
def earliest(s: WorldState) -> int:
    """The node whose next completion is first; the lowest row among equals."""
    leaves = s.tree.shape[0] // 2
    i = 1
    while i < leaves:
        i = 2 * i if s.tree[2 * i] <= s.tree[2 * i + 1] else 2 * i + 1
    return i - leaves


@njit
def progress(s: WorldState, node: int, t: float) -> None:
    """Advance the residents' work to `t` at the current speeds."""
    passed = t - s.nodes[node].updated_s
    s.nodes[node].updated_s = t
    if passed <= 0.0:
        return
    done = 0.0
    p = s.nodes[node].first
    while p >= 0:
        if s.pods[p].service < 0:
            step = s.pods[p].speed * passed
            s.pods[p].remaining_s -= step
            done += step
        p = s.pods[p].next
    s.run[0].work_done_s += done


@njit
def cpu_wanted(s: WorldState, w: Law, p: int) -> float:
    """Cores that a batch pod would use now without any limit."""
    done = 1.0 - s.pods[p].remaining_s / s.pods[p].duration_s
    return s.pods[p].use_cores * (1.0 + w.cpu_swing * sin(2.0 * pi * (done + s.pods[p].swing_phase)))


@njit
def memory_now(s: WorldState, w: Law, p: int) -> float:
    """Bytes that a pod uses now: a batch pod grows to its full level over the first part of its work."""
    if s.pods[p].service >= 0:
        return s.pods[p].use_memory
    done = 1.0 - s.pods[p].remaining_s / s.pods[p].duration_s
    return s.pods[p].use_memory * (w.memory_start + (1.0 - w.memory_start) * min(1.0, max(0.0, done) / w.memory_ramp))


@njit
def enter(s: WorldState, p: int, node: int, t: float) -> None:
    """Start a ready pod on a node, from zero."""
    head = s.nodes[node].first
    s.pods[p].next = head
    s.pods[p].previous = -1
    if head >= 0:
        s.pods[head].previous = p
    s.nodes[node].first = p
    s.pods[p].node = node
    s.pods[p].status = RUNNING
    s.pods[p].remaining_s = s.pods[p].duration_s
    s.pods[p].slowdown = 1.0
    s.pods[p].placed_s = t
    if not s.pods[p].started_s >= 0.0:
        s.pods[p].started_s = t
    s.nodes[node].requested_milli += s.pods[p].cpu_milli
    s.nodes[node].requested_bytes += s.pods[p].memory_bytes
    owner = s.pods[p].tenant
    s.tenants[owner].held_milli += s.pods[p].cpu_milli
    s.tenants[owner].held_bytes += s.pods[p].memory_bytes
    s.tenants[owner].queued_milli -= s.pods[p].cpu_milli
    s.tenants[owner].queued_bytes -= s.pods[p].memory_bytes
    if s.pods[p].service >= 0:
        s.services[s.pods[p].service].live += 1


@njit
def leave(s: WorldState, p: int) -> None:
    """Remove a pod from its node; the caller sets its new status."""
    node = s.pods[p].node
    before, after = s.pods[p].previous, s.pods[p].next
    if before >= 0:
        s.pods[before].next = after
    else:
        s.nodes[node].first = after
    if after >= 0:
        s.pods[after].previous = before
    s.pods[p].next = -1
    s.pods[p].previous = -1
    s.pods[p].node = -1
    s.nodes[node].requested_milli -= s.pods[p].cpu_milli
    s.nodes[node].requested_bytes -= s.pods[p].memory_bytes
    owner = s.pods[p].tenant
    s.tenants[owner].held_milli -= s.pods[p].cpu_milli
    s.tenants[owner].held_bytes -= s.pods[p].memory_bytes
    if s.pods[p].service >= 0:
        s.services[s.pods[p].service].live -= 1


@njit
def expel(s: WorldState, w: Law, p: int, t: float, cause: int) -> None:
    """Evict a running pod; it must start again from zero. One evicted for memory is held, longer each time."""
    s.evicted[s.run[0].evicted] = p
    s.pods[p].evicted_cause = cause
    s.pods[p].evicted_memory = memory_now(s, w, p)
    s.run[0].evicted += 1
    s.evictions[cause] += 1
    leave(s, p)
    if s.pods[p].service < 0:
        s.run[0].work_lost_s += s.pods[p].duration_s - s.pods[p].remaining_s
        s.pods[p].remaining_s = s.pods[p].duration_s
    s.pods[p].status = UNREPORTED
    s.pods[p].restarts += 1
    s.pods[p].evicted_s = t
    s.pods[p].hold_until_s = t
    if cause == MEMORY:
        s.pods[p].hold_until_s = t + w.hold_s * 2.0 ** min(s.pods[p].restarts, w.hold_doublings)
    owner = s.pods[p].tenant
    s.tenants[owner].queued_milli += s.pods[p].cpu_milli
    s.tenants[owner].queued_bytes += s.pods[p].memory_bytes


@njit
def release(s: WorldState, stage: int, t: float) -> None:
    """All pods of a stage become ready."""
    for p in range(s.stages[stage].first_pod, s.stages[stage].first_pod + s.stages[stage].pods):
        s.pods[p].status = READY
        s.pods[p].ready_s = t
        s.ready[s.run[0].ready] = p
        s.run[0].ready += 1
        owner = s.pods[p].tenant
        s.tenants[owner].queued_milli += s.pods[p].cpu_milli
        s.tenants[owner].queued_bytes += s.pods[p].memory_bytes


@njit
def complete(s: WorldState, p: int, t: float) -> None:
    """Finish a batch pod; the last of a stage releases the next stage, the last of a job ends it."""
    leave(s, p)
    s.run[0].work_completed_s += s.pods[p].duration_s - s.pods[p].remaining_s
    s.pods[p].status = FINISHED
    s.pods[p].finished_s = t
    s.finished[s.run[0].finished] = p
    s.run[0].finished += 1
    s.run[0].batch_left -= 1
    stage = s.pods[p].stage
    s.stages[stage].left -= 1
    if s.stages[stage].left > 0:
        return
    job = s.stages[stage].job
    if stage + 1 < s.jobs[job].first_stage + s.jobs[job].stages:
        release(s, stage + 1, t)
    else:
        s.jobs[job].finished_s = t
