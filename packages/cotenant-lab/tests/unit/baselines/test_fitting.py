from __future__ import annotations

import numpy as np
import pytest

from cotenant_lab.baselines.fitting import best_fit_row, feasible, fits_somewhere, occupy, ready_capacity, scan
from cotenant_lab.baselines.rounds import fitting_pods


def best(cluster, shape: int = 0) -> int:
    rows = np.arange(cluster.nodes.ready.size)
    return best_fit_row(cluster.nodes, cluster.shapes, shape, rows, np.empty_like(rows))


def test_a_pod_fits_up_to_the_last_unit_of_every_resource(snapshot) -> None:
    cluster = snapshot([(4, 4)], [(2, 1), (3, 1), (1, 4)], [], used=[(2, 1)])
    assert feasible(cluster.nodes, cluster.shapes, 0, 0)
    assert not feasible(cluster.nodes, cluster.shapes, 0, 1)  # CPU
    assert not feasible(cluster.nodes, cluster.shapes, 0, 2)  # memory


def test_the_number_of_pods_is_a_limit(snapshot) -> None:
    cluster = snapshot([(4, 4)], [(1, 1)], [], running=[1_000])
    assert not feasible(cluster.nodes, cluster.shapes, 0, 0)


def test_a_node_that_is_not_ready_takes_nothing(snapshot) -> None:
    cluster = snapshot([(4, 4), (4, 4)], [(1, 1)], [])
    cluster.nodes.ready[0] = False
    assert not feasible(cluster.nodes, cluster.shapes, 0, 0)
    assert feasible(cluster.nodes, cluster.shapes, 1, 0)
    assert ready_capacity(cluster.nodes).tolist() == [4, 4, 1000]


@pytest.mark.parametrize(
    ("taints", "tolerated", "fits"), [(0, 0, True), (5, 1, False), (5, 7, True), (1 << 63, 0, False)]
)
def test_every_taint_must_be_tolerated(snapshot, taints: int, tolerated: int, fits: bool) -> None:
    cluster = snapshot([(4, 4)], [(1, 1)], [])
    cluster.nodes.taints[0] = taints
    cluster.shapes.tolerated[0] = tolerated
    assert feasible(cluster.nodes, cluster.shapes, 0, 0) is fits


@pytest.mark.parametrize(
    ("labels", "selector", "fits"), [(0, 0, True), (4, 6, False), (7, 6, True), (0, 1 << 63, False)]
)
def test_every_selected_label_must_be_there(snapshot, labels: int, selector: int, fits: bool) -> None:
    cluster = snapshot([(4, 4)], [(1, 1)], [])
    cluster.nodes.labels[0, 0] = labels
    cluster.shapes.selector[0, 0] = selector
    assert feasible(cluster.nodes, cluster.shapes, 0, 0) is fits


def test_a_group_stops_at_its_limit(snapshot) -> None:
    cluster = snapshot([(4, 4)], [(1, 1)], [], group_limit=[2])
    for residents, fits in ((0, True), (1, True), (2, False)):
        cluster.nodes.group_count[0, 0] = residents
        assert feasible(cluster.nodes, cluster.shapes, 0, 0) is fits


def test_a_scan_holds_either_side_still(snapshot) -> None:
    cluster = snapshot([(1, 1), (3, 3), (2, 2)], [(1, 1), (3, 3), (2, 2)], [])
    found = np.empty(3, np.int64)
    every = np.arange(3)
    assert scan(cluster.nodes, cluster.shapes, every, 1, np.array([2]), 0, 3, found) == 2
    assert found[:2].tolist() == [1, 2]
    assert scan(cluster.nodes, cluster.shapes, np.array([2]), 0, every, 1, 3, found) == 2
    assert found[:2].tolist() == [0, 2]


def test_best_fit_leaves_least_over_relative_to_capacity(snapshot) -> None:
    # leftovers after one pod: 6/8 + 6/8, 1/8 + 2/8, 0/2 + 2/4
    cluster = snapshot([(8, 8), (8, 8), (2, 4)], [(2, 2)], [], used=[(0, 0), (5, 4), (0, 0)])
    assert best(cluster) == 1


def test_best_fit_ties_go_to_the_first_row_and_no_row_is_minus_one(snapshot) -> None:
    assert best(snapshot([(4, 4), (4, 4)], [(1, 1)], [])) == 0
    assert best(snapshot([(4, 4), (4, 4)], [(5, 1)], [])) == -1


def test_best_fit_ignores_a_resource_that_the_node_lacks(snapshot) -> None:
    cluster = snapshot([(4, 0), (4, 8)], [(1, 0)], [], used=[(2, 0), (2, 8)])
    assert best(cluster) == 0


def test_occupying_adds_requests_and_the_group(snapshot) -> None:
    cluster = snapshot([(4, 4)], [(1, 2)], [], group_limit=[3])
    occupy(cluster.nodes, cluster.shapes, 0, 0)
    assert cluster.nodes.requested.tolist() == [[1, 2, 1]]
    assert cluster.nodes.group_count.tolist() == [[1]]


def test_which_shapes_and_pods_fit_anywhere(snapshot) -> None:
    cluster = snapshot([(1, 1), (3, 3)], [(1, 1), (4, 4), (3, 3)], [])
    assert fits_somewhere(cluster.nodes, cluster.shapes, np.array([1, 2])).tolist() == [False, True]
    pods = fitting_pods(cluster.nodes, cluster.shapes, np.array([2, 1, 1, 0]))
    assert pods.tolist() == [True, False, False, True]
