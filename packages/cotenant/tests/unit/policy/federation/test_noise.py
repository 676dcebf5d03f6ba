"""The noise has the distribution that the promise needs, and is not drawn anew while nothing changes."""

from __future__ import annotations

from math import exp

import numpy as np

from cotenant.policy.federation.noise import SENSITIVITY, Stated, clamped, geometric_noise, noisy
from cotenant.policy.federation.statement import TenantSums

SUMS = TenantSums("a", (50_000, 90_000, 3), (10_000, 0, 0), 5, 7)


def test_frequencies_are_those_of_the_two_sided_geometric_distribution() -> None:
    rng, epsilon, draws = np.random.default_rng(3), 1.0, 20_000
    found = [geometric_noise(epsilon, 1, rng) for _ in range(draws)]
    a = exp(-epsilon)
    for z in (-2, -1, 0, 1, 2):
        expected = (1 - a) / (1 + a) * a ** abs(z)
        deviation = (expected * (1 - expected) / draws) ** 0.5
        assert abs(found.count(z) / draws - expected) < 5 * deviation


def test_one_pod_changes_a_probability_by_at_most_the_promised_factor() -> None:
    a = exp(-0.25 / 4)  # sensitivity 4: the other sum is 4 away
    for z in range(-30, 30):
        assert a ** abs(z) <= exp(0.25) * a ** abs(z - 4) * (1 + 1e-12)


def test_a_pod_counts_with_at_most_the_sensitivity() -> None:
    assert clamped((100_000, 10, 9)) == (SENSITIVITY[0], 10, SENSITIVITY[2])


def test_only_use_and_violations_are_noisy_and_never_negative() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        stated = noisy(TenantSums("a", (0, 0, 0), (10_000, 0, 0), 5), 500, rng)
        assert min(*stated.used, stated.violations) >= 0
        assert (stated.guaranteed, stated.credit) == ((10_000, 0, 0), 5)


def test_without_epsilon_sums_are_exact() -> None:
    assert noisy(SUMS, 0, np.random.default_rng(1)) == SUMS


def test_unchanged_sums_are_stated_alike() -> None:
    stated = Stated(1000, np.random.default_rng(1))
    first = stated.of([SUMS])
    assert first != (SUMS,)
    assert all(stated.of([SUMS]) == first for _ in range(20))
    changed = TenantSums("a", (50_001, 90_000, 3), (10_000, 0, 0), 5, 7)
    assert stated.of([changed]) != first
