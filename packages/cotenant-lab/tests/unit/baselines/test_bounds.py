from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.arrays import CPU, MEMORY
from cotenant_lab.baselines.bounds import lp_bound, volume_bound


def test_volume_is_free_over_demanded(snapshot) -> None:
    cluster = snapshot([(4, 9), (4, 9)], [(3, 3)], [0] * 4, used=[(1, 0), (1, 0)])
    assert volume_bound(cluster) == pytest.approx(6 / 12)
    assert volume_bound(cluster, MEMORY) == 1.0


def test_nothing_demanded_is_all_placed(snapshot) -> None:
    cluster = snapshot([(4, 4)], [(3, 3)], [])
    assert volume_bound(cluster) == lp_bound(cluster) == 1.0


def test_nodes_that_are_not_ready_have_no_room(snapshot) -> None:
    cluster = snapshot([(4, 4), (4, 4)], [(4, 4)], [0, 0])
    cluster.nodes.ready[0] = False
    assert volume_bound(cluster) == lp_bound(cluster) == 0.5
    cluster.nodes.ready[1] = False
    assert volume_bound(cluster) == lp_bound(cluster) == 0.0


def test_two_resources_bind_together_where_volume_sees_one(snapshot) -> None:
    # CPU alone would hold everything; memory of 10 holds x of (2, 5) and y of (1, 1): 5x + y <= 10, y <= 5: x = 1, y =
    # 5
    cluster = snapshot([(20, 10)], [(2, 5), (1, 1)], [0] * 4 + [1] * 5)
    assert volume_bound(cluster) == 1.0
    assert lp_bound(cluster) == pytest.approx((2 * 1 + 5) / 13)


def test_a_pod_larger_than_any_node_cannot_be_placed_in_pieces(snapshot) -> None:
    cluster = snapshot([(4, 4), (4, 4)], [(5, 1), (3, 1)], [0, 1])
    assert volume_bound(cluster) == 1.0
    assert lp_bound(cluster) == pytest.approx(3 / 8)


def test_a_class_only_counts_room_on_nodes_it_may_use(snapshot) -> None:
    cluster = snapshot([(4, 4), (4, 4)], [(2, 2)], [0] * 4)
    cluster.nodes.taints[1] = 1
    assert lp_bound(cluster) == pytest.approx(0.5)
    cluster.shapes.tolerated[0] = 1
    assert lp_bound(cluster) == pytest.approx(1.0)


def test_group_limits_bound_too(snapshot) -> None:
    cluster = snapshot([(9, 9), (9, 9)], [(1, 1)], [0] * 8, group_limit=[3])
    cluster.nodes.group_count[0, 0] = 2
    assert lp_bound(cluster) == pytest.approx(4 / 8)


def test_the_fraction_is_of_the_resource_asked_for(snapshot) -> None:
    cluster = snapshot([(4, 8)], [(4, 1), (1, 4)], [0, 1])
    # 4x + y <= 4 and x + 4y <= 8 with x, y in 0..1: most memory, x + 4y, at x = 3/4 and y = 1; most CPU, 4x + y, is all
    # 4
    assert lp_bound(cluster, MEMORY) == pytest.approx(4.75 / 5)
    assert lp_bound(cluster, CPU) == pytest.approx(4 / 5)


def test_the_bound_is_never_below_a_whole_placement(snapshot) -> None:
    from cotenant_lab.baselines.drf import DominantResourceFairness

    for seed in range(20):
        rng = np.random.default_rng(seed)
        shapes = rng.integers(1, 7, (4, 2)).tolist()
        cluster = snapshot(rng.integers(3, 12, (3, 2)).tolist(), shapes, rng.integers(0, 4, 12).tolist())
        row = DominantResourceFairness().decide(cluster, 0.0, rng).row
        cpu = cluster.shapes.request[cluster.pending.shape, CPU]
        reached = cpu[row >= 0].sum() / cpu.sum()
        assert reached <= lp_bound(cluster) + 1e-9 <= volume_bound(cluster) + 2e-9
