"""DRF by offers, as Mesos does it (Hindman et al., NSDI 2011; shares after Ghodsi et al., NSDI 2011).

The allocator does not know tasks; it can only offer resources, and a framework accepts or declines. In each allocation
cycle the agents are visited in random order, and each one's whole free bundle is offered to the framework (a tenant)
with the smallest weighted dominant share, offers of this cycle included, that still has tasks and has not declined this
agent. Then every framework launches its tasks, in order of arrival, each on the first agent it was offered (in order of
the offers, so in effect a random agent) that fits. What remains is idle until the next cycle. A cycle is a second; a
round of five seconds holds five. An agent offered to a framework is filtered for it for 5 s, so to the round's end: the
filter needs no memory between rounds.
Limits: agents with no CPU or no memory left are not offered; a tenant's services and its batch are frameworks of their
own, and services' offers come first, under the same rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, Float, Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.compiled import njit
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.contract import RoundDecision, Snapshot
from cotenant_lab.baselines.drf import by_tenant, dominant_share
from cotenant_lab.baselines.fitting import occupy, ready_capacity, scan, working_copy
from cotenant_lab.baselines.rounds import RoundTally, decision, services_then_batch

NOT_OFFERED = "an agent with capacity was offered to another tenant; waits for the next offers"


@njit
def _offer(
    nodes: NodeArrays,
    agents: Int,
    total: Int,
    allocated: Int,
    weight: Float,
    hungry: Mask,
    filtered: Mask,
    offered_to: Int,
) -> int:
    """Give each agent's free bundle to one tenant, -1 = none; returns how many are offered. `offered_to` [agents]
    is written.
    """
    capacity, requested = nodes.capacity, nodes.requested
    tenants, resources = allocated.shape
    holds = allocated.copy()  # including this cycle's offers
    share = np.empty(tenants, np.float64)
    for t in range(tenants):
        share[t] = dominant_share(holds, total, weight, t)
    offers = 0
    for i in range(agents.shape[0]):
        n = agents[i]
        offered_to[i] = -1
        if not nodes.ready[n] or requested[n, CPU] >= capacity[n, CPU] or requested[n, MEMORY] >= capacity[n, MEMORY]:
            continue
        poorest = -1
        for t in range(tenants):
            if hungry[t] and not filtered[t, n] and (poorest < 0 or share[t] < share[poorest]):
                poorest = t
        if poorest < 0:
            continue
        for r in range(resources):
            holds[poorest, r] += max(0, capacity[n, r] - requested[n, r])
        share[poorest] = dominant_share(holds, total, weight, poorest)
        filtered[poorest, n] = True
        offered_to[i] = poorest
        offers += 1
    return offers


@njit
def _launch(
    nodes: NodeArrays,
    shapes: ShapeArrays,
    agents: Int,
    offered_to: Int,
    allocated: Int,
    queue: Int,
    start: Int,
    left: Int,
    pod_shape: Int,
    row: Int,
    order: Int,
    placed: int,
) -> int:
    """Every tenant launches what fits its offers; `left[t]` pods remain at the front of its run in `queue`, still
    in order.
    """
    request = shapes.request
    tenants = allocated.shape[0]
    mine = np.empty(agents.shape[0], np.int64)
    found = np.empty(agents.shape[0], np.int64)
    kind = np.empty(1, np.int64)
    refused_by = np.full(request.shape[0], -1)  # the last tenant whose offers do not fit the shape
    for t in range(tenants):
        offers = 0
        for i in range(agents.shape[0]):
            if offered_to[i] == t:
                mine[offers] = agents[i]
                offers += 1
        if offers == 0:
            continue
        kept = 0
        for i in range(left[t]):
            pod = queue[start[t] + i]
            k = pod_shape[pod]
            kind[0] = k
            if refused_by[k] != t and scan(nodes, shapes, mine, 1, kind, 0, offers, found) > 0:
                n = mine[found[0]]
                occupy(nodes, shapes, n, k)
                for r in range(request.shape[1]):
                    allocated[t, r] += request[k, r]
                row[pod] = n
                order[placed] = pod
                placed += 1
            else:
                refused_by[k] = t
                queue[start[t] + kept] = pod
                kept += 1
        left[t] = kept
    return placed


@dataclass(frozen=True, slots=True)
class MesosOffers:
    """DRF by offers over all waiting pods; services' offers first, accepted first-fit as the batch's are."""

    cycles: int = 5
    name: str = field(default="mesos-offers", init=False)

    def __post_init__(self) -> None:
        if self.cycles < 1:
            raise InvalidInput("cycles", self.cycles, "a whole number from 1", "allocation cycles in a round")

    def decide(self, snapshot: Snapshot, now_s: float, rng: np.random.Generator) -> RoundDecision:
        """One round of `cycles` allocation cycles. `rng` sets the order of agents in each; the time is not used."""
        nodes = working_copy(snapshot.nodes)
        pending, weight = snapshot.pending, snapshot.tenants.weight
        allocated = snapshot.tenants.allocated.copy()
        total = ready_capacity(nodes)
        tenants, agents = allocated.shape[0], nodes.capacity.shape[0]
        tally = RoundTally.empty(pending.shape.shape[0])
        offered_to = np.empty(agents, np.int64)
        for indices in services_then_batch(pending):
            queue, start = by_tenant(pending.tenant, indices, tenants)
            left = np.diff(start)
            filtered = np.zeros((tenants, agents), np.bool_)
            for _ in range(self.cycles):
                order = rng.permutation(agents)
                if not _offer(nodes, order, total, allocated, weight, left > 0, filtered, offered_to):
                    break
                tally.placed = _launch(
                    nodes,
                    snapshot.shapes,
                    order,
                    offered_to,
                    allocated,
                    queue,
                    start,
                    left,
                    pending.shape,
                    tally.row,
                    tally.order,
                    tally.placed,
                )
        return decision(snapshot, nodes, tally, held=NOT_OFFERED)
