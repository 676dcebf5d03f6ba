"""Choice of replicas to move: those that have missed their objective for long enough.

Services are placed once and run for days, while the pods beside them change every minute. A replica that misses its p99
objective in several windows, beyond their sampling error (`misses`), is a victim; the largest misses by cores are moved
first, a few per minute, and a replica that was moved has a back-off.
Limits: it looks at latency alone; whether and where a better node exists is decided by the placement score.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from cotenant.model.arrays import Float, Int

TOLERATED = 0.05  # share of replicas that may miss clearly before the hourly limit is widened
MAX_WIDENED = 0.05  # of all replicas an hour
# time after the first measurement in which replicas that another scheduler placed may move beside the hourly limit
TAKEOVER_S = 2_700.0
MAX_TAKEN_OVER = 0.045  # of these replicas, in that time


def victims(missed: Float, p99_ratio: Float, cores: Float, rested_s: Float, windows: float, rest_s: float) -> Int:
    """Indices of replicas to move, the most urgent first.

    Aligned columns: `missed` clear misses so far, p99 over objective of the last one, requested cores, seconds since
    the last move.
    """
    candidates = np.flatnonzero((missed >= windows) & (rested_s >= rest_s))
    urgency = cores[candidates] * np.minimum(p99_ratio[candidates], 10.0)
    return candidates[np.argsort(-urgency, kind="stable")]


def hourly_limit(replicas: int, missing: int, share: float) -> int:
    """Moves allowed within an hour: `share` of the replicas, or one where that is less than one, and more while more
    than `TOLERATED` of them miss clearly.

    A well placed cluster needs a few moves all the time, and many where much of it misses at once, such as after
    failures. Every replica beyond the tolerated share adds one move, up to `MAX_WIDENED` of all.
    """
    usual = int(share * replicas) or ceil(share * replicas)
    excess = missing - TOLERATED * replicas
    return max(usual, min(usual + int(max(0.0, excess)), int(MAX_WIDENED * replicas)))


def takeover_limit(found: int) -> int:
    """Moves allowed beside the hourly limit within `TAKEOVER_S`, by how many replicas the scheduler found on nodes when
    it began.

    A cluster that another scheduler placed needs many moves once; one that this scheduler placed has `found` = 0.
    """
    return int(MAX_TAKEN_OVER * found)
