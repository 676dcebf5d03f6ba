"""How much of what each pod tolerates its neighbours are predicted to cause, pod by pod."""

from __future__ import annotations

from math import inf, isnan, nan

import numpy as np
import pytest

from cotenant.policy.interference.predicted import objective_use, shortfall, violation


def by_hand(
    cores: float, use: list[float], a: list[float], b: list[float], may: list[float], loss: float
) -> list[float]:
    busy = min(1.0, sum(use) / cores)
    siblings = 1 / (1 - loss * (2 * busy - 1) / busy) if busy > 0.5 else 1.0
    found = []
    for i in range(len(use)):
        others = sum(b[j] * use[j] / (cores / 2) for j in range(len(use)) if j != i)
        excess = (1 + a[i] * others) * siblings - 1
        found.append(excess / may[i] if 0 < may[i] < inf else nan)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_the_law_pod_by_pod(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cores, loss = float(rng.choice([4, 16])), float(rng.choice([0.0, 0.3]))
    columns = [rng.random(5) * most for most in (4.0, 1.0, 0.5)]
    may = rng.choice([0.1, 0.5, 0.0, -1.0, inf, nan], 5)
    found = objective_use(cores, columns[0], columns[1], columns[2], may, loss)
    assert found == pytest.approx(
        by_hand(cores, *(list(map(float, column)) for column in (*columns, may)), loss), nan_ok=True
    )


def test_siblings_slow_each_other_from_half_of_the_threads_on() -> None:
    nobody = np.zeros(1)
    for use, expected in ((2.0, 0.0), (3.0, 1 / (1 - 0.3 * 2 / 3) - 1), (4.0, 1 / 0.7 - 1), (9.0, 1 / 0.7 - 1)):
        (found,) = objective_use(4.0, np.array([use]), nobody, nobody, np.ones(1), 0.3)
        assert found == pytest.approx(expected)
    assert objective_use(4.0, np.array([4.0]), nobody, nobody, np.ones(1)) == pytest.approx([0.0])


def test_nothing_is_predicted_of_an_empty_node_or_one_without_cores() -> None:
    assert objective_use(4.0, *[np.zeros(0)] * 4).tolist() == []
    assert all(isnan(value) for value in objective_use(0.0, *[np.ones(2)] * 4))


def test_sums_over_what_is_exceeded() -> None:
    used, cores = np.array([0.5, 1.25, 1.0, nan, 3.0]), np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    assert shortfall(used, cores) == 2.0 * 0.25 + 16.0
    assert violation(used) == 2.25
    assert (shortfall(np.zeros(0), np.zeros(0)), violation(np.zeros(0))) == (0.0, 0.0)
