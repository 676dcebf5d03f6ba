"""Choice of replicas to move: those that have missed their objective for long enough.

Problem: services are placed once and run for days, while the pods beside them change every minute. Choice: a replica that misses its p99 objective in
several windows, beyond their sampling error (`misses`), is a victim; the largest misses by cores are moved first, a few per minute, and a replica that was moved has a back-off.
Limits: it looks at latency alone; whether and where a better node exists is decided by the placement score.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from cotenant.model.arrays import Float, Int

TOLERATED = 0.01  # share of replicas that may miss clearly before the hourly limit is widened
MOST_WIDENED = 0.05  # of all replicas an hour


def victims(missed: Float, p99_ratio: Float, cores: Float, rested_s: Float, windows: float, rest_s: float) -> Int:
    """Indices of replicas to move, the most urgent first.

    Aligned columns: `missed` clear misses so far, p99 over objective of the last one, requested cores, seconds since the last move.
    """
    candidates = np.flatnonzero((missed >= windows) & (rested_s >= rest_s))
    urgency = cores[candidates] * np.minimum(p99_ratio[candidates], 10.0)
    return candidates[np.argsort(-urgency, kind="stable")]


def hourly_limit(replicas: int, missing: int, share: float) -> int:
    """Moves allowed within an hour: `share` of the replicas, more while more than `TOLERATED` of them miss clearly.

    A badly placed cluster needs many moves once, a well placed one a few all the time. Every replica beyond the tolerated share adds one move, up to
    `MOST_WIDENED` of all.
    """
    usual = ceil(share * replicas)
    excess = missing - TOLERATED * replicas
    return max(usual, min(usual + int(max(0.0, excess)), int(MOST_WIDENED * replicas)))
