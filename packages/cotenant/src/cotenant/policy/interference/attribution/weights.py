"""How much each signal's evidence counts.

A signal that is measured beside another one of the same thing, and that the candidates explain worse, is the noisier of
the two: it says less, not that there was another cause. Two measures of waiting count by what is explained of each,
beside the better one. Latency, which comes of waiting with all that has piled up in between, counts by what is
explained of it where the waiting itself has risen. A signal that stands alone counts in full, and so does waiting that
nobody explains: it speaks against whoever fits the latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cotenant.policy.interference.attribution.evidence import Evidence
from cotenant.policy.interference.attribution.settings import WEIGHTS, Signal

_WAITED = (Signal.RUN_DELAY, Signal.STALL)  # both measure waiting for a CPU
_OF_REQUESTS = (Signal.LATENCY, Signal.SELF_TIME)


def weights_of(evidence: Sequence[Evidence]) -> Mapping[Signal, float]:
    """The weight of each signal in the mean of all shares."""
    explained = {found.signal: min(1.0, sum(found.shares.values())) for found in evidence}
    best = max((explained[signal] for signal in _WAITED if signal in explained), default=0.0)
    weights = {}
    for signal, part in explained.items():
        factor = 1.0
        if signal in _WAITED and best > 0:
            factor = part / best
        elif signal in _OF_REQUESTS and best > 0:
            factor = part
        weights[signal] = WEIGHTS[signal] * factor
    return weights
