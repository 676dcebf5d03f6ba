"""Statistics of rows in which NaN is unknown, a block of rows at a time.

NumPy's nanquantile takes a Python call a row, which for 50,000 pods is minutes; a sort puts NaN last, and the known
values are then found by index. Quantiles interpolate linearly, as NumPy's do by default.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.assess.history import Float32

_BLOCK_VALUES = 4_000_000


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Slices of rows with about as many values as fit a cache-friendly copy."""
    height = max(1, _BLOCK_VALUES // max(1, columns))
    for begin in range(0, rows, height):
        yield slice(begin, min(rows, begin + height))


def means(values: Float32) -> Float:
    """Mean of each row's known values; NaN where none is."""
    found = np.full(len(values), np.nan)
    for block in blocks(*values.shape):
        known = ~np.isnan(values[block])
        count = known.sum(axis=1)
        total = np.where(known, values[block], np.float32(0.0)).sum(axis=1, dtype=np.float64)
        found[block] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return found


def deviations(values: Float32) -> Float:
    """Standard deviation of each row's known values; NaN where none is."""
    found = np.full(len(values), np.nan)
    for block in blocks(*values.shape):
        centre = means(values[block])
        squares = np.square(values[block] - centre[:, None]).astype(np.float32)
        found[block] = np.sqrt(means(squares))
    return found


def quantiles(values: Float32, share: float) -> Float:
    """The quantile of each row's known values; NaN where none is."""
    found = np.full(len(values), np.nan)
    columns = values.shape[1]
    if not values.size:
        return found
    # only the upper part must be in order: where values are unknown, the quantile is even further up
    kept = min(columns, int(np.ceil((1.0 - share) * (columns - 1))) + 2)
    for block in blocks(*values.shape):
        count = (~np.isnan(values[block])).sum(axis=1)
        low_first = np.where(np.isnan(values[block]), np.float32(-np.inf), values[block])
        if kept < columns:
            low_first = np.partition(low_first, columns - kept, axis=1)[:, columns - kept :]
        ordered = np.sort(low_first, axis=1)
        at = share * (np.maximum(count, 1) - 1)
        whole = np.floor(at).astype(np.int64)
        row, last = np.arange(len(ordered)), ordered.shape[1] - 1
        low = ordered[row, last - (np.maximum(count, 1) - 1 - whole)].astype(np.float64)
        high = ordered[row, last - np.maximum(count - 2 - whole, 0)].astype(np.float64)
        with np.errstate(invalid="ignore"):
            found[block] = np.where(count > 0, low + np.where(at > whole, (at - whole) * (high - low), 0.0), np.nan)
    return found
