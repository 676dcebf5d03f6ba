"""Firmament's rounds: solve a network, admit what fits, and leave the others for the next round.

Hundreds of tasks arrive at once, and a flow models one unit per task, not CPU and memory. The waiting pods, services
first, each kind in order of arrival, go through networks of at most 500 tasks, each built on what the one before
placed; after the solution every placement passes an admission check in the tasks' order, and what no longer fits waits
for the next round. Tasks whose class fits nowhere are left out: their only path is to wait. Machines enter in random
order, so that equal costs do not favour low rows.
Limits: placed tasks stay (no migration or preemption by flow); no priorities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cotenant.model.arrays import Int, NodeArrays, ResidentArrays, ShapeArrays
from cotenant.model.compiled import njit
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.contract import RoundDecision, Snapshot
from cotenant_lab.baselines.firmament.classes import how_many_fit, request_classes
from cotenant_lab.baselines.firmament.costs import CostModel, NetworkRound, above_placement
from cotenant_lab.baselines.firmament.network import Network, Prices, build, placements, solve, solver
from cotenant_lab.baselines.fitting import feasible, occupy, working_copy
from cotenant_lab.baselines.rounds import RoundTally, decision, fitting_pods, services_then_batch

REJECTED = "rejected by the admission check after the flow; waits for the next round"


@njit
def _admit(
    nodes: NodeArrays, shapes: ShapeArrays, tasks: Int, shape: Int, target: Int, row: Int, order: Int, placed: int
) -> int:
    """Place each task on its target row where it still fits; returns how many are placed in all."""
    for i in range(tasks.shape[0]):
        if target[i] >= 0 and feasible(nodes, shapes, target[i], shape[tasks[i]]):
            occupy(nodes, shapes, target[i], shape[tasks[i]])
            row[tasks[i]] = target[i]
            order[placed] = tasks[i]
            placed += 1
    return placed


@dataclass(frozen=True, slots=True)
class FirmamentRound:
    """A round ready to be solved."""

    network: Network
    class_of: Int  # [T]
    rows: Int  # [M] row of each machine
    fits: Int  # [C, M]
    prices: Prices


@dataclass(frozen=True, slots=True)
class Firmament:
    """Min-cost-flow rounds under one cost model; services first, priced by the same model. Needs OR-tools
    (`Unsupported` without).
    """

    costs: CostModel
    round_tasks: int = 500
    lift: bool = True  # keep waiting more expensive than any placement; False = the model's published costs

    def __post_init__(self) -> None:
        solver()
        if self.round_tasks < 1:
            raise InvalidInput("round_tasks", self.round_tasks, "a whole number from 1")

    @property
    def name(self) -> str:
        """The name in reports."""
        return f"firmament-{self.costs.name}"

    def decide(self, snapshot: Snapshot, now_s: float, rng: np.random.Generator) -> RoundDecision:
        """One decision: as many networks as the queue needs. `rng` sets the order of machines."""
        working = replace(snapshot, nodes=working_copy(snapshot.nodes))
        pending = snapshot.pending
        tally = RoundTally.empty(pending.shape.shape[0])
        machines = rng.permutation(working.nodes.capacity.shape[0])
        for indices in services_then_batch(pending):
            placeable = indices[fitting_pods(working.nodes, snapshot.shapes, pending.shape[indices])]
            for begin in range(0, placeable.size, self.round_tasks):
                tasks = placeable[begin : begin + self.round_tasks]
                layout = self.lay_out(_with_placed(working, tally), tasks, machines, now_s)
                machine = placements(layout.network, solve(layout.network), layout.class_of)
                target = np.full(tasks.size, -1, np.int64)
                target[machine >= 0] = layout.rows[machine[machine >= 0]]
                tally.placed = _admit(
                    working.nodes,
                    snapshot.shapes,
                    tasks,
                    pending.shape,
                    target,
                    tally.row,
                    tally.order,
                    tally.placed,
                )
        return decision(snapshot, working.nodes, tally, held=REJECTED)

    def lay_out(self, snapshot: Snapshot, tasks: Int, machines: Int, now_s: float) -> FirmamentRound:
        """The network of one round: `tasks` index the pending pods, `machines` are rows in their order in the
        network.
        """
        nodes, shapes, pending = snapshot.nodes, snapshot.shapes, snapshot.pending
        shape = pending.shape[tasks]
        class_of, class_shape = request_classes(shapes, shape, self.costs.label(shapes))
        fits = how_many_fit(nodes, shapes, class_shape, machines, tasks.size)
        usable = np.flatnonzero(fits.any(axis=0))
        fits, rows = fits[:, usable], machines[usable]
        wait_s = np.maximum(now_s - pending.ready_s[tasks], 0.0)
        prices = self.costs.prices(
            NetworkRound(nodes, shapes, rows, shape, wait_s, class_shape, fits, snapshot.residents)
        )
        if self.lift:
            prices = above_placement(prices, fits)
        return FirmamentRound(build(class_of, pending.job[tasks], fits, prices), class_of, rows, fits, prices)


def _with_placed(snapshot: Snapshot, tally: RoundTally) -> Snapshot:
    """The snapshot with the pods placed so far appended to its residents, where it has any."""
    if snapshot.residents is None or tally.placed == 0:
        return snapshot
    placed = tally.order[: tally.placed]
    row = np.concatenate([snapshot.residents.row, tally.row[placed]])
    shape = np.concatenate([snapshot.residents.shape, snapshot.pending.shape[placed]])
    return replace(snapshot, residents=ResidentArrays(row, shape))
