from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array

from cotenant.model.errors import Permanent, Unsupported
from cotenant_lab.baselines.firmament.coco import CoCo
from cotenant_lab.baselines.firmament.costs import CostModel
from cotenant_lab.baselines.firmament.load_spreading import LoadSpreading
from cotenant_lab.baselines.firmament.network import Network, Prices, build, placements, solve
from cotenant_lab.baselines.firmament.quincy import Quincy
from cotenant_lab.baselines.firmament.scheduler import Firmament, FirmamentRound

MODELS: tuple[CostModel, ...] = (Quincy(), Quincy(transfer_cost=300), LoadSpreading(), CoCo())
NAMES = ("quincy", "quincy with input", "load-spreading", "coco")


def random_round(snapshot, model: CostModel, seed: int, tasks: int, machines: int) -> FirmamentRound:
    rng = np.random.default_rng(seed)
    kinds = 3
    cluster = snapshot(
        rng.integers(4, 10, (machines, 2)).tolist(),
        rng.integers(1, 5, (kinds, 2)).tolist(),
        rng.integers(0, kinds, tasks).tolist(),
        used=rng.integers(0, 4, (machines, 2)).tolist(),
        running=rng.integers(0, 6, machines).tolist(),
        job=rng.integers(0, 3, tasks).tolist(),
        ready_s=rng.uniform(0.0, 900.0, tasks).tolist(),
        sensitivity=rng.uniform(0.0, 1.0, kinds).tolist(),
        pressure=rng.uniform(0.0, 0.8, kinds).tolist(),
        residents=list(zip(rng.integers(0, machines, 9).tolist(), rng.integers(0, kinds, 9).tolist(), strict=True)),
    )
    return Firmament(model).lay_out(cluster, np.arange(tasks), rng.permutation(machines), 1000.0)


def price(layout: FirmamentRound, choice: tuple[int, ...]) -> float:
    """What one assignment costs, -1 = waits; inf where a class or a machine has no room for it."""
    prices, fits, class_of = layout.prices, layout.fits, layout.class_of
    total = 0
    for machine in range(fits.shape[1]):
        here = [task for task, chosen in enumerate(choice) if chosen == machine]
        for kind in set(class_of.tolist()):
            if sum(class_of[task] == kind for task in here) > fits[kind, machine]:
                return np.inf
        if len(here) > fits[:, machine].max():
            return np.inf
        for place, task in enumerate(here):
            total += prices.enter[task] + prices.assign[class_of[task], machine]
            total += prices.first[machine] + place * prices.slope[machine]
    return float(total + sum(prices.unscheduled[task] for task, chosen in enumerate(choice) if chosen < 0))


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_cost_equals_brute_force_on_four_tasks_and_four_machines(snapshot, model: CostModel) -> None:
    waits = 0
    for seed in range(6):
        layout = random_round(snapshot, model, seed, 4, 4)
        machines = layout.fits.shape[1]
        costs = {choice: price(layout, choice) for choice in product(range(-1, machines), repeat=4)}
        flow = solve(layout.network)
        assert flow.cost == min(costs.values())
        chosen = tuple(placements(layout.network, flow, layout.class_of).tolist())
        assert costs[chosen] == flow.cost
        waits += chosen.count(-1)
    assert waits < 6 * 4


def linear_programme(network: Network) -> float:
    arcs, vertices = network.tail.size, network.supply.size
    arc = np.arange(arcs)
    incidence = coo_array(
        (
            np.concatenate([np.ones(arcs), -np.ones(arcs)]),
            (np.concatenate([network.tail, network.head]), np.concatenate([arc, arc])),
        ),
        shape=(vertices, arcs),
    )
    answer = linprog(
        network.cost,
        A_eq=incidence.tocsr(),
        b_eq=network.supply,
        bounds=np.column_stack([np.zeros(arcs), network.capacity]),
        method="highs",
    )
    assert answer.status == 0
    return float(answer.fun)


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
@pytest.mark.parametrize(("seed", "tasks", "machines"), [(1, 30, 6), (2, 12, 9), (3, 60, 5)])
def test_a_rounds_cost_equals_a_linear_programmes(
    snapshot, model: CostModel, seed: int, tasks: int, machines: int
) -> None:
    layout = random_round(snapshot, model, seed, tasks, machines)
    assert solve(layout.network).cost == pytest.approx(linear_programme(layout.network), rel=1e-9)


def test_flows_are_conserved_and_within_capacity(snapshot) -> None:
    network = random_round(snapshot, LoadSpreading(), 5, 40, 6).network
    amount = solve(network).amount
    assert ((amount >= 0) & (amount <= network.capacity)).all()
    balance = np.bincount(network.tail, amount, network.supply.size) - np.bincount(
        network.head, amount, network.supply.size
    )
    assert balance.tolist() == network.supply.tolist()


def prices_of(tasks: int, unscheduled: list[int]) -> Prices:
    zero = np.zeros(1, np.int64)
    return Prices(np.array(unscheduled), np.zeros(tasks, np.int64), np.zeros((1, 1), np.int64), zero + 10, zero)


def test_the_dearest_to_leave_is_placed_where_one_slot_is_left() -> None:
    class_of = np.zeros(3, np.int64)
    network = build(class_of, np.array([4, 4, 9]), np.array([[1]]), prices_of(3, [100, 300, 200]))
    flow = solve(network)
    assert placements(network, flow, class_of).tolist() == [-1, 0, -1]
    assert flow.cost == 100 + 10 + 200


def test_every_task_of_a_job_may_wait() -> None:
    class_of = np.zeros(5, np.int64)
    network = build(class_of, np.full(5, 2), np.zeros((1, 1), np.int64), prices_of(5, [7] * 5))
    assert solve(network).cost == 35


def test_a_network_without_a_way_out_is_an_error() -> None:
    network = build(np.zeros(2, np.int64), np.array([0, 0]), np.zeros((1, 1), np.int64), prices_of(2, [7, 7]))
    broken = replace(network, capacity=np.where(network.head == network.supply.size - 1, 1, network.capacity))
    with pytest.raises(Permanent, match="2 tasks"):
        solve(broken)


def test_without_the_solvers_package_a_policy_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.graph.python", None)
    with pytest.raises(Unsupported, match="ortools"):
        Firmament(Quincy())
