from __future__ import annotations

import warnings

import numpy as np
import pytest

from cotenant.model.assess.history import Float32
from cotenant.policy.assess.rows import blocks, deviations, means, quantiles


def rows_with_gaps(seed: int, rows: int = 30, columns: int = 41) -> Float32:
    rng = np.random.default_rng(seed)
    values = rng.gamma(1.5, 100.0, (rows, columns)).astype(np.float32)
    values[rng.random(values.shape) < rng.random((rows, 1))] = np.nan
    values[0] = np.nan
    values[1, 1:] = np.nan
    return values


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_quantiles_are_numpys(seed: int, share: float) -> None:
    values = rows_with_gaps(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.nanquantile(values.astype(np.float64), share, axis=1)
    np.testing.assert_allclose(quantiles(values, share), expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_means_and_deviations_are_numpys(seed: int) -> None:
    values = rows_with_gaps(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = values.astype(np.float64)
        np.testing.assert_allclose(means(values), np.nanmean(wanted, axis=1), rtol=1e-6)
        np.testing.assert_allclose(deviations(values), np.nanstd(wanted, axis=1), rtol=1e-4, atol=1e-4)


def test_nothing_has_no_quantile() -> None:
    assert quantiles(np.zeros((0, 5), np.float32), 0.5).shape == (0,)
    assert np.isnan(quantiles(np.zeros((2, 0), np.float32), 0.5)).all()


def test_blocks_cover_all_rows_once() -> None:
    found = [row for block in blocks(10_001, 9_000) for row in range(block.start, block.stop)]
    assert found == list(range(10_001))
