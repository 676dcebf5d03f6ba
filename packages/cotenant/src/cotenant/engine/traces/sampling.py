"""Which finished traces are kept, under a budget of spans a second that holds in each moment.

The rates of the last `MEMORY_S` say which operations are frequent, and policy/objective/sampling.py makes probabilities
of them. A burst is more than those rates say, so what a batch would take beyond the tokens of a bucket is thinned by
the same policy on the batch itself. Neither looks at a trace's random bits, so a kept trace stands for 1 / probability.
What a client thinned has random bits above its threshold only: the probability here is of those, and the threshold of
both together.
Counts are not touched: they were made when the spans arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotenant.model.traces.probability import ALL, LEAST_PROBABILITY, thresholds_of
from cotenant.policy.objective.sampling import CLASSES, TraceClass, probabilities

MEMORY_S = 10.0
BURST_S = 2.0  # of the budget that may be taken at once after a quiet time
_LEAST_S = 0.02  # of the budget that a batch has in any case: a probability is never 0
SLOW_SHARE, SLOW_FROM, SLOW_FOR_S = 0.99, 100, 5.0  # slower than this share, of so many requests at least; read anew

SlowNs = Callable[[int], float]  # by operation: a root that takes longer is slow


class FinishedTraces(NamedTuple):
    """Finished traces; arrays of equal length."""

    root: NDArray[np.int32]  # the operation of the root
    spans: NDArray[np.int64]
    failed: NDArray[np.bool_]
    duration_ns: NDArray[np.int64]
    random: NDArray[np.uint64]  # 56 bits
    head: NDArray[np.uint64]  # the threshold with which their clients began them; 0 = all


class Sampled(NamedTuple):
    """What is kept of them; arrays of the same length."""

    kept: NDArray[np.bool_]
    threshold: NDArray[np.uint64]
    of_class: NDArray[np.uint8]  # TraceClass
    head: NDArray[np.uint64]  # the threshold that they came with; `threshold` is at least that


class TraceSampler:
    """The state machine. `budget`: spans a second; 0 keeps all."""

    def __init__(self, now_s: float, budget: float = 0.0) -> None:
        self.budget = budget
        self.kept_traces = np.zeros(CLASSES, np.int64)  # since the start
        self.left_out = np.zeros(CLASSES, np.int64)
        self._rate = np.zeros((64, CLASSES))  # spans a second, by operation
        self._begun_s = self._last_s = now_s
        self._tokens = budget * BURST_S
        self._slow_ns: dict[int, tuple[float, float]] = {}  # operation -> when it was read, and the bound

    def choose(self, traces: FinishedTraces, slow_ns: SlowNs, now_s: float) -> Sampled:
        """Which of these to keep. `slow_ns` is asked now and then, once for each operation."""
        of_class = self._classes(traces, slow_ns, now_s)
        passed_s = self._count(traces, of_class, now_s)
        if self.budget <= 0.0:
            everything = np.ones(traces.root.size, np.bool_)
            np.add.at(self.kept_traces, of_class, 1)
            return Sampled(everything, traces.head, of_class, traces.head)
        self._tokens = min(self._tokens + self.budget * passed_s, self.budget * BURST_S)
        chance = probabilities(self._rates(now_s), self.budget)[traces.root, of_class]
        wanted = np.zeros_like(self._rate)
        np.add.at(wanted, (traces.root, of_class), chance * traces.spans)
        room = max(self._tokens, _LEAST_S * self.budget)
        if wanted.sum() > room:
            chance = np.maximum(chance * probabilities(wanted, room)[traces.root, of_class], LEAST_PROBABILITY)
        own = thresholds_of(chance).astype(np.float64) / ALL
        threshold = traces.head + (own * (np.uint64(ALL) - traces.head).astype(np.float64)).astype(np.uint64)
        kept = traces.random >= threshold
        self._tokens = max(self._tokens - float(traces.spans[kept].sum()), -BURST_S * self.budget)
        np.add.at(self.kept_traces, of_class[kept], 1)
        np.add.at(self.left_out, of_class[~kept], 1)
        return Sampled(kept, threshold, of_class, traces.head)

    def _classes(self, traces: FinishedTraces, slow_ns: SlowNs, now_s: float) -> NDArray[np.uint8]:
        bounds = np.empty(traces.root.size)
        distinct, of_trace = np.unique(traces.root, return_inverse=True)
        for index, operation in enumerate(distinct.tolist()):
            read_s, bound = self._slow_ns.get(operation, (-SLOW_FOR_S, 0.0))
            if not 0.0 <= now_s - read_s < SLOW_FOR_S:
                bound = slow_ns(operation)
                self._slow_ns[operation] = now_s, bound
            bounds[of_trace == index] = bound
        slow = np.where(traces.duration_ns > bounds, TraceClass.SLOW, TraceClass.USUAL)
        return np.where(traces.failed, TraceClass.FAILED, slow).astype(np.uint8)

    def _count(self, traces: FinishedTraces, of_class: NDArray[np.uint8], now_s: float) -> float:
        """Add to the rates; the seconds since the last time."""
        passed_s = min(max(now_s - self._last_s, 0.0), MEMORY_S)
        self._last_s = now_s
        most = int(traces.root.max(initial=0)) + 1
        if most > len(self._rate):
            grown = np.zeros((max(most, len(self._rate) * 2), CLASSES))
            grown[: len(self._rate)] = self._rate
            self._rate = grown
        self._rate *= exp(-passed_s / MEMORY_S)
        np.add.at(self._rate, (traces.root, of_class), traces.spans / MEMORY_S)
        return passed_s

    def _rates(self, now_s: float) -> NDArray[np.float64]:
        """As if the rates had been known from the start on, not from 0."""
        lived_s = max(now_s - self._begun_s, 1.0)
        return self._rate / (1.0 - exp(-lived_s / MEMORY_S))
