"""Who should move: those who keep missing, the largest misses first."""

import numpy as np

from cotenant.policy.rebalance.victims import hourly_limit, takeover_limit, victims


def test_long_misses_outside_the_back_off_move_largest_first() -> None:
    missed = np.array([0, 1, 2, 3, 5, 2])
    ratio = np.array([0.5, 2.0, 1.2, 1.1, 9.0, 1.2])
    cores = np.array([16.0, 16.0, 4.0, 8.0, 4.0, 4.0])
    rested = np.array([np.inf, np.inf, np.inf, np.inf, 60.0, np.inf])
    assert victims(missed, ratio, cores, rested, 2.0, 1800.0).tolist() == [3, 2, 5]
    assert victims(missed, ratio, cores, rested, 2.0, 30.0).tolist() == [4, 3, 2, 5]
    assert victims(missed, ratio, cores, rested, 6.0, 0.0).tolist() == []


def test_one_absurd_latency_does_not_outweigh_a_large_replica_for_ever() -> None:
    order = victims(np.array([2, 2]), np.array([1000.0, 3.0]), np.array([2.0, 16.0]), np.full(2, np.inf), 2.0, 0.0)
    assert order.tolist() == [1, 0]


def test_the_hourly_limit_widens_with_the_replicas_that_miss_beyond_the_tolerated_share_and_ends_at_a_twentieth() -> (
    None
):
    assert hourly_limit(1000, missing=0, share=0.002) == 2
    assert hourly_limit(1000, missing=50, share=0.002) == 2
    assert hourly_limit(1000, missing=65, share=0.002) == 17
    assert hourly_limit(1000, missing=900, share=0.002) == 50
    assert hourly_limit(1000, missing=900, share=0.2) == 200  # a wider usual limit stays
    assert hourly_limit(1499, missing=0, share=0.002) == 2  # never above the share
    assert hourly_limit(7, missing=0, share=0.002) == 1  # a small cluster may move one
    assert hourly_limit(7, missing=0, share=0.0) == 0
    assert hourly_limit(0, missing=0, share=1.0) == 0


def test_a_cluster_that_another_scheduler_placed_may_move_a_part_of_it_once() -> None:
    assert takeover_limit(1000) == 45
    assert takeover_limit(0) == 0
