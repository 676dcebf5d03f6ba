"""Replicas under objectives: requests, bad requests and latency of the last seconds of each.

A node acts within seconds on one replica, and a burn rate over minutes of the whole service tells it nothing. For each
pair of objective and source of spans three slots of two seconds with counts and a sketch of latency, and one of own
time, so all figures are of the same last four to six seconds. A replica that has been idle for ten minutes is
forgotten. No namespace's objectives take all the room (`shares.py`), and a part is kept from those whose senders are
not believed.
Limits: 26 KB a pair, at most `MOST` of them; requests of further ones count for the objective only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotenant.engine.traces.shares import HolderShares
from cotenant.model.compiled import njit
from cotenant.model.traces.spans import SpanSource
from cotenant.policy.objective.latency_buckets import BUCKETS, bucket_of, quantile_ns

SLOT_S, SLOTS = 2, 3
WINDOW_S = SLOT_S * SLOTS
MOST = 6_700  # of which one namespace has 5,000
_MIN_WINDOW_S = 0.25  # requests of one export are no rate
FORGOTTEN_S = 600.0


@dataclass(frozen=True, slots=True)
class ReplicaFigures:
    """A replica over the last `WINDOW_S`."""

    requests: int
    bad: int
    p99_us: int  # 0 without requests
    at_target_us: int
    seen_s: float  # of its last request
    self_p99_us: int | None = None  # p99 of the own time; None where no request called another service
    window_s: float = WINDOW_S  # that the figures are of: less at the beginning of a slot, and of a new replica


@dataclass(slots=True)
class _Replica:
    objective: str
    source: SpanSource
    row: int
    seen_s: float
    since_s: float  # of its first request


class ObservedReplicas:
    """By objective and source. Times are Unix seconds."""

    def __init__(self, most: int = MOST) -> None:
        self._room: HolderShares[str] = HolderShares(most)  # by the objective's namespace
        self._known: dict[tuple[str, SpanSource], _Replica] = {}
        self._free: list[int] = []
        self._counts = np.zeros((16, 3, SLOTS), np.int64)  # requests, bad ones, ones with calls to other services
        self._sketch = np.zeros((16, SLOTS, BUCKETS), np.uint32)
        self._own = np.zeros((16, SLOTS, BUCKETS), np.uint32)
        self._slot: int | None = None
        self.overflowed = 0  # requests of replicas for which there was no room

    def __len__(self) -> int:
        return len(self._known)

    def row(self, objective: str, source: SpanSource, now_s: float, requests: int, *, is_believed: bool = True) -> int:
        """The replica's row; -1 where there is no room."""
        self.tick(now_s)
        found = self._known.get((objective, source))
        if found is None:
            namespace = objective.partition("/")[0]
            if not self._room.has_room(namespace, is_proven=is_believed):
                self.overflowed += requests
                return -1
            self._room.take(namespace)
            number = self._free.pop() if self._free else len(self._known)
            self._grow(number)
            found = self._known[objective, source] = _Replica(objective, source, number, now_s, now_s)
        found.seen_s = now_s
        return found.row

    def add(
        self,
        rows: NDArray[np.int64],
        duration_ns: NDArray[np.int64],
        bad: NDArray[np.bool_],
        own_ns: NDArray[np.int64],
        called: NDArray[np.bool_],
    ) -> None:
        """Count requests of rows that `row` gave; -1 is left out."""
        slot = (self._slot or 0) % SLOTS
        _add(rows, duration_ns, bad, own_ns, called, self._counts, self._sketch, self._own, slot)

    def add_counted(
        self, row: int, duration_ns: NDArray[np.int64], counts: NDArray[np.int64], bad: NDArray[np.bool_]
    ) -> None:
        """Count so many requests of each duration for one row, which called nobody; -1 is left out."""
        if row < 0:
            return
        slot = (self._slot or 0) % SLOTS
        self._counts[row, :2, slot] += (int(counts.sum()), int(counts[bad].sum()))
        for duration, count in zip(duration_ns.tolist(), counts.tolist(), strict=True):
            bucket = bucket_of(duration)
            self._sketch[row, slot, bucket] += np.uint32(count)
            self._own[row, slot, bucket] += np.uint32(count)

    def tick(self, now_s: float) -> None:
        """Clear the slots that have passed."""
        number = int(now_s // SLOT_S)
        if self._slot is None:
            self._slot = number
        passed = number - self._slot
        if passed <= 0:
            return
        passing = np.arange(number - min(passed, SLOTS) + 1, number + 1) % SLOTS
        self._counts[:, :, passing] = 0
        self._sketch[:, passing] = 0
        self._own[:, passing] = 0
        self._slot = number

    def forget(self, now_s: float) -> None:
        """Drop the replicas that have been idle for long."""
        for key, found in list(self._known.items()):
            if now_s - found.seen_s > FORGOTTEN_S:
                self._drop(key)

    def drop_objective(self, objective: str) -> None:
        """Drop the replicas of an objective."""
        for key in [key for key in self._known if key[0] == objective]:
            self._drop(key)

    def of(self, objective: str) -> Iterator[SpanSource]:
        """The sources of an objective."""
        return (source for known, source in self._known if known == objective)

    def all(self) -> Iterator[tuple[str, SpanSource]]:
        """Every pair."""
        return iter(self._known)

    def seen_s(self, objective: str, source: SpanSource) -> float:
        """When the replica's last request was counted; 0 where it is not known."""
        found = self._known.get((objective, source))
        return found.seen_s if found is not None else 0.0

    def counts(self, objective: str, now_s: float) -> list[tuple[SpanSource, int, int]]:
        """Requests and bad requests of an objective's replicas over the last seconds."""
        self.tick(now_s)
        found = [replica for replica in self._known.values() if replica.objective == objective]
        sums = self._counts[[replica.row for replica in found]].sum(axis=2).tolist()
        return [(replica.source, requests, bad) for replica, (requests, bad, _) in zip(found, sums, strict=True)]

    def figures(self, objective: str, source: SpanSource, target: float, now_s: float) -> ReplicaFigures | None:
        """A replica over the last seconds; None where it is not known. `target`: a quantile."""
        self.tick(now_s)
        found = self._known.get((objective, source))
        if found is None:
            return None
        requests, bad, called = self._counts[found.row].sum(axis=1)
        if not requests:
            return ReplicaFigures(0, 0, 0, 0, found.seen_s)
        sketch = self._sketch[found.row].sum(axis=0)
        p99_us, at_target_us = (round(quantile_ns(sketch, share) / 1000) for share in (0.99, target))
        own_us = round(quantile_ns(self._own[found.row].sum(axis=0), 0.99) / 1000) if called else None
        window_s = min(WINDOW_S - SLOT_S + now_s % SLOT_S, now_s - found.since_s)
        return ReplicaFigures(
            int(requests), int(bad), p99_us, at_target_us, found.seen_s, own_us, max(_MIN_WINDOW_S, window_s)
        )

    def _drop(self, key: tuple[str, SpanSource]) -> None:
        self._room.give_back(key[0].partition("/")[0])
        row = self._known.pop(key).row
        self._counts[row] = 0
        self._sketch[row] = 0
        self._own[row] = 0
        self._free.append(row)

    def _grow(self, row: int) -> None:
        if row < len(self._counts):
            return
        more = len(self._counts)
        self._counts = np.concatenate([self._counts, np.zeros((more, 3, SLOTS), np.int64)])
        self._sketch = np.concatenate([self._sketch, np.zeros((more, SLOTS, BUCKETS), np.uint32)])
        self._own = np.concatenate([self._own, np.zeros((more, SLOTS, BUCKETS), np.uint32)])


@njit
def _add(
    rows: NDArray[np.int64],
    duration_ns: NDArray[np.int64],
    bad: NDArray[np.bool_],
    own_ns: NDArray[np.int64],
    called: NDArray[np.bool_],
    counts: NDArray[np.int64],
    sketch: NDArray[np.uint32],
    own: NDArray[np.uint32],
    slot: int,
) -> None:
    for index in range(rows.size):
        row = rows[index]
        if row >= 0:
            counts[row, 0, slot] += 1
            if bad[index]:
                counts[row, 1, slot] += 1
            if called[index]:
                counts[row, 2, slot] += 1
            sketch[row, slot, bucket_of(duration_ns[index])] += np.uint32(1)
            own[row, slot, bucket_of(own_ns[index])] += np.uint32(1)
