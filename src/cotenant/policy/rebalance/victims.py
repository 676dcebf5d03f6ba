"""Choice of replicas to move: those that have missed their objective for long enough.

Problem: services are placed once and run for days, while the pods beside them change every minute. Choice: a replica that misses its p99 objective in
several windows, beyond their sampling error (`misses`), is a victim; the largest misses by cores are moved first, a few per minute, and a replica that was moved has a back-off.
Limits: it looks at latency alone; whether and where a better node exists is decided by the placement score.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Float, Int


def victims(missed: Float, p99_ratio: Float, cores: Float, rested_s: Float, windows: float, rest_s: float) -> Int:
    """Indices of replicas to move, the most urgent first.

    Aligned columns: `missed` clear misses so far, p99 over objective of the last one, requested cores, seconds since the last move.
    """
    candidates = np.flatnonzero((missed >= windows) & (rested_s >= rest_s))
    urgency = cores[candidates] * np.minimum(p99_ratio[candidates], 10.0)
    return candidates[np.argsort(-urgency, kind="stable")]
