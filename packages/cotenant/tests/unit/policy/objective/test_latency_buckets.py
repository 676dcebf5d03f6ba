"""Latency buckets: the error that is promised, and merging."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from cotenant.policy.objective.latency_buckets import ACCURACY, BUCKETS, bucket_of, edge_ns, quantile_ns, share_above


def counted(durations: np.ndarray) -> np.ndarray:
    counts = np.zeros(BUCKETS, np.int64)
    for duration in durations:
        counts[bucket_of(int(duration))] += 1
    return counts


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.99, 0.999, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_quantiles_are_within_the_accuracy(share: float, seed: int) -> None:
    durations = np.random.default_rng(seed).lognormal(16, 1.5, 20_000).astype(np.int64)
    exact = np.sort(durations)[max(0, int(np.ceil(share * durations.size)) - 1)]
    assert quantile_ns(counted(durations), share) == pytest.approx(exact, rel=ACCURACY + 1e-6)


def test_merging_is_addition() -> None:
    random = np.random.default_rng(2)
    parts = [random.exponential(1e7, 500).astype(np.int64) for _ in range(3)]
    merged = sum(counted(part) for part in parts)
    assert (merged == counted(np.concatenate(parts))).all()


@pytest.mark.parametrize(("duration_ns", "bucket"), [(0, 0), (1000, 0), (1001, 1), (10**19, BUCKETS - 1)])
def test_values_beyond_the_range_are_counted_at_its_ends(duration_ns: float, bucket: int) -> None:
    assert bucket_of(float(duration_ns)) == bucket


def test_nothing_counted_has_no_quantile() -> None:
    assert isnan(quantile_ns(np.zeros(BUCKETS, np.uint32), 0.5))
    assert isnan(share_above(np.zeros(BUCKETS, np.uint32), 1))


def test_the_share_above_a_threshold() -> None:
    counts = counted(np.array([10**6] * 90 + [10**8] * 10))
    assert share_above(counts, 10**7) == pytest.approx(0.1)
    assert share_above(counts, 10**9) == 0.0


@pytest.mark.parametrize("bucket", [1, 2, 100, BUCKETS - 1])
def test_a_bucket_begins_at_its_edge(bucket: int) -> None:
    edge = edge_ns(bucket)
    assert bucket_of(edge * (1 - 1e-9)) < bucket <= bucket_of(edge * (1 + 1e-9))
    assert edge_ns(bucket) == pytest.approx(edge_ns(bucket - 1) * (1 + ACCURACY) / (1 - ACCURACY))
