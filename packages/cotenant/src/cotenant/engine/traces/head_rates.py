"""Which probabilities clients are told to begin traces with, so that a service stays within a budget of spans a second.

A span that is never made costs its service nothing, but what is thinned before it arrives can no longer be counted. So
the demand is what arrived over the probability that its tracestate gives. A client that writes none is taken to follow
the last answer; it asks once a minute, so answers for its service are then held for `HOLD_S`: sooner, spans of before
would be taken for thinned ones, and each answer would lower the next.
Limits: a service of which some clients ask and others do not is taken for one that asks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf

import numpy as np
from numpy.typing import NDArray

from cotenant.engine.traces.operations import SpanOperation
from cotenant.model.traces.probability import ALL, LEAST_PROBABILITY
from cotenant.policy.objective.sampling import head_probabilities

MEMORY_S = 30.0
HOLD_S = 180.0  # two questions of a client, and the memory twice
FRESH_S = 5.0
MAX_SERVICES = 10_000
MAX_OPERATIONS = 1_000  # of an answer, the most frequent ones
NOT_SAID = -1  # a threshold that no tracestate gives


@dataclass(frozen=True, slots=True)
class HeadStrategy:
    """The answer for a service. `probability`: of operations that are not named."""

    probability: float
    operations: tuple[tuple[str, float], ...]


class HeadRates:
    """The state machine. `budget`: spans a second of a service, in the traces that begin at it; 0 = nobody is told."""

    def __init__(self, now_s: float, budget: float = 0.0) -> None:
        self.budget = budget
        self._rate = np.zeros(64)  # spans a second as they were begun, by operation of the root
        self._told = np.ones(64)  # the probability that is in force, by operation
        self._followed_s = np.full(64, -inf)  # when a root last came of which only that is known
        self._begun_s = self._last_s = now_s
        self._answers: OrderedDict[tuple[str, str], tuple[float, HeadStrategy]] = OrderedDict()

    def add(
        self, root: NDArray[np.int32], spans: NDArray[np.int64], threshold: NDArray[np.int64], now_s: float
    ) -> None:
        """Count finished traces: the operation of each root, its spans, and the threshold that it came with."""
        self._grow(int(root.max(initial=0)) + 1)
        passed_s, self._last_s = max(now_s - self._last_s, 0.0), now_s
        self._rate *= exp(-passed_s / MEMORY_S)
        is_said = threshold != NOT_SAID
        probability = np.where(is_said, (ALL - threshold) / ALL, self._told[root])
        np.add.at(self._rate, root, spans / np.maximum(probability, LEAST_PROBABILITY) / MEMORY_S)
        self._followed_s[root[~is_said & (self._told[root] < 1.0)]] = now_s

    def strategy(self, namespace: str, service: str, known: Sequence[SpanOperation], now_s: float) -> HeadStrategy:
        """The answer for a service, in every namespace where `namespace` is empty."""
        key = namespace, service
        if (before := self._answers.get(key)) is not None and 0.0 <= now_s - before[0] < FRESH_S:
            return before[1]
        numbers = np.array(
            [
                number
                for number, operation in enumerate(known)
                if operation.service == service and namespace in ("", operation.namespace)
            ],
            np.int64,
        )
        if not numbers.size:
            return HeadStrategy(1.0, ())
        self._grow(len(known))
        is_held = now_s - float(self._followed_s[numbers].max()) < HOLD_S
        if is_held and before is not None and 0.0 <= now_s - before[0] < HOLD_S:
            return before[1]
        lived_s = max(now_s - self._begun_s, 1.0)
        rate = self._rate[numbers] * exp(-max(now_s - self._last_s, 0.0) / MEMORY_S) / (1.0 - exp(-lived_s / MEMORY_S))
        names, of_number = np.unique([known[number].name for number in numbers.tolist()], return_inverse=True)
        demand = np.zeros(names.size)
        np.add.at(demand, of_number, rate)
        chosen = head_probabilities(demand, self.budget)
        self._told[numbers] = chosen[of_number]
        others = min(1.0, self.budget / max(float(demand.sum()), LEAST_PROBABILITY))
        first = np.argsort(-demand, kind="stable")
        listed = first[demand[first] > 0.0][:MAX_OPERATIONS]
        found = HeadStrategy(others, tuple((str(names[place]), float(chosen[place])) for place in listed.tolist()))
        is_named = np.isin(of_number, listed)
        self._told[numbers[~is_named]] = others
        self._answers[key] = now_s, found
        self._answers.move_to_end(key)
        if len(self._answers) > MAX_SERVICES:
            self._answers.popitem(last=False)
        return found

    def _grow(self, most: int) -> None:
        if most > self._rate.size:
            added = max(most, self._rate.size * 2) - self._rate.size
            self._rate = np.concatenate([self._rate, np.zeros(added)])
            self._told = np.concatenate([self._told, np.ones(added)])
            self._followed_s = np.concatenate([self._followed_s, np.full(added, -inf)])
