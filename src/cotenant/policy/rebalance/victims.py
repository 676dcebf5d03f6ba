"""Which replicas have missed their objective for long enough that they should be seated elsewhere.

Problem: services are placed once and live for days, while what sits beside them changes every minute. Choice: a replica that misses its
p99 objective in several consecutive windows is a victim; the largest misses by cores go first, a few a minute, and who has moved rests.
Limits: it judges by latency alone, and says nothing of where to go or whether anywhere is better: that is asked of the placement score.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Float, Int


def victims(missed: Int, p99_ratio: Float, cores: Float, rested_s: Float, windows: float, rest_s: float) -> Int:
    """Indices of replicas that should move, the most urgent first.

    Aligned columns: `missed` consecutive windows so far, p99 over objective of the last one, requested cores, seconds since the last move.
    """
    candidates = np.flatnonzero((missed >= windows) & (rested_s >= rest_s))
    urgency = cores[candidates] * np.minimum(p99_ratio[candidates], 10.0)
    return candidates[np.argsort(-urgency, kind="stable")]
