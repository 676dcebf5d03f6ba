from __future__ import annotations

import pytest

from cotenant.engine.rebalancer.plan import KindPlan, MovePlan, PlannedMove
from cotenant.model.assess.prices import read_prices
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, Amounts
from cotenant.services.rebalancer.saving import with_savings

PRICES = read_prices(
    b"currency: EUR\nnodes: [{labels: {pool: a}, perHour: 0.5}, {labels: {pool: b}, perHour: 0.25}]", "p"
)


def node(name: str, pool: str) -> Node:
    return Node(name, Amounts.of({CPU_NAME: 4000, MEMORY_NAME: 8 << 30}), Labels.of({"pool": pool}))


def move(source: str, trigger: str = "HighNodeUtilization") -> PlannedMove:
    return PlannedMove("ns/p", "u", "", source, "kept", "", "", "", (), {}, {}, {}, {}, {}, trigger)


def plan(*moves: PlannedMove) -> MovePlan:
    kinds = (KindPlan("Defragmentation", 0, 0), KindPlan("HighNodeUtilization", 3, 2, ("a note",)))
    return MovePlan(moves, (), (), 4, 9, (), 0, (), kinds)


NODES = [node("n1", "a"), node("n2", "b"), node("n3", "c"), node("kept", "a")]


@pytest.mark.parametrize(
    ("moves", "note"),
    [
        ((move("n1"), move("n1"), move("n2")), "0.75 EUR an hour saved by removing n1, n2"),
        ((move("n2"), move("n3")), "0.25 EUR an hour saved by removing n2; without a price: n3"),
        ((move("n3"), move("gone")), "the nodes that it empties have no price: n3, gone"),
    ],
)
def test_emptied_nodes_save_their_price(moves: tuple[PlannedMove, ...], note: str) -> None:
    other, packing = with_savings(plan(*moves), NODES, PRICES).kinds
    assert packing.notes == ("a note", note)
    assert other.notes == ()


def test_moves_that_empty_nothing_save_nothing() -> None:
    found = plan(move("n1", "LowNodeLoad"))
    assert with_savings(found, NODES, PRICES) is found
