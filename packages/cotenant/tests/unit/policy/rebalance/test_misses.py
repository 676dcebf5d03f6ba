"""Evidence that a replica misses its objective: clear misses count soon, noise around the objective does not."""

import numpy as np
import pytest

from cotenant.policy.rebalance.misses import CLEAR, evidence, standard_error

NOISE = 0.05


def after(ratios: np.ndarray, requests: int = 10_000) -> np.ndarray:
    """The evidence after each window."""
    found, now = [], np.zeros(1)
    for ratio in ratios:
        now = evidence(now, np.array([ratio]), np.array([requests]), NOISE)
        found.append(float(now[0]))
    return np.array(found)


def test_two_clear_misses_are_the_evidence_of_two_windows_and_one_outlier_is_not() -> None:
    assert after(np.array([1.5, 1.5])).tolist() == [CLEAR, 2 * CLEAR]
    assert after(np.array([100.0, 0.9, 0.9])).max() == CLEAR


def test_a_met_objective_removes_evidence_and_it_is_never_negative() -> None:
    assert after(np.array([0.5, 0.5, 1.5, 0.5, 1.5])).tolist() == [0.0, 0.0, CLEAR, 0.0, CLEAR]


def test_the_standard_error_is_that_of_the_sample_p99_of_an_exponential_tail() -> None:
    rng = np.random.default_rng(3)
    for requests in (1_000, 5_000):
        windows = np.sort(rng.exponential(1.0, (3_000, requests)), axis=1)[:, int(0.99 * requests) - 1]
        assert float(standard_error(np.array(requests), 0.0)) == pytest.approx(np.log(windows).std(), rel=0.06)
    assert float(standard_error(np.array(0), 0.0)) == pytest.approx(1 / np.log(100))


def test_noise_around_an_objective_that_is_met_seldom_gives_two_windows_of_evidence() -> None:
    """A day of windows of 200 replicas at 0.9 of the objective with 10 % of noise: counting two windows in a row
    above it would move nearly all.
    """
    rng = np.random.default_rng(4)
    ratios = 0.9 * np.exp(0.10 * rng.standard_normal((360, 200)))
    now, most = np.zeros(200), np.zeros(200)
    above = np.zeros(200, dtype=bool)
    for i in range(360):
        now = evidence(now, ratios[i], np.full(200, 20_000), NOISE)
        most = np.maximum(most, now)
        above |= (ratios[i] > 1.0) & (ratios[i - 1] > 1.0)
    assert (most >= 2 * CLEAR).mean() < 0.35
    assert above.mean() > 0.8
