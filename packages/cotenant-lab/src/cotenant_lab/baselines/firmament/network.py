"""The flow network of one round, and its solution.

Place a round's tasks at the least total cost, where waiting also has a cost. Firmament's network with request classes
instead of an arc per task and machine:

    task -> class -> machine -> sink          placement
    task -> unscheduled aggregator of its job -> sink          waiting

Every task supplies one unit and may always wait, so a feasible flow always exists; any other status of the solver is an
error of ours and raises. OR-tools' `SimpleMinCostFlow` (cost scaling, integers) runs to optimality: stopping early
would not be a small error. Limits: one unit per task, so multi-dimensional fit is only expressed by the capacities of
class arcs; no warm start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.errors import Permanent, Unsupported


@dataclass(frozen=True, slots=True)
class Prices:
    """What the arcs of a round cost, in whole units. T tasks, C classes, M machines."""

    unscheduled: Int  # [T] task -> its job's unscheduled aggregator
    enter: Int  # [T] task -> its class
    assign: Int  # [C, M] class -> machine
    first: Int  # [M] the first new task on a machine
    slope: Int  # [M] additional cost of each further one; not negative, so that segments are convex


@dataclass(frozen=True, slots=True)
class Network:
    """Arcs and supplies for the solver, with where each kind of arc begins. Arcs in this order: enter, unscheduled,
    job, assign, steps.
    """

    tail: Int
    head: Int
    capacity: Int
    cost: Int
    supply: Int  # one entry a vertex
    tasks: int
    assign_at: int  # first arc class -> machine
    assign_class: Int  # class of each such arc
    assign_machine: Int  # machine of each such arc


@dataclass(frozen=True, slots=True)
class Flow:
    """An optimal flow of a network."""

    amount: Int  # units on each arc
    cost: int


def build(class_of: Int, job: Int, fits: Int, prices: Prices) -> Network:
    """Build the network of a round.

    `class_of` [T] and `job` [T] of each task (any integers for jobs), `fits` [C, M] how many tasks of a class a machine
    can still take. Arcs of no capacity are left out. Parallel unit arcs to the sink make a machine's cost convex where
    it has a slope.
    """
    tasks, (classes, machines) = class_of.size, fits.shape
    _, job_of = np.unique(job, return_inverse=True)
    jobs = int(job_of.max(initial=-1)) + 1
    first_class, first_machine = tasks, tasks + classes
    first_job = first_machine + machines
    sink = first_job + jobs
    task = np.arange(tasks)

    assign_class, assign_machine = np.nonzero(fits)
    slots = np.minimum(fits.max(axis=0, initial=0), tasks)
    sloped = prices.slope > 0
    # one arc of all slots where further tasks cost the same, else one arc a slot
    arcs_per_machine = np.where(sloped, slots, np.minimum(slots, 1))
    step_machine = np.repeat(np.arange(machines), arcs_per_machine)
    step = np.arange(step_machine.size) - np.repeat(np.cumsum(arcs_per_machine) - arcs_per_machine, arcs_per_machine)

    tail = np.concatenate(
        [task, task, first_job + np.arange(jobs), first_class + assign_class, first_machine + step_machine]
    )
    head = np.concatenate(
        [
            first_class + class_of,
            first_job + job_of,
            np.full(jobs, sink),
            first_machine + assign_machine,
            np.full(step_machine.size, sink),
        ]
    )
    capacity = np.concatenate(
        [
            np.ones(2 * tasks, np.int64),
            np.bincount(job_of, minlength=jobs),
            np.minimum(fits[assign_class, assign_machine], tasks),
            np.where(sloped, 1, slots)[step_machine],
        ]
    )
    cost = np.concatenate(
        [
            prices.enter,
            prices.unscheduled,
            np.zeros(jobs, np.int64),
            prices.assign[assign_class, assign_machine],
            prices.first[step_machine] + step * prices.slope[step_machine],
        ]
    )
    supply = np.zeros(sink + 1, np.int64)
    supply[:tasks] = 1
    supply[sink] = -tasks
    return Network(
        tail=tail.astype(np.int64),
        head=head.astype(np.int64),
        capacity=capacity.astype(np.int64),
        cost=cost.astype(np.int64),
        supply=supply,
        tasks=tasks,
        assign_at=2 * tasks + jobs,
        assign_class=assign_class,
        assign_machine=assign_machine,
    )


def solver() -> Any:
    """OR-tools' min-cost flow class. Raises `Unsupported` where the package is absent."""
    try:
        from ortools.graph.python import min_cost_flow
    except ImportError as error:
        raise Unsupported(
            "min-cost flow scheduling", "the package ortools (pip install 'cotenant-lab[compare]')"
        ) from error
    return min_cost_flow.SimpleMinCostFlow


def solve(network: Network) -> Flow:
    """The optimal flow. Raises `Permanent` where the solver says anything but optimal, `Unsupported` without
    OR-tools.
    """
    simple = solver()
    flow = simple()
    arcs = flow.add_arcs_with_capacity_and_unit_cost(network.tail, network.head, network.capacity, network.cost)
    flow.set_nodes_supplies(np.arange(network.supply.size), network.supply)
    status = flow.solve()
    if status != simple.Status.OPTIMAL:
        raise Permanent(f"the flow network of {network.tasks} tasks ended as {status} although every task may wait")
    return Flow(amount=np.asarray(flow.flows(arcs), np.int64), cost=int(flow.optimal_cost()))


def placements(network: Network, flow: Flow, class_of: Int) -> Int:
    """Machine of each task, -1 = waits.

    A flow gives the number of tasks of a class per machine; the placed tasks of the class are assigned in their own
    order. Which of them are placed is decided by the flow on the arc task -> class.
    """
    machine = np.full(network.tasks, -1, np.int64)
    amount = flow.amount[network.assign_at : network.assign_at + network.assign_class.size]
    used = np.flatnonzero(amount)
    dealt_class = np.repeat(network.assign_class[used], amount[used])
    dealt_machine = np.repeat(network.assign_machine[used], amount[used])
    placed = np.flatnonzero(flow.amount[: network.tasks])
    # both sides sorted by class, stable: the i-th placed task of a class meets its i-th unit
    placed = placed[np.argsort(class_of[placed], kind="stable")]
    machine[placed] = dealt_machine[np.argsort(dealt_class, kind="stable")]
    return machine
