"""Dominant resource fairness (Ghodsi et al., NSDI 2011).

Tenants want different mixes of resources; one number must rank their allocations. The dominant share, max over
resources of allocated / cluster capacity, divided by the tenant's weight; progressive filling serves the tenant with
the smallest share whose next task fits, and repeats after every placement. DRF chooses the tenant, not the node: here
the node is the best fit (least sum of normalised leftovers). A tenant's next task is its earliest that some node can
still take; a tenant without one is skipped for the round, as nothing is freed within one.
Limits: tenants as users; no preemption; `PODS` has no share.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cotenant.model.arrays import PODS, Float, Int, NodeArrays, ShapeArrays
from cotenant.model.compiled import njit
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.contract import RoundDecision, Snapshot
from cotenant_lab.baselines.fitting import best_fit_row, occupy, ready_capacity, working_copy
from cotenant_lab.baselines.rounds import RoundTally, decision, services_then_batch


@njit
def dominant_share(allocated: Int, total: Int, weight: Float, tenant: int) -> float:
    """Weighted dominant share of a tenant: max over resources of `allocated[tenant] / total`, over its weight.

    Resources the cluster lacks do not count, nor does `PODS`. `allocated` [T, R], `total` [R], `weight` [T].
    """
    share = 0.0
    for r in range(total.shape[0]):
        if r != PODS and total[r] > 0:
            share = max(share, allocated[tenant, r] / total[r])
    return share / weight[tenant]


def progressive_filling(capacity: Int, demand: Int, weight: Float | None = None, tasks: Int | None = None) -> Int:
    """Number of whole tasks that each user gets from one pool (the paper's algorithm 1).

    `capacity` [R], `demand` [U, R] of one task of each user, `weight` [U] (default equal), `tasks` [U] that a user
    wants at most (default as many as fit). Every column counts here. Ties go to the lowest user. Raises `InvalidInput`
    for a user whose task demands nothing, or for a weight that is not positive.
    """
    users = demand.shape[0]
    weights = np.ones(users) if weight is None else np.asarray(weight, np.float64)
    wanted = np.full(users, np.iinfo(np.int64).max) if tasks is None else tasks
    if not bool((weights > 0).all()):
        raise InvalidInput("weight", weights.tolist(), "positive numbers", "leave a user out instead")
    if not bool((demand >= 0).all() and (demand > 0).any(axis=1).all()):
        raise InvalidInput("demand", demand.tolist(), "a task that needs something of at least one resource")
    per_task = (demand / np.maximum(capacity, 1)).max(axis=1) / weights
    given = np.zeros(users, np.int64)
    free = np.array(capacity, np.int64)
    active = given < wanted
    while active.any():
        user = int(np.where(active, given * per_task, np.inf).argmin())
        if (demand[user] > free).any():
            active[user] = False
            continue
        free -= demand[user]
        given[user] += 1
        active[user] = given[user] < wanted[user]
    return given


@njit
def _fill(
    nodes: NodeArrays,
    shapes: ShapeArrays,
    total: Int,
    allocated: Int,
    weight: Float,
    queue: Int,
    start: Int,
    pod_shape: Int,
    row: Int,
    order: Int,
    placed: int,
) -> int:
    """Progressive filling over `queue`, pods sorted by tenant, tenant t in `start[t]..start[t + 1]`; returns how
    many are placed in all.
    """
    tenants = allocated.shape[0]
    request = shapes.request
    rows = np.arange(nodes.capacity.shape[0])
    found = np.empty(rows.shape[0], np.int64)
    refused = np.zeros(request.shape[0], np.bool_)
    head = start[:tenants].copy()
    share = np.empty(tenants, np.float64)
    for t in range(tenants):
        share[t] = dominant_share(allocated, total, weight, t)
    while True:
        tenant = -1
        for t in range(tenants):
            while head[t] < start[t + 1] and refused[pod_shape[queue[head[t]]]]:
                head[t] += 1
            if head[t] < start[t + 1] and (tenant < 0 or share[t] < share[tenant]):
                tenant = t
        if tenant < 0:
            return placed
        pod = queue[head[tenant]]
        k = pod_shape[pod]
        n = best_fit_row(nodes, shapes, k, rows, found)
        if n < 0:
            refused[k] = True
            continue
        occupy(nodes, shapes, n, k)
        head[tenant] += 1
        for r in range(total.shape[0]):
            allocated[tenant, r] += request[k, r]
        share[tenant] = dominant_share(allocated, total, weight, tenant)
        row[pod] = n
        order[placed] = pod
        placed += 1


def by_tenant(tenant: Int, indices: Int, tenants: int) -> tuple[Int, Int]:
    """`indices` sorted by tenant, arrival order kept, and where each tenant's run starts (tenants + 1 entries)."""
    owner = tenant[indices]
    queue = indices[np.argsort(owner, kind="stable")]
    start = np.zeros(tenants + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=tenants), out=start[1:])
    return queue, start


@dataclass(frozen=True, slots=True)
class DominantResourceFairness:
    """DRF + best-fit over all waiting pods; services first, packed by best fit as the batch is."""

    name: str = field(default="drf-best-fit", init=False)

    def decide(self, snapshot: Snapshot, now_s: float, rng: np.random.Generator) -> RoundDecision:
        """One round of progressive filling. Neither the time nor `rng` is used: ties go to the lowest tenant and
        row.
        """
        nodes = working_copy(snapshot.nodes)
        pending, tenants = snapshot.pending, snapshot.tenants
        allocated = tenants.allocated.copy()
        total = ready_capacity(nodes)
        tally = RoundTally.empty(pending.shape.shape[0])
        for indices in services_then_batch(pending):
            queue, start = by_tenant(pending.tenant, indices, allocated.shape[0])
            tally.placed = _fill(
                nodes,
                snapshot.shapes,
                total,
                allocated,
                tenants.weight,
                queue,
                start,
                pending.shape,
                tally.row,
                tally.order,
                tally.placed,
            )
        return decision(snapshot, nodes, tally)
