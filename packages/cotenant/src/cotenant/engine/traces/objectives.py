"""Objectives counted from spans: exact good and bad requests by objective and by replica.

A burn rate from a sketch carries the sketch's error, and an objective may concern one operation, a service, or nothing
that was ever seen. Each SERVER and CONSUMER span of a service with objectives is compared with their thresholds when it
arrives; one that ended long before counts at its own time, and not before the objective was known; operations map to
objectives by a table that is made again when either changes. What an objective names is reserved in the table of
operations, so a million other operations do not hide it.
Limits: counts are in memory and begin when the objective is first seen, or where a saved state ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from cotenant.engine.traces.channels import Channels, ClosedChannel
from cotenant.engine.traces.generations import Tags, judge_generations
from cotenant.engine.traces.operations import Operations, SpanOperation
from cotenant.engine.traces.replicas import ObservedReplicas, ReplicaFigures
from cotenant.engine.traces.service_graph import grouped
from cotenant.engine.traces.slot_counts import SlotCounts
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.objective import Indicator, ServiceObjective
from cotenant.model.traces.spans import EVERYBODY, REQUESTS, SpanColumns, SpanKind, SpanSource
from cotenant.policy.objective.burn import CountedRequests, ObjectiveStanding, judge

MOST = 2_000
_UNCOUNTED_S = 60.0
_MAX_UNCOUNTED = 100  # replicas that an objective remembers to have no figures from
_NO_LIMIT_NS = np.iinfo(np.int64).max


@dataclass(slots=True)
class Tracked:
    """One objective with its counts."""

    objective: ServiceObjective
    counts: SlotCounts
    since_s: float  # what its counts go back to
    is_proven: bool  # a sender has proven to be of its namespace: from then on only such senders count
    requests: int = 0  # since the start
    bad: int = 0
    seen_s: float | None = None  # of its last request
    unproven: int = 0  # requests of senders that have not proven to be of its namespace
    # replicas that it cannot be counted from: why, and when that was last seen
    uncounted: dict[SpanSource, tuple[str, float]] = field(default_factory=dict)


class TrackedObjectives:
    """All objectives of the process. Times are Unix seconds."""

    def __init__(self, operations: Operations, channels: Channels | None = None, most: int = MOST) -> None:
        self._operations, self._max = operations, most
        self.channels = Channels() if channels is None else channels
        self._tracked: dict[str, Tracked] = {}
        self._in_order: list[Tracked] = []
        self._limit_ns = np.zeros(0, np.int64)
        self._of_errors = np.zeros(0, np.bool_)
        self._first = np.zeros(1, np.int64)
        self._objective = np.zeros(0, np.int64)
        self._is_stale = False
        self._has_goals = False
        self.replicas = ObservedReplicas()
        self.trusts_all = True  # whoever can send is believed: one machine, or a network that is trusted

    def __len__(self) -> int:
        return len(self._tracked)

    def __iter__(self) -> Iterator[Tracked]:
        return iter(self._tracked.values())

    def get(self, key: str) -> Tracked | None:
        """The objective of this namespace/name."""
        return self._tracked.get(key)

    def set(self, objective: ServiceObjective, now_s: float) -> None:
        """Add an objective, or replace the one of its name. Counts stay unless what they count has changed. Raises
        `InvalidInput`.
        """
        before = self._tracked.get(objective.key)
        if before is None and len(self._tracked) >= self._max:
            raise InvalidInput(objective.key, f"{len(self._tracked)} objectives", f"at most {self._max}")
        if before is not None and _counted(before.objective) == _counted(objective):
            before.objective = objective
        else:
            self.replicas.drop_objective(objective.key)
            is_proven = before is not None and before.is_proven  # by senders of the same namespace
            counts = SlotCounts(objective.window_s)
            self._tracked[objective.key] = Tracked(objective, counts, now_s, is_proven)
        if not objective.wrong:
            self._operations.reserve(objective.service_namespace, objective.service, objective.operation)
        self._is_stale = True

    def may_act(self, tracked: Tracked) -> bool:
        """Whether a node may act for it: its owner permits it, and its requests are counted from senders of its own
        namespace, and its channel is not closed.
        """
        is_believed = self.trusts_all or tracked.is_proven
        return tracked.objective.may_protect and is_believed and self.closed(tracked.objective) is None

    def closed(self, objective: ServiceObjective) -> ClosedChannel | None:
        """The closed channel that makes an objective blind."""
        if not objective.is_of_spans:
            return None
        return self.channels.of_service(objective.service_namespace, objective.service)

    def remove(self, key: str) -> None:
        """Forget an objective."""
        if self._tracked.pop(key, None) is not None:
            self.replicas.drop_objective(key)
            self._is_stale = True

    def add(
        self,
        operation: NDArray[np.int32],
        spans: SpanColumns,
        sources: Sequence[SpanSource],
        own_ns: NDArray[np.int64],
        called: NDArray[np.bool_],
        old: NDArray[np.bool_],
        now_s: float,
        tags_of: Callable[[int], Tags] = lambda row: {},
    ) -> None:
        """Count spans. `operation`: the number of each; `sources`: of the batch; `own_ns`, `called`: see
        `OwnTimes`; `tags_of`: the attributes of a row. The `old` ones count when they ended, and not before the
        objective.
        """
        if not self._tracked:
            return
        self._refresh()
        counts = (self._first[1:] - self._first[:-1])[operation]
        rows = np.repeat(np.arange(operation.size), counts)
        if not rows.size:
            return
        begins = np.cumsum(counts) - counts
        place = np.arange(rows.size) - np.repeat(begins, counts)
        objective = self._objective[self._first[operation[rows]] + place]
        duration = (spans.end_ns - spans.start_ns)[rows]
        bad = np.where(self._of_errors[objective], spans.failed[rows], duration > self._limit_ns[objective])
        if self._has_goals:
            measured = judge_generations(
                [tracked.objective.goal for tracked in self._in_order],
                objective,
                duration,
                bad,
                lambda pair: tags_of(int(rows[pair])),
                spans.failed[rows],
                lambda pair, why: self.cannot_count(
                    self._in_order[int(objective[pair])], sources[spans.source[rows[pair]]], why, now_s
                ),
            )
            rows, objective, duration, bad = (row[measured] for row in (rows, objective, duration, bad))
            if not rows.size:
                return
        many = len(sources)
        pairs, of_row, sizes = np.unique(objective * many + spans.source[rows], return_inverse=True, return_counts=True)
        admitted = self._admitted(pairs.tolist(), sizes.tolist(), sources, now_s)[of_row]
        is_old = old[rows]
        if (before := is_old & admitted).any():
            self._add_old(objective[before], spans.end_ns[rows[before]] / 1e9, bad[before], now_s)
        counted = admitted & ~is_old
        if not counted.all():
            rows, objective, duration, bad = (row[counted] for row in (rows, objective, duration, bad))
            pairs, of_row, sizes = np.unique(
                objective * many + spans.source[rows], return_inverse=True, return_counts=True
            )
        bad_of_pair = np.bincount(of_row, bad, pairs.size).astype(np.int64).tolist()
        replica = np.empty(pairs.size, np.int64)
        for index, (pair, size) in enumerate(zip(pairs.tolist(), sizes.tolist(), strict=True)):
            number, place = divmod(pair, many)
            tracked = self._in_order[number]
            self._count(tracked, size, bad_of_pair[index], now_s)
            is_believed = self.trusts_all or tracked.is_proven
            replica[index] = self.replicas.row(
                tracked.objective.key, sources[place], now_s, size, is_believed=is_believed
            )
        self.replicas.add(replica[of_row], duration, bad, own_ns[rows], called[rows])

    def _admitted(
        self, pairs: Sequence[int], sizes: Sequence[int], sources: Sequence[SpanSource], now_s: float
    ) -> NDArray[np.bool_]:
        """Which pairs of an objective and a source count. Without a proven sender everybody's do, and nothing is
        done for them; the first one ends that.
        """
        admitted = np.ones(len(pairs), np.bool_)
        if self.trusts_all:
            return admitted
        given = [(self._in_order[pair // len(sources)], sources[pair % len(sources)]) for pair in pairs]
        strangers = [index for index, (tracked, source) in enumerate(given) if not self._proves(tracked, source, now_s)]
        for index in strangers:  # after all who prove it
            admitted[index] = self._admits_stranger(given[index][0], sizes[index])
        return admitted

    def _proves(self, tracked: Tracked, source: SpanSource, now_s: float) -> bool:
        """Whether a source is sent by whoever may speak for this objective; the first such ends that strangers
        count.
        """
        own = tracked.objective.key.partition("/")[0]
        of_pod = source.pod_namespace or source.namespace or own
        if source.sender != EVERYBODY and not source.sender == own == of_pod:
            return False
        if not tracked.is_proven:
            tracked.is_proven = True
            if tracked.requests:  # what strangers said before, or before a restart, is not to be acted on
                tracked.counts, tracked.since_s = SlotCounts(tracked.objective.window_s), now_s
                self.replicas.drop_objective(tracked.objective.key)
        return True

    def _admits_stranger(self, tracked: Tracked, requests: int) -> bool:
        tracked.unproven += requests
        return not tracked.is_proven

    def _add_old(
        self, objective: NDArray[np.int64], ended_s: NDArray[np.float64], bad: NDArray[np.bool_], now_s: float
    ) -> None:
        for number, places in grouped(objective):
            tracked = self._in_order[number]
            counted = places[ended_s[places] >= tracked.since_s]
            tracked.counts.add_ended(now_s, ended_s[counted], bad[counted])
            tracked.requests += counted.size
            tracked.bad += int(bad[counted].sum())

    def reported(self, service: str, requests: int, bad: int, now_s: float, sender: str = "") -> int:
        """A service's report on itself; `service` as NAMESPACE/NAME. How many objectives it counts for."""
        found = [
            tracked
            for tracked in self._tracked.values()
            if tracked.objective.indicator is Indicator.SELF_REPORTED
            and tracked.objective.qualified_service == service
            and not tracked.objective.wrong
        ]
        source = SpanSource(sender=sender)
        for tracked in found:
            if self.trusts_all or self._proves(tracked, source, now_s) or self._admits_stranger(tracked, requests):
                self._count(tracked, requests, bad, now_s)
        return len(found)

    def observed(
        self,
        tracked: Tracked,
        source: SpanSource,
        uppers_ns: NDArray[np.int64],
        counts: NDArray[np.int64],
        bad: NDArray[np.bool_],
        now_s: float,
    ) -> None:
        """Count observations of a replica's histogram: so many at most so long each, those of `bad` buckets as bad."""
        requests = int(counts.sum())
        if not (self.trusts_all or self._proves(tracked, source, now_s) or self._admits_stranger(tracked, requests)):
            return
        self._count(tracked, requests, int(counts[bad].sum()), now_s)
        is_believed = self.trusts_all or tracked.is_proven
        row = self.replicas.row(tracked.objective.key, source, now_s, requests, is_believed=is_believed)
        self.replicas.add_counted(row, uppers_ns, counts, bad)

    def cannot_count(self, tracked: Tracked, source: SpanSource, why: str, now_s: float) -> None:
        """A replica from which an objective cannot be counted."""
        if source in tracked.uncounted or len(tracked.uncounted) < _MAX_UNCOUNTED:
            tracked.uncounted[source] = (why, now_s)

    def uncounted(self, tracked: Tracked, now_s: float) -> list[tuple[SpanSource, str]]:
        """The replicas from which it could not be counted lately, and why."""
        for source, (_, seen_s) in list(tracked.uncounted.items()):
            if now_s - seen_s > _UNCOUNTED_S:
                del tracked.uncounted[source]
        return [(source, why) for source, (why, _) in tracked.uncounted.items()]

    def standing(self, tracked: Tracked, now_s: float) -> ObjectiveStanding:
        """The objective judged now."""
        return judge(tracked.objective, lambda window_s: tracked.counts.sum(now_s, window_s), now_s - tracked.since_s)

    def counted(self, tracked: Tracked, window_s: int, now_s: float) -> CountedRequests:
        """The requests of the last `window_s`."""
        return tracked.counts.sum(now_s, window_s)

    def of_replicas(
        self, tracked: Tracked, now_s: float, most: int, least: int = 0
    ) -> dict[SpanSource, ReplicaFigures]:
        """The replicas of an objective over the last seconds, with `least` requests or more, the worst first; at
        most `most`.
        """
        objective, found = tracked.objective, {}
        counts = [count for count in self.replicas.counts(objective.key, now_s) if count[1] >= least]
        counts.sort(key=lambda count: (-count[2] / max(1, count[1]), -count[1], count[0].pod))
        for source, _, _ in counts[:most]:
            figures = self.replicas.figures(objective.key, source, objective.target, now_s)
            if figures is not None:
                found[source] = figures
        return found

    def is_known(self, objective: ServiceObjective) -> bool:
        """Whether a request of what it names was ever seen."""
        return any(_concerns(objective, operation) for operation in self._operations.known)

    def other_kinds(self, objective: ServiceObjective) -> frozenset[SpanKind]:
        """Kinds of the spans of its service that are no requests."""
        of = objective.service_namespace, objective.service
        return frozenset(
            operation.kind
            for operation in self._operations.known
            if (operation.namespace, operation.service) == of and operation.kind not in REQUESTS
        )

    def near(self, objective: ServiceObjective) -> list[str]:
        """Services, or operations of its service, with similar names."""
        served = [operation for operation in self._operations.known if operation.kind in REQUESTS]
        of_service = [
            operation.name
            for operation in served
            if operation.service == objective.service and operation.namespace == objective.service_namespace
        ]
        if of_service:
            return get_close_matches(objective.operation, of_service, 3, 0.3)
        names = sorted({operation.qualified_service for operation in served})[:2000]
        same = [name for name in names if name.rpartition("/")[2] == objective.service]
        return (same + get_close_matches(objective.qualified_service, names, 3, 0.5))[:3]

    def _count(self, tracked: Tracked, requests: int, bad: int, now_s: float) -> None:
        tracked.counts.add(now_s, requests, bad)
        tracked.requests += requests
        tracked.bad += bad
        tracked.seen_s = now_s

    def _refresh(self) -> None:
        """Make the table of operations and their objectives again, where either changed."""
        known = self._operations.known
        if not self._is_stale and self._first.size == len(known) + 1:
            return
        if self._is_stale:
            self._in_order = [
                tracked
                for tracked in self._tracked.values()
                if not tracked.objective.wrong and tracked.objective.is_of_spans
            ]
            self._has_goals = any(tracked.objective.goal is not None for tracked in self._in_order)
            self._limit_ns = np.array(
                [(tracked.objective.threshold_us or 0) * 1000 or _NO_LIMIT_NS for tracked in self._in_order], np.int64
            )
            self._of_errors = np.array(
                [tracked.objective.indicator is Indicator.ERRORS for tracked in self._in_order], bool
            )
            self._first, self._objective = np.zeros(1, np.int64), np.zeros(0, np.int64)
            self._is_stale = False
        by_service: dict[tuple[str, str], list[int]] = {}
        for number, tracked in enumerate(self._in_order):
            of = tracked.objective
            by_service.setdefault((of.service_namespace, of.service), []).append(number)
        first, found = [], []
        at = int(self._first[-1])
        for operation in known[self._first.size - 1 :]:
            if operation.kind in REQUESTS:
                found += [
                    number
                    for number in by_service.get((operation.namespace, operation.service), ())
                    if self._in_order[number].objective.operation in ("", operation.name)
                ]
            first.append(at + len(found))
        self._first = np.concatenate([self._first, np.array(first, np.int64)])
        self._objective = np.concatenate([self._objective, np.array(found, np.int64)])


def _counted(objective: ServiceObjective) -> tuple[object, ...]:
    """What the counts of an objective depend on."""
    return (
        objective.service_namespace,
        objective.service,
        objective.operation,
        objective.indicator,
        objective.threshold_us,
        objective.window_s,
        bool(objective.wrong),
        objective.goal and objective.goal.counted,
        objective.uid,
    )


def _concerns(objective: ServiceObjective, operation: SpanOperation) -> bool:
    return (
        operation.kind in REQUESTS
        and operation.service == objective.service
        and operation.namespace == objective.service_namespace
        and objective.operation in ("", operation.name)
    )
