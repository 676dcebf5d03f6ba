"""Evidence of missed objectives by pod, and the predicted use of objectives."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.policy.interference.predicted import objective_use, violation
from cotenant.policy.rebalance.objectives import Misses, MissSettings


def test_a_pod_is_a_victim_after_enough_clear_windows_and_none_counts_twice() -> None:
    misses = Misses(MissSettings(windows=3))
    for window in range(3):
        assert not misses.victims(60.0 * window, 180.0)
        misses.window("slow", 2.0, 60.0 * window)
        misses.window("slow", 2.0, 60.0 * window)
        misses.window("fine", 0.9, 60.0 * window)
        misses.window("worse", 3.0, 60.0 * window)
    assert [uid for uid, _, _ in misses.victims(120.0, 180.0)] == ["worse", "slow"]
    assert not misses.victims(1000.0, 180.0), "old windows do not count"
    misses.window("worse", 0.5, 180.0)
    assert [uid for uid, _, _ in misses.victims(180.0, 180.0)] == ["slow"]
    misses.keep({})
    assert not misses.victims(180.0, 180.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_predicted_use_of_an_objective_is_the_law_of_the_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    use, a, b, allowance = (rng.random(n) * 2 for _ in range(4))
    cores = 8.0
    found = objective_use(cores, use, a, b, allowance)
    for i in range(n):
        pressure = sum(b[j] * use[j] for j in range(n) if j != i) / (cores / 2)
        assert found[i] == pytest.approx(a[i] * pressure / allowance[i])
    assert violation(found) == pytest.approx(sum(max(0.0, entry - 1) for entry in found))


def test_nothing_is_predicted_without_an_allowance() -> None:
    one = np.ones(2)
    found = objective_use(4.0, one, one, one, np.array([np.inf, 0.5]))
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(1.0)
    assert violation(found) == 0.0
    assert len(objective_use(4.0, np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))) == 0
