"""The score tree on small clusters whose right answers are obvious."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.engine.replay.score_tree import ScoreTree
from cotenant.engine.replay.tree_kernels import PROMOTE_AFTER
from cotenant.model.arrays import CPU, MEMORY, NodeArrays, Param, Report, ShapeArrays, Sum
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.lanes.layout import Kernel

GIB = 1 << 30


def some_nodes(cpu: list[int]) -> NodeArrays:
    """Nodes with these milli-CPU, a GiB per core and room for ten pods."""
    count = len(cpu)
    capacity = np.array([[c, c * GIB // 1000, 10] for c in cpu], dtype=np.int64)
    return NodeArrays(
        capacity,
        np.zeros_like(capacity),
        np.zeros((count, len(Sum)), dtype=np.int64),
        np.full((count, len(Report)), np.nan),
        np.zeros(count, dtype=np.uint64),
        np.zeros((count, 1), dtype=np.uint64),
        np.ones(count, dtype=np.bool_),
        np.zeros((count, 1), dtype=np.int64),
    )


def some_shapes(cpu: list[int]) -> ShapeArrays:
    """Shapes with these milli-CPU and a GiB per core, one tenant."""
    count = len(cpu)
    params = np.zeros((count, len(Param)))
    params[:, Param.LOAD_LIMIT] = np.inf
    params[:, Param.PRIORITY_BASE] = 35
    return ShapeArrays(
        np.array([[c, c * GIB // 1000, 1] for c in cpu], dtype=np.int64),
        np.zeros((count, len(Sum)), dtype=np.int64),
        params,
        np.zeros(count, dtype=np.uint64),
        np.zeros((count, 1), dtype=np.uint64),
        np.zeros(count, dtype=np.int64),
        np.full(count, -1, dtype=np.int64),
        np.ones(count, dtype=np.int64),
    )


def test_equal_nodes_fill_from_the_lowest_row() -> None:
    tree = ScoreTree(Kernel.WEIGHTED, some_nodes([4000] * 20), some_shapes([1000]))
    assert tree.place_many(np.zeros(20, dtype=np.int64)).tolist() == list(range(20))


def test_the_emptier_node_is_taken_and_a_departure_counts() -> None:
    tree = ScoreTree(Kernel.KUBE_DEFAULT, some_nodes([4000, 8000]), some_shapes([2000]))
    assert [tree.place(0) for _ in range(3)] == [1, 0, 1]
    tree.release(1, 0)
    tree.release(1, 0)
    assert tree.best(0) == 1


def test_a_full_cluster_answers_minus_one() -> None:
    tree = ScoreTree(Kernel.WEIGHTED, some_nodes([1000, 1000]), some_shapes([1000, 500]))
    assert [tree.place(0) for _ in range(3)] == [0, 1, -1]
    assert tree.best(1) == -1


def test_a_node_that_goes_down_is_not_chosen_until_it_is_up() -> None:
    tree = ScoreTree(Kernel.WEIGHTED, some_nodes([4000, 1000]), some_shapes([1000]))
    tree.set_ready(0, False)
    assert tree.best(0) == 1
    tree.set_ready(0, True)
    assert tree.best(0) == 0


def test_a_gang_that_does_not_fit_leaves_nothing() -> None:
    nodes = some_nodes([2000, 2000])
    tree = ScoreTree(Kernel.WEIGHTED, nodes, some_shapes([1000]))
    assert tree.gang(0, 5).tolist() == []
    assert nodes.requested.sum() == 0
    assert sorted(tree.gang(0, 4).tolist()) == [0, 0, 1, 1]
    tree.validate()


def test_founding_reads_a_report_while_it_is_fresh() -> None:
    nodes = some_nodes([4000, 4000])
    tree = ScoreTree(Kernel.FOUNDING, nodes, some_shapes([1000]))
    busy = np.zeros(len(Report))
    busy[[Report.CPU_USED, Report.MEMORY_USED, Report.DOMINANT_SHARE]] = 0.9
    tree.report(0, busy)
    assert tree.best(0) == 1
    tree.advance(121.0)
    assert tree.best(0) == 0
    tree.validate()


def test_weights_that_see_violations_only_avoid_them() -> None:
    nodes = some_nodes([8000, 4000])
    nodes.report[:, Report.VIOLATION] = [0.5, 0.1]
    tree = ScoreTree(Kernel.WEIGHTED, nodes, some_shapes([1000]), weights=(1.0, 0.0, 0.0, 0.0, 0.0))
    assert tree.best(0) == 0
    tree.reweigh((0.0, 0.0, 0.0, 1.0, 0.0))
    assert tree.best(0) == 1
    tree.validate()


def test_a_tenant_is_spread_by_what_it_holds() -> None:
    nodes, shapes = some_nodes([4000, 4000]), some_shapes([1000, 1000])
    shapes.tenant[:] = [0, 1]
    tree = ScoreTree(Kernel.WEIGHTED, nodes, shapes, weights=(0.0, 0.0, 0.0, 0.0, 1.0))
    assert [tree.place(0), tree.place(0), tree.place(1), tree.place(1)] == [0, 1, 0, 1]
    assert tree.arrays.held[:, :, CPU].tolist() == [[1000, 1000], [1000, 1000]]


def test_a_shape_asked_often_takes_the_lane_asked_longest_ago() -> None:
    shapes = some_shapes([1000 + 10 * k for k in range(17)])
    tree = ScoreTree(Kernel.WEIGHTED, some_nodes([64000] * 5), shapes, lanes=16)
    for k in range(1, 16):
        tree.best(k)
    for _ in range(PROMOTE_AFTER):
        tree.best(16)
    assert tree.arrays.table.lane[16] == -1
    tree.best(16)
    assert tree.arrays.table.lane[16] >= 0
    assert tree.arrays.table.lane[0] == -1
    tree.validate()


def test_capacity_that_shrinks_below_requests_closes_the_node() -> None:
    nodes = some_nodes([4000, 1000])
    tree = ScoreTree(Kernel.WEIGHTED, nodes, some_shapes([1000]))
    assert [tree.place(0), tree.place(0)] == [0, 0]
    nodes.capacity[0, MEMORY] = GIB
    tree.refresh(0)
    assert tree.best(0) == 1
    tree.release(0, 0)
    tree.release(0, 0)
    assert tree.best(0) == 0
    tree.validate()


def test_group_limit_holds() -> None:
    shapes = some_shapes([100])
    shapes.group[0] = 0
    tree = ScoreTree(Kernel.WEIGHTED, some_nodes([4000] * 3), shapes)
    assert [tree.place(0) for _ in range(4)] == [0, 1, 2, -1]


def test_bad_input_is_refused() -> None:
    nodes, shapes = some_nodes([1000]), some_shapes([100])
    with pytest.raises(InvalidInput, match="precision"):
        ScoreTree(Kernel.FOUNDING, nodes, shapes, precision="float32")
    with pytest.raises(InvalidInput, match="weights"):
        ScoreTree(Kernel.WEIGHTED, nodes, shapes, weights=(0.0, 0.0, 0.0, 0.0, 0.0))
    with pytest.raises(InvalidInput, match="held"):
        ScoreTree(Kernel.WEIGHTED, nodes, shapes, held=np.zeros((1, 0, 3), dtype=np.int64))
    tree = ScoreTree(Kernel.WEIGHTED, nodes, shapes)
    for call in (lambda: tree.place(1), lambda: tree.release(5, 0), lambda: tree.gang(0, 0), lambda: tree.refresh(9)):
        with pytest.raises(InvalidInput):
            call()
    with pytest.raises(InvalidInput, match="now_s"):
        tree.advance(-1.0)
    shapes.request[0, MEMORY] = (1 << 30) + 1
    with pytest.raises(InvalidInput, match="2\\^24"):
        ScoreTree(Kernel.WEIGHTED, nodes, shapes, precision="float32")
