"""Token bucket that limits how long a container may run above its CPU limit.

A quota that may be raised without end is no limit. A bucket of (maximum quota - limit) x time; running above the limit
spends tokens, running well below it saves tokens, in between nothing changes.
Limits: use is averaged over the interval; integers only, tokens in thousandths, where upstream counts whole seconds.

Source: Koordinator, koordlet's limiter of CFS quota burst (percentage points times seconds; spends from 100 % of the
limit, saves below 60 %).
"""

from __future__ import annotations

import zlib

SPEND_FROM_PCT = 100
SAVE_BELOW_PCT = 60


def capacity_of(period_s: int, highest_pct: int) -> int:
    """Capacity of a bucket, in thousandths of a token: `period_s` at the maximum quota empty it."""
    return period_s * (highest_pct - 100) * 1000


def step(tokens: int, capacity: int, usage_pct: int, elapsed_ms: int) -> int:
    """Tokens after `elapsed_ms` at `usage_pct` of the limit; all in thousandths, within plus or minus the capacity."""
    if usage_pct >= SPEND_FROM_PCT:
        tokens -= (usage_pct - 100) * elapsed_ms
    elif usage_pct < SAVE_BELOW_PCT:
        tokens += (100 - usage_pct) * elapsed_ms
    return max(-capacity, min(tokens, capacity))


def first(capacity: int, key: str) -> int:
    """Initial tokens: a share of 0 to 1/2 that depends on `key`, so that many containers do not run out at once."""
    return capacity * (zlib.crc32(key.encode()) % 500) // 1000
