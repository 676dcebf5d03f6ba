"""Who should move: those who keep missing, the largest misses first."""

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    ("ratios", "cores", "order"),
    [
        ((10.5, 10.1), (2.0, 2.01), [1, 0]),  # from ten times the objective on, only the size counts
        ((9.9, 10.0), (2.0, 2.0), [1, 0]),
        ((10.0, 11.0), (2.0, 2.0), [0, 1]),  # as urgent as one another: as they came
        ((3.0, 2.0), (2.0, 3.1), [1, 0]),
    ],
)
def test_urgency_is_the_size_times_the_miss_up_to_ten_times(
    ratios: tuple[float, ...], cores: tuple[float, ...], order: list[int]
) -> None:
    missed, rested = np.full(2, 2), np.full(2, np.inf)
    assert victims(missed, np.array(ratios), np.array(cores), rested, 2.0, 0.0).tolist() == order


@pytest.mark.parametrize(("missed", "rested_s", "moves"), [(2, 60.0, 1), (1, 60.0, 0), (2, 59.9, 0), (3, 61.0, 1)])
def test_windows_and_rest_are_reached_exactly(missed: int, rested_s: float, moves: int) -> None:
    found = victims(np.array([missed]), np.array([2.0]), np.array([1.0]), np.array([rested_s]), 2.0, 60.0)
    assert len(found) == moves


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
