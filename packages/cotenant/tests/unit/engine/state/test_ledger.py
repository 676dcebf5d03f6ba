"""The ledger by itself: every sum is checked against the residents, and the first that differs is named."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.engine.state.ledger import Ledger, empty_nodes
from cotenant.model.arrays import CPU, MEMORY, Param, ShapeArrays, Sum
from cotenant.model.errors import Permanent

PLAIN, GROUPED = 0, 1  # shapes: of no group, and of group 1
NODES, GROUPS, TENANTS = 3, 2, 2


@pytest.fixture
def ledger() -> Ledger:
    """Pods 0 and 1 of each shape on row 0, pod 2 in the group on row 2."""
    shapes = ShapeArrays(
        request=np.array([[1000, 10, 1], [3000, 30, 1]], dtype=np.int64),
        sums=np.arange(2 * len(Sum), dtype=np.int64).reshape(2, len(Sum)) + 1,
        params=np.zeros((2, len(Param))),
        tolerated=np.zeros(2, dtype=np.uint64),
        selector=np.zeros((2, 1), dtype=np.uint64),
        tenant=np.array([0, 1]),
        group=np.array([-1, 1]),
        group_limit=np.array([0, 1]),
    )
    made = Ledger(empty_nodes(np.full((NODES, 3), 4000), GROUPS), shapes, TENANTS, pods=1)
    made.place(np.array([0, 1, 2]), np.array([0, 0, 2]), np.array([PLAIN, GROUPED, GROUPED]))
    return made


def test_sums_are_those_of_the_residents(ledger: Ledger) -> None:
    ledger.validate()

    assert ledger.nodes.requested[:, CPU].tolist() == [4000, 0, 3000]
    assert ledger.nodes.group_count.tolist() == [[0, 1], [0, 0], [0, 1]]
    assert ledger.tenants.allocated[:, MEMORY].tolist() == [10, 60]


@pytest.mark.parametrize(
    ("name", "row", "column", "right"),
    [
        ("requested", 2, 1, 30),
        ("sums", 2, 3, len(Sum) + 4),
        ("group_count", 0, 1, 1),
        ("group_count", 0, 0, 0),  # a pod of no group is in none
        ("tenants.allocated", 1, 0, 6000),
    ],
)
@pytest.mark.parametrize("change", [1, -1])
def test_the_first_sum_that_drifted_is_named(
    ledger: Ledger, name: str, row: int, column: int, right: int, change: int
) -> None:
    array = ledger.tenants.allocated if name == "tenants.allocated" else getattr(ledger.nodes, name)
    array[row, column] += change

    with pytest.raises(Permanent) as raised:
        ledger.validate()

    assert str(raised.value) == (
        f"ledger drifted: {name}[{row}, {column}] is {right + change}, residents add up to {right}"
    )


def test_what_left_counts_nowhere(ledger: Ledger) -> None:
    ledger.remove(np.array([0, 2]))
    ledger.validate()

    assert ledger.residents(0).tolist() == [1]
    assert ledger.nodes.group_count.tolist() == [[0, 1], [0, 0], [0, 0]]
    with pytest.raises(Permanent, match="pod 2 is not assigned"):
        ledger.remove(np.array([1, 2]))


def test_a_full_node_is_not_over_capacity_and_any_resource_can_be(ledger: Ledger) -> None:
    assert ledger.over_capacity().tolist() == []

    ledger.nodes.capacity[2, MEMORY] = 29
    ledger.nodes.capacity[0, CPU] = 3999

    assert ledger.over_capacity().tolist() == [0, 2]


def test_a_pod_is_assigned_once(ledger: Ledger) -> None:
    with pytest.raises(Permanent, match="pod 1 is already assigned to row 0"):
        ledger.place(np.array([3, 1]), np.array([1, 1]), np.array([PLAIN, PLAIN]))
    ledger.validate()
