"""Who should move: those who keep missing, the largest misses first."""

import numpy as np

from cotenant.policy.rebalance.victims import victims


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
