"""Tetris: multi-resource packing that chooses the task for a machine (Grandl et al., SIGCOMM 2014).

Slots waste what tasks do not need, and fairness alone packs badly. Choice, following the paper's section 3: a machine
with free resources takes, of the tasks whose peak demand fits it in every dimension, the one with the highest a + eps
p.

- a, alignment: dot product of the task's demand and what the machine has free, both over the machine's capacity.
- p, less remaining work first: 1 - (jobs with less work) / (jobs waiting), in (0, 1]; work is the estimate every policy
  is given. Services have no end, so their p is 0.
- eps = mean a / mean p over the candidates, so both terms weigh the same.
- fairness f in [0, 1): candidates come only from the ceil((1 - f) T) tenants with the least dominant shares among the T
  tenants with a task that fits this machine (ties at the border included). 0 = packing alone; near 1 = DRF's tenant.

The machine chooses the task, not the task the machine: by the dot product a task would choose the emptiest machine,
which is worst fit. Machines are visited in random order, `tasks_per_visit` tasks per visit until nothing fits (1 = one
container per heartbeat, as in the paper's host system; 0 = as many as fit).

Limits: peak demand is the request. No input locality here, so the penalty for remote input does not apply. The paper's
barrier knob (a stage that is 90 % complete goes first) is left out: a snapshot has the waiting pods, not the progress
of their stage. No objective.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from cotenant.model.arrays import PODS, Float, Int, Mask, NodeArrays, PendingArrays, ShapeArrays
from cotenant.model.compiled import njit
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.contract import RoundDecision, Snapshot
from cotenant_lab.baselines.drf import dominant_share
from cotenant_lab.baselines.fitting import occupy, ready_capacity, scan, working_copy
from cotenant_lab.baselines.rounds import RoundTally, decision, services_then_batch


@njit
def alignments(nodes: NodeArrays, shapes: ShapeArrays, row: int, kinds: Int, count: int, aligned: Float) -> None:
    """a of the first `count` shapes in `kinds` on one row, written to `aligned` (the paper's section 3.2).

    Dot product of a shape's demand and the row's free resources, each over the row's capacity.
    """
    capacity, requested, request = nodes.capacity, nodes.requested, shapes.request
    for c in range(count):
        k = kinds[c]
        a = 0.0
        for r in range(capacity.shape[1]):
            if r != PODS and capacity[row, r] > 0:
                free = capacity[row, r] - requested[row, r]
                a += (request[k, r] / capacity[row, r]) * (free / capacity[row, r])
        aligned[c] = a


def preference(job: Int, work: Float) -> Float:
    """p of each pod: 1 - (jobs with less remaining work) / (jobs), 0 for pods without a job. Pods of a job share
    its work.
    """
    p = np.zeros(job.shape[0])
    has_job = job >= 0
    _, first = np.unique(job[has_job], return_index=True)
    if first.size:
        ahead = np.searchsorted(np.sort(work[has_job][first]), work[has_job], side="left")
        p[has_job] = 1.0 - ahead / first.size
    return p


@njit
def _eligible(
    share: Float, owner: Int, candidates: Int, count: int, unfairness: float, seen: Mask, allowed: Mask
) -> None:
    """Mark in `allowed` the tenants whose candidates may be chosen; `unfairness` = 1 - f. `seen` and `allowed` are
    scratch [T].
    """
    tenants = share.shape[0]
    for t in range(tenants):
        seen[t] = False
    fitting = 0
    for i in range(count):
        t = owner[candidates[i]]
        if not seen[t]:
            seen[t] = True
            fitting += 1
    most = max(1, math.ceil(unfairness * fitting - 1e-9))
    for t in range(tenants):
        below = 0
        if seen[t] and most < fitting:
            for other in range(tenants):
                if seen[other] and share[other] < share[t]:
                    below += 1
        allowed[t] = seen[t] and below < most


@njit
def _fill_machines(
    nodes: NodeArrays,
    shapes: ShapeArrays,
    machines: Int,
    total: Int,
    allocated: Int,
    weight: Float,
    kind: Int,
    owner: Int,
    p: Float,
    start: Int,
    members: Int,
    fairness: float,
    tasks_per_visit: int,
    row: Int,
    order: Int,
    placed: int,
) -> int:
    """Machines choose in turn from groups of interchangeable pods; returns how many pods are placed in all.

    Group g has shape `kind[g]`, tenant `owner[g]`, preference `p[g]` and the pods `members[start[g]..start[g + 1]]`.
    """
    groups, tenants = kind.shape[0], allocated.shape[0]
    request = shapes.request
    head = start[:groups].copy()
    live = np.arange(groups)  # groups with pods left, in order of arrival, and their shapes
    live_kind = kind.copy()
    live_count = groups
    active = machines.copy()
    active_count = machines.shape[0]
    machine = np.empty(1, np.int64)
    found = np.empty(groups, np.int64)
    candidates = np.empty(groups, np.int64)
    kinds = np.empty(groups, np.int64)
    aligned = np.empty(groups, np.float64)
    seen = np.zeros(tenants, np.bool_)
    allowed = np.zeros(tenants, np.bool_)
    share = np.empty(tenants, np.float64)
    for t in range(tenants):
        share[t] = dominant_share(allocated, total, weight, t)
    while active_count > 0 and live_count > 0:
        kept = 0
        for i in range(active_count):
            n = active[i]
            machine[0] = n
            taken = 0
            while live_count > 0 and (tasks_per_visit == 0 or taken < tasks_per_visit):
                count = scan(nodes, shapes, machine, 0, live_kind, 1, live_count, found)
                if count == 0:
                    break
                for c in range(count):
                    candidates[c] = live[found[c]]
                    kinds[c] = live_kind[found[c]]
                alignments(nodes, shapes, n, kinds, count, aligned)
                _eligible(share, owner, candidates, count, 1.0 - fairness, seen, allowed)
                sum_a = 0.0
                sum_p = 0.0
                for c in range(count):
                    g = candidates[c]
                    if allowed[owner[g]]:
                        sum_a += aligned[c]
                        sum_p += p[g]
                eps = sum_a / sum_p if sum_p > 0.0 else 0.0
                best = -1
                highest = -np.inf
                for c in range(count):
                    g = candidates[c]
                    if allowed[owner[g]]:
                        score = aligned[c] + eps * p[g]
                        if score > highest:
                            highest = score
                            best = c
                g = candidates[best]
                pod = members[head[g]]
                occupy(nodes, shapes, n, kind[g])
                for r in range(total.shape[0]):
                    allocated[owner[g], r] += request[kind[g], r]
                share[owner[g]] = dominant_share(allocated, total, weight, owner[g])
                row[pod] = n
                order[placed] = pod
                placed += 1
                taken += 1
                head[g] += 1
                if head[g] == start[g + 1]:
                    live_count -= 1
                    for c in range(found[best], live_count):
                        live[c] = live[c + 1]
                        live_kind[c] = live_kind[c + 1]
            if taken > 0 and taken == tasks_per_visit:
                active[kept] = n
                kept += 1
        active_count = kept
    return placed


@dataclass(frozen=True, slots=True)
class _Groups:
    """Interchangeable pods of a pass, groups in order of their first arrival; see `_fill_machines`."""

    kind: Int
    owner: Int
    p: Float
    start: Int
    members: Int

    @classmethod
    def of(cls, pending: PendingArrays, indices: Int) -> _Groups:
        """Group the pods `indices` by stage and shape."""
        stage, shape = pending.stage[indices], pending.shape[indices]
        key = (stage - stage.min()) * (int(shape.max()) + 1) + shape
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        arrival = np.argsort(first)
        rank = np.empty_like(arrival)
        rank[arrival] = np.arange(arrival.size)
        group = rank[group]
        start = np.zeros(arrival.size + 1, np.int64)
        np.cumsum(np.bincount(group), out=start[1:])
        leader = indices[first[arrival]]
        return cls(
            kind=pending.shape[leader],
            owner=pending.tenant[leader],
            p=preference(pending.job[indices], pending.work[indices])[first[arrival]],
            start=start,
            members=indices[np.argsort(group, kind="stable")],
        )


@dataclass(frozen=True, slots=True)
class Tetris:
    """Tetris over all waiting pods; services first, chosen by the machines as the batch is."""

    fairness: float = 0.25
    tasks_per_visit: int = 1
    name: str = field(default="tetris", init=False)

    def __post_init__(self) -> None:
        if not 0.0 <= self.fairness < 1.0:
            raise InvalidInput("fairness", self.fairness, "a number in [0, 1)", "0 = packing alone")
        if self.tasks_per_visit < 0:
            raise InvalidInput("tasks_per_visit", self.tasks_per_visit, "a whole number from 0", "0 = as many as fit")

    def decide(self, snapshot: Snapshot, now_s: float, rng: np.random.Generator) -> RoundDecision:
        """One round: every machine chooses until nothing fits. `rng` orders the machines; the time is not used."""
        nodes = working_copy(snapshot.nodes)
        pending, tenants = snapshot.pending, snapshot.tenants
        allocated = tenants.allocated.copy()
        total = ready_capacity(nodes)
        tally = RoundTally.empty(pending.shape.shape[0])
        machines = rng.permutation(nodes.capacity.shape[0])
        for indices in services_then_batch(pending):
            groups = _Groups.of(pending, indices)
            tally.placed = _fill_machines(
                nodes,
                snapshot.shapes,
                machines,
                total,
                allocated,
                tenants.weight,
                groups.kind,
                groups.owner,
                groups.p,
                groups.start,
                groups.members,
                self.fairness,
                self.tasks_per_visit,
                tally.row,
                tally.order,
                tally.placed,
            )
        return decision(snapshot, nodes, tally)
