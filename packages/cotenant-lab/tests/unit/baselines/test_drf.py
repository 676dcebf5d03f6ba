from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.arrays import CPU, MEMORY
from cotenant.model.errors import InvalidInput
from cotenant_lab.baselines.drf import DominantResourceFairness, dominant_share, progressive_filling
from cotenant_lab.baselines.rounds import NO_ROOM, NOTHING_WAITS

A, B = (1, 4), (3, 1)  # the paper's users, on 9 CPU and 18 GB


def test_the_papers_example_gives_three_and_two_tasks() -> None:
    given = progressive_filling(np.array([9, 18]), np.array([A, B]))
    assert given.tolist() == [3, 2]
    shares = given * np.array([4 / 18, 3 / 9])
    assert shares == pytest.approx([2 / 3, 2 / 3])


def test_a_weight_of_two_doubles_a_users_share() -> None:
    # equal demands, one resource: 9 tasks split 6 to 3
    given = progressive_filling(np.array([9, 9]), np.array([(1, 1), (1, 1)]), weight=np.array([2.0, 1.0]))
    assert given.tolist() == [6, 3]


def test_weighted_shares_on_two_resources() -> None:
    # ten of the paper's clusters, B twice as heavy: x tasks of A and y of B use all CPU, x + 3y = 90, where B's share
    # is twice A's, y/30 = 2x/45: x = 18 and y = 24, shares 0.4 and 0.8, and memory is left over
    given = progressive_filling(np.array([90, 180]), np.array([A, B]), weight=np.array([1.0, 2.0]))
    assert given.tolist() == [18, 24]


def test_a_user_that_wants_less_leaves_the_rest_to_others() -> None:
    given = progressive_filling(np.array([10, 10]), np.array([(1, 1), (1, 1)]), tasks=np.array([2, 100]))
    assert given.tolist() == [2, 8]


def test_a_user_without_demand_or_weight_is_refused() -> None:
    with pytest.raises(InvalidInput, match="demand"):
        progressive_filling(np.array([9, 18]), np.array([(0, 0), B]))
    with pytest.raises(InvalidInput, match="weight"):
        progressive_filling(np.array([9, 18]), np.array([A, B]), weight=np.array([0.0, 1.0]))


def test_a_round_gives_the_papers_example_too(snapshot, rng) -> None:
    cluster = snapshot([(9, 18)], [A, B], [0] * 5 + [1] * 5, tenant=[0, 1])
    decision = DominantResourceFairness().decide(cluster, 0.0, rng)
    assert (decision.row[:5] == 0).sum() == 3
    assert (decision.row[5:] == 0).sum() == 2
    assert decision.reasons == {NO_ROOM: 5}
    # A, B, A, B, A: the tenant behind is served, ties go to the lower
    assert cluster.pending.tenant[decision.order].tolist() == [0, 1, 0, 1, 0]


def test_a_round_honours_weights(snapshot, rng) -> None:
    cluster = snapshot([(9, 9)], [(1, 1), (1, 1)], [0] * 9 + [1] * 9, tenant=[0, 1], weight=[2.0, 1.0])
    decision = DominantResourceFairness().decide(cluster, 0.0, rng)
    assert [(decision.row[:9] == 0).sum(), (decision.row[9:] == 0).sum()] == [6, 3]


def test_what_a_tenant_holds_already_counts(snapshot, rng) -> None:
    cluster = snapshot([(8, 80)], [(1, 1), (1, 1)], [0] * 8 + [1] * 8, tenant=[0, 1], used=[(4, 4)])
    cluster.tenants.allocated[0] = (4, 4, 4)
    decision = DominantResourceFairness().decide(cluster, 0.0, rng)
    assert [(decision.row[:8] == 0).sum(), (decision.row[8:] == 0).sum()] == [0, 4]


def test_a_tenant_whose_next_task_is_too_large_continues_with_tasks_that_fit(snapshot, rng) -> None:
    cluster = snapshot([(4, 4)], [(8, 8), (1, 1)], [0, 1, 1], tenant=[0, 0])
    decision = DominantResourceFairness().decide(cluster, 0.0, rng)
    assert decision.row.tolist() == [-1, 0, 0]


def test_the_node_is_the_best_fit(snapshot, rng) -> None:
    cluster = snapshot([(8, 8), (8, 8), (8, 8)], [(2, 2)], [0], used=[(0, 0), (6, 6), (7, 0)])
    assert DominantResourceFairness().decide(cluster, 0.0, rng).row.tolist() == [1]


def test_services_come_first_even_of_the_richest_tenant(snapshot, rng) -> None:
    cluster = snapshot([(2, 2)], [(1, 1), (1, 1)], [0, 0, 1, 1], tenant=[0, 1], service=[False, False, True, True])
    cluster.tenants.allocated[1] = (1, 1, 1)
    decision = DominantResourceFairness().decide(cluster, 0.0, rng)
    assert decision.row.tolist() == [-1, -1, 0, 0]


def test_shares_ignore_the_count_of_pods_and_what_the_cluster_lacks() -> None:
    allocated = np.array([[2, 3, 900, 5]])
    total = np.array([10, 10, 1000, 0])
    assert dominant_share(allocated, total, np.array([0.5]), 0) == pytest.approx(0.6)


def test_the_snapshot_is_left_as_it_was(snapshot, rng) -> None:
    cluster = snapshot([(4, 4)], [(1, 1)], [0, 0], group_limit=[1])
    decision = DominantResourceFairness().decide(cluster, 0.0, rng)
    assert decision.row.tolist() == [0, -1]
    assert cluster.nodes.requested[0, [CPU, MEMORY]].tolist() == [0, 0]
    assert cluster.nodes.group_count.sum() == 0
    assert cluster.tenants.allocated.sum() == 0


def test_an_empty_queue_has_a_reason(snapshot, rng) -> None:
    decision = DominantResourceFairness().decide(snapshot([(4, 4)], [(1, 1)], []), 0.0, rng)
    assert decision.reasons == {NOTHING_WAITS: 0}
    assert decision.row.size == decision.order.size == 0
