"""Firmament's rounds: solve a network, admit what fits, leave the rest for the next round.

Problem: hundreds of tasks arrive at once, and a flow knows one unit a task, not CPU and memory. Choice: the waiting pods,
services first, each kind in order of arrival, go through networks of at most 500 tasks, each built on what the one before
placed; after the solution every placement passes an admission check in the tasks' order, and what no longer fits waits
for the next round. Tasks whose class fits nowhere are left out: their only path is to wait. Machines enter in random
order, so that equal costs do not favour low rows. Limits: placed tasks stay (no migration or preemption by flow); no priorities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Int, NodeArrays, ShapeArrays
from cotenant.model.compiled import njit
from cotenant.model.errors import InvalidInput
from cotenant.policy.baselines.firmament.classes import how_many_fit, request_classes
from cotenant.policy.baselines.firmament.costs import CostModel, Round, above_placement
from cotenant.policy.baselines.firmament.network import build, placements, solve, solver
from cotenant.policy.baselines.fitting import feasible, occupy, working_copy
from cotenant.policy.baselines.rounds import Tally, decision, fitting_pods, services_then_batch
from cotenant.policy.placement.contract import RoundDecision, Snapshot

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
class Firmament:
    """Min-cost-flow rounds under one cost model; services first, priced by the same model. Needs OR-tools (`Unsupported` without)."""

    costs: CostModel
    round_tasks: int = 500
    lift: bool = True  # keep waiting dearer than any placement; False = the model's published costs

    def __post_init__(self) -> None:
        solver()
        if self.round_tasks < 1:
            raise InvalidInput("round_tasks", self.round_tasks, "a whole number from 1")

    @property
    def name(self) -> str:
        """As reports show it."""
        return f"firmament-{self.costs.name}"

    def decide(self, snapshot: Snapshot, now_s: float, rng: np.random.Generator) -> RoundDecision:
        """One decision: as many networks as the queue needs. `rng` orders the machines."""
        nodes = working_copy(snapshot.nodes)
        shapes, pending = snapshot.shapes, snapshot.pending
        tally = Tally.empty(pending.shape.shape[0])
        machines = rng.permutation(nodes.capacity.shape[0])
        label = self.costs.label(shapes)
        wait_s = np.maximum(now_s - pending.ready_s, 0.0)
        for indices in services_then_batch(pending):
            placeable = indices[fitting_pods(nodes, shapes, pending.shape[indices])]
            for begin in range(0, placeable.size, self.round_tasks):
                tasks = placeable[begin : begin + self.round_tasks]
                shape = pending.shape[tasks]
                class_of, class_shape = request_classes(shapes, shape, label)
                fits = how_many_fit(nodes, shapes, class_shape, machines, tasks.size)
                usable = np.flatnonzero(fits.any(axis=0))
                if usable.size == 0:
                    continue
                fits, rows = fits[:, usable], machines[usable]
                prices = self.costs.prices(Round(nodes, shapes, rows, shape, wait_s[tasks], class_shape, fits))
                if self.lift:
                    prices = above_placement(prices, fits)
                network = build(class_of, pending.job[tasks], fits, prices)
                machine = placements(network, solve(network), class_of)
                target = np.where(machine >= 0, rows[machine], -1)
                tally.placed = _admit(nodes, shapes, tasks, pending.shape, target, tally.row, tally.order, tally.placed)
        return decision(snapshot, nodes, tally, held=REJECTED)
