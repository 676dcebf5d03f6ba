"""Replaying a trace: start times, and tasks that never start."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.engine.replay.score_tree import ScoreTree
from cotenant.lab.replay import Replay, replay
from cotenant.model.arrays import NodeArrays, Param, Report, ShapeArrays, Sum
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.lanes.layout import Kernel

SMALL, LARGE, ABSURD = 0, 1, 2


def a_tree(nodes: int) -> ScoreTree:
    """Nodes of four cores; shapes of one, four and five cores."""
    capacity = np.full((nodes, 3), 4000, dtype=np.int64)
    arrays = NodeArrays(
        capacity,
        np.zeros_like(capacity),
        np.zeros((nodes, len(Sum)), dtype=np.int64),
        np.full((nodes, len(Report)), np.nan),
        np.zeros(nodes, dtype=np.uint64),
        np.zeros((nodes, 1), dtype=np.uint64),
        np.ones(nodes, dtype=np.bool_),
        np.zeros((nodes, 1), dtype=np.int64),
    )
    params = np.zeros((3, len(Param)))
    params[:, Param.LOAD_LIMIT] = np.inf
    shapes = ShapeArrays(
        np.array([[1000, 1000, 1], [4000, 4000, 1], [5000, 5000, 1]]),
        np.zeros((3, len(Sum)), dtype=np.int64),
        params,
        np.zeros(3, dtype=np.uint64),
        np.zeros((3, 1), dtype=np.uint64),
        np.zeros(3, dtype=np.int64),
        np.full(3, -1, dtype=np.int64),
        np.ones(3, dtype=np.int64),
    )
    return ScoreTree(Kernel.WEIGHTED, arrays, shapes)


def run(nodes: int, tasks: list[tuple[float, float, int]]) -> Replay:
    arrival, duration, shape = zip(*tasks, strict=True)
    tree = a_tree(nodes)
    result = replay(tree, np.array(arrival), np.array(duration), np.array(shape))
    assert (tree.arrays.nodes.requested == 0).all()
    tree.validate()
    return result


def test_a_task_waits_until_there_is_room() -> None:
    result = run(1, [(0.0, 10.0, LARGE), (1.0, 5.0, LARGE), (2.0, 1.0, LARGE)])
    assert result.start_s.tolist() == [0.0, 10.0, 15.0]
    assert (result.finish_s, result.waited, result.unplaced, result.events) == (16.0, 2, 0, 6)


def test_a_new_task_that_fits_overtakes() -> None:
    result = run(1, [(0.0, 10.0, SMALL), (1.0, 5.0, LARGE), (2.0, 1.0, SMALL)])
    assert result.start_s.tolist() == [0.0, 10.0, 2.0]


def test_a_task_that_never_fits_is_counted_and_does_not_block_for_ever() -> None:
    result = run(1, [(0.0, 10.0, SMALL), (1.0, 5.0, ABSURD), (2.0, 1.0, LARGE)])
    assert result.row.tolist() == [0, -1, 0]
    assert np.isnan(result.start_s[1])
    assert (result.start_s[2], result.unplaced, result.waited) == (10.0, 1, 2)


def test_finishes_come_in_order_of_time() -> None:
    """Four at a time on one node: starts equal a plain simulation of four servers."""
    rng = np.random.default_rng(4)
    arrival, duration = np.sort(rng.random(300)) * 100, rng.random(300) * 3
    result = run(1, [(a, d, SMALL) for a, d in zip(arrival, duration, strict=True)])
    free = [0.0] * 4
    for a, d, started in zip(arrival, duration, result.start_s, strict=True):
        server = min(range(4), key=free.__getitem__)
        assert started == max(a, free[server])
        free[server] = started + d


@pytest.mark.parametrize(
    ("arrival", "duration", "shape", "field"),
    [
        ([2.0, 1.0], [1.0, 1.0], [0, 0], "arrival_s\\[1\\]"),
        ([0.0, np.nan], [1.0, 1.0], [0, 0], "arrival_s\\[1\\]"),
        ([0.0], [-1.0], [0], "duration_s\\[0\\]"),
        ([0.0], [1.0], [7], "shape"),
        ([], [], [], "trace"),
    ],
)
def test_a_bad_trace_is_refused(arrival: list[float], duration: list[float], shape: list[int], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        replay(a_tree(1), np.array(arrival), np.array(duration), np.array(shape, dtype=np.int64))
