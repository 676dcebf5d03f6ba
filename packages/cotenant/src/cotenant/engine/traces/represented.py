"""How many requests those that arrived stand for, where their clients thinned them and wrote so into the tracestate.

Each stands for 1 / probability, by OpenTelemetry's consistent probability sampling. Kept beside the counts, which are
of what arrived: a ratio of requests needs no correction, since good and bad ones are thinned alike.
Limits: of a batch at most `MAX_READ` spans are read, evenly spaced, each for as many as it stands among: reading one
costs some 8 us, and a sender chooses how many have a threshold; a probability below 2^-24 counts as that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cotenant.model.traces.probability import LEAST_PROBABILITY, probability_of
from cotenant.model.traces.spans import REQUESTS, SpanBatch

Carried = Callable[[bytes], tuple[int | None, int | None]]  # what a span's bytes give: random bits, threshold
MAX_READ = 8_192  # as many as a usual collector's batch has
_MARK = b"th:"


class Represented:
    """By operation, since the start: requests beyond those that arrived."""

    def __init__(self, carried: Carried) -> None:
        self.beyond = np.zeros(64)
        self._carried = carried

    def add(self, operation: NDArray[np.int32], batch: SpanBatch) -> None:
        """Count a batch; `operation`: the number of each span."""
        if _MARK not in batch.body:
            return
        columns, requests = batch.columns, np.array(list(REQUESTS), np.uint8)
        most = int(operation.max(initial=0)) + 1
        if most > self.beyond.size:
            self.beyond = np.concatenate([self.beyond, np.zeros(max(most, self.beyond.size))])
        rows = np.flatnonzero(np.isin(columns.kind, requests))
        every = -(-rows.size // MAX_READ)
        for row in rows[::every].tolist() if every else ():
            message = batch.body[columns.offset[row] : columns.offset[row] + columns.length[row]]
            threshold = self._carried(message)[1] if _MARK in message else None
            if threshold:
                beyond = 1.0 / max(probability_of(threshold), LEAST_PROBABILITY) - 1.0
                self.beyond[operation[row]] += every * beyond
