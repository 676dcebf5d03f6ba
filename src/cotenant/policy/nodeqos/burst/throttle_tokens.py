"""How long a container may run above its limit: tokens that it saves below and spends above.

Problem: a quota that may be raised for ever is no limit. Choice: a bucket of (highest quota - limit) x time; running above the limit spends,
running well below saves, between the two nothing happens. Limits: use is that of the interval as a whole; all integers, tokens in
thousandths, where upstream counts whole seconds only.

Source: Koordinator, koordlet's limiter of CFS quota burst (percent points times seconds; spends from 100 % of the limit on, saves below 60 %).
"""

from __future__ import annotations

import zlib

SPEND_FROM_PCT = 100
SAVE_BELOW_PCT = 60


def capacity_of(period_s: int, highest_pct: int) -> int:
    """Tokens that a bucket holds, in thousandths: `period_s` at the highest quota empty it."""
    return period_s * (highest_pct - 100) * 1000


def step(tokens: int, capacity: int, usage_pct: int, elapsed_ms: int) -> int:
    """Tokens after `elapsed_ms` at `usage_pct` of the limit; all in thousandths, within plus and minus the capacity."""
    if usage_pct >= SPEND_FROM_PCT:
        tokens -= (usage_pct - 100) * elapsed_ms
    elif usage_pct < SAVE_BELOW_PCT:
        tokens += (100 - usage_pct) * elapsed_ms
    return max(-capacity, min(tokens, capacity))


def first(capacity: int, key: str) -> int:
    """What a new bucket holds: a share of 0 to 1/2 that follows from `key`, so that many containers do not run dry at once."""
    return capacity * (zlib.crc32(key.encode()) % 500) // 1000
