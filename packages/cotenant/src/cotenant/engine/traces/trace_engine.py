"""The trace engine: span batches and the time in; counts, sketches, the service graph and finished traces out.

A collector that keeps every span needs a database, and one that keeps nothing cannot explain a slow request. Every span
is counted when it arrives; a finished trace is assembled, corrected for clock skew and counted in the graph; the last
and the slowest can be looked at. All state is bounded, and what a bound dropped is counted; no sender takes all the
room for open spans. A repeated span counts once. One that ended more than `NOW_WITHIN_S` ago is no request of now: it
counts in the totals and for objectives at its own time, and is left out of the sliding windows.
Limits: one process, no disk; a span that arrives after its trace is finished is counted, and not shown; a node whose
clock is late by more than `NOW_WITHIN_S` sends such spans only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from cotenant.engine.traces.assembly import Times, Trees, trees_of
from cotenant.engine.traces.bounded_table import BoundedTable
from cotenant.engine.traces.channels import Channels
from cotenant.engine.traces.head_rates import NOT_SAID, HeadRates
from cotenant.engine.traces.kept import APART, SLOWEST_FOR_S, KeptSpan, KeptTrace, KeptTraces
from cotenant.engine.traces.kept import MAX_SPANS as MAX_KEPT_SPANS
from cotenant.engine.traces.latency import OperationLatency
from cotenant.engine.traces.objectives import TrackedObjectives
from cotenant.engine.traces.open_spans import ArrivedSpans, OpenSpans
from cotenant.engine.traces.operations import Operations
from cotenant.engine.traces.own_times import OwnTimes
from cotenant.engine.traces.represented import Carried, Represented
from cotenant.engine.traces.request_bodies import RequestBodies
from cotenant.engine.traces.sampling import SLOW_FROM, SLOW_SHARE, FinishedTraces, Sampled, TraceSampler
from cotenant.engine.traces.seen_spans import MAX_PRINTS, SeenSpans
from cotenant.engine.traces.service_graph import NO_PEER, Peer, ServiceGraph, grouped
from cotenant.engine.traces.skew import MAX_SHIFT_NS, ClockSkews
from cotenant.model.errors import Transient
from cotenant.model.traces.probability import ALL
from cotenant.model.traces.spans import EVERYBODY, SpanBatch, SpanColumns, SpanSource
from cotenant.policy.objective.critical_path import blocking_parents, critical_paths
from cotenant.policy.objective.latency_buckets import quantile_ns

FUTURE_S = 600.0  # a span that ends later than this from now is refused; until then it counts as of now
# a span that ended this long ago counts as of now: collectors hold spans for up to 30 s and more to see whole traces
NOW_WITHIN_S = 60.0
MAX_OPEN = 600_000
TABLES = 8
MAX_HOSTS = 20_000
MAX_SOURCES = 50_000
MAX_PEERS = 10_000
RETRY_AFTER_S = 2.0

MessageTags = Callable[[bytes], Mapping[str, str]]
_KEPT_FOR = ("failed", "slow", "chance")  # by TraceClass


@dataclass(frozen=True, slots=True)
class BatchReceipt:
    """What became of a batch. `problem` is for the sender; empty where all was accepted."""

    accepted: int
    rejected: int
    problem: str


@dataclass(slots=True)
class TraceCounts:
    """Since the start."""

    batches: int = 0
    spans: int = 0
    rejected: int = 0
    refused_batches: int = 0  # for want of room
    late: int = 0  # spans that arrived after their trace was finished
    repeated: int = 0  # spans that were sent again; they are not counted anew
    old: int = 0  # spans that ended more than `NOW_WITHIN_S` before they arrived
    dropped: int = 0  # spans beyond the bound of a trace, or with the id of another
    finished: int = 0  # traces
    partial: int = 0
    cut: int = 0  # spans of traces that were chosen, and too many at once to be kept


class TraceEngine:
    """The state machine. Times are Unix seconds; `message_tags` reads the attributes in a span's own bytes."""

    def __init__(
        self,
        now_s: float,
        message_tags: MessageTags,
        *,
        max_open: int = MAX_OPEN,
        max_shift_ns: int = MAX_SHIFT_NS,
        sampler: TraceSampler | None = None,
        head: HeadRates | None = None,
        carried: Carried = lambda _: (None, None),
    ) -> None:
        """`carried` reads the random bits that a span's own bytes give instead of those of its trace's id, and the
        threshold that its client began it with.
        """
        self.counts = TraceCounts()
        self.operations = Operations()
        self.latency = OperationLatency(now_s)
        self.graph = ServiceGraph()
        self.skews = ClockSkews(max_shift_ns)
        self.kept = KeptTraces()
        self.sampler = sampler or TraceSampler(now_s)
        self.head = head or HeadRates(now_s)
        self._carried, self.represented = carried, Represented(carried)
        self.bodies = RequestBodies(max_open)
        self.seen = SeenSpans(now_s)
        self._seen_of_strangers = SeenSpans(now_s, MAX_PRINTS // 4)  # a flood of theirs forgets no other's
        self._tables = [OpenSpans() for _ in range(TABLES)]
        self._next_table = 0
        self.message_tags = message_tags
        self._hosts = BoundedTable("", MAX_HOSTS, self.skews.forget)
        self._sources = BoundedTable((SpanSource(), ""), MAX_SOURCES)  # with the instance, which they do not compare
        self._own_times = OwnTimes()
        self.channels = Channels()
        self.objectives = TrackedObjectives(self.operations, self.channels)
        self._peers = BoundedTable(NO_PEER, MAX_PEERS)
        self.collects_kept = False  # for `take_kept`
        self._kept_now: list[KeptTrace] = []

    @property
    def open_spans(self) -> int:
        """Spans whose traces are not finished."""
        return sum(table.size for table in self._tables)

    def add(self, batch: SpanBatch, now_s: float, sender: str = "", *, goes_on: bool = False) -> BatchReceipt:
        """Count a batch, or a further part of one (`goes_on`), and hold its spans. Raises `Transient` where there
        is no room for it, or for more of its sender; nothing of the batch is taken then.
        """
        batch = self.channels.admitted(batch, now_s)
        held, senders = self.open_spans, self.bodies.senders
        is_believed = self._is_believed(batch)
        max_open = senders.most if is_believed else senders.for_unproven
        is_full = held > 0 and held + len(batch) > max_open  # a single request always fits
        if is_full or (senders.of(sender) and not senders.has_room(sender, len(batch), is_proven=is_believed)):
            self.counts.refused_batches += 1
            whose = "" if is_full else f", {senders.of(sender)} of the same sender"
            raise Transient(f"{held} spans wait for the end of their traces{whose}", RETRY_AFTER_S)
        rejected, problems = batch.rejected, [batch.problem] if batch.problem else []
        future = batch.columns.end_ns > (now_s + FUTURE_S) * 1e9
        if future.any():
            count = int(future.sum())
            problems.append(f"{count} of {len(batch)} spans: they end more than {FUTURE_S:.0f} s from now")
            rejected += count
            batch = batch.take(~future)
        repeated = (self.seen if is_believed else self._seen_of_strangers).repeated(batch.columns, now_s, batch.sources)
        taken = len(batch)
        if repeated.any():
            self.counts.repeated += int(repeated.sum())
            batch = batch.take(~repeated)
        self.counts.batches += not goes_on
        self.counts.spans += len(batch)
        self.counts.rejected += rejected
        if len(batch):
            self._take(batch, batch.columns, now_s, sender)
        return BatchReceipt(taken, rejected, "; ".join(problems))

    def tick(self, now_s: float) -> None:
        """Finish the traces that are due."""
        for _ in self._tables:
            self.tick_next(now_s)

    def tick_next(self, now_s: float) -> None:
        """The next of `TABLES` parts of a tick: each has its share of the traces, so a caller with other work is
        not kept for long.
        """
        self.latency.tick(now_s)
        self.channels.tick(now_s)
        table, self._next_table = self._tables[self._next_table], (self._next_table + 1) % TABLES
        spans, begins = table.take_finished(now_s)
        if begins.size > 1:
            trees = trees_of(spans.columns.span_id, spans.columns.parent_id, spans.columns.start_ns, begins)
            self.counts.finished += begins.size - 1
            self.counts.partial += int(trees.partial.sum())
            self.counts.dropped += int(trees.dropped.sum())
            self.graph.add(spans, trees, self.operations, self._peers)
            self._keep(spans, trees, begins, now_s)
            self.bodies.release(spans.request)

    def take_kept(self) -> list[KeptTrace]:
        """Those that the budget chose since the last time, where `collects_kept` is set."""
        taken, self._kept_now = self._kept_now, []
        return taken

    def finish_all(self, now_s: float) -> None:
        """Finish every open trace, as if nothing had arrived for long."""
        self.tick(now_s + 1e6)

    def _take(self, batch: SpanBatch, columns: SpanColumns, now_s: float, sender: str) -> None:
        operation = self.operations.number(batch, is_proven=self._is_believed(batch))
        old = columns.end_ns < (now_s - NOW_WITHIN_S) * 1e9
        self.counts.old += int(old.sum())
        self.represented.add(operation, batch)
        self.latency.add(operation, columns.end_ns - columns.start_ns, columns.failed, old)
        source, host = self._numbers_of(batch.sources, now_s, sender)
        if len(self.objectives):
            self.objectives.add(
                operation,
                columns,
                batch.sources,
                *self._own_times.of(columns),
                old,
                now_s,
                lambda row: self.message_tags(
                    batch.body[int(columns.offset[row]) : int(columns.offset[row] + columns.length[row])]
                ),
            )
        spans = ArrivedSpans(
            columns,
            operation,
            host[columns.source],
            source[columns.source],
            self._peers_of(batch, now_s, sender),
            np.zeros(len(batch), np.int32),
            np.full(len(batch), now_s),
        )
        number_of_table = columns.trace_low % np.uint64(TABLES)
        parts = []
        for number in np.unique(number_of_table).tolist():
            part = spans.take(number_of_table == number)
            late = self._tables[number].late(part.columns.trace_low)
            if late.any():
                self.counts.late += int(late.sum())
                part = part.take(~late)
            parts.append((self._tables[number], part))
        if held := sum(part.operation.size for _, part in parts):
            request = self.bodies.add(batch.body, held, sender)
            for table, part in parts:
                part.request[:] = request
                table.add(part)

    def _is_believed(self, batch: SpanBatch) -> bool:
        return self.objectives.trusts_all or any(source.sender for source in batch.sources)

    def _numbers_of(
        self, sources: Sequence[SpanSource], now_s: float, sender: str
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The numbers of the sources, and of their hosts. What a namespace says of itself takes no other's room,
        unless all are believed.
        """
        trusts_all = self.objectives.trusts_all
        source, host = np.empty(len(sources), np.int32), np.empty(len(sources), np.int32)
        for index, span_source in enumerate(sources):
            is_proven = trusts_all or bool(span_source.sender)
            holder = (
                span_source.namespace if trusts_all or span_source.sender == EVERYBODY else span_source.sender or sender
            )
            process = span_source, span_source.instance
            source[index] = self._sources.number(process, holder, now_s, is_proven=is_proven)
            host[index] = self._hosts.number(span_source.host, holder, now_s, is_proven=is_proven)
        return source, host

    def _peers_of(self, batch: SpanBatch, now_s: float, sender: str) -> NDArray[np.int32]:
        peers = np.zeros(len(batch), np.int32)
        rows = np.flatnonzero(batch.columns.peer >= 0)
        keys = batch.columns.peer[rows] * 2 + batch.columns.to_database[rows]
        distinct, of_row = np.unique(keys, return_inverse=True)
        is_proven = self._is_believed(batch)
        numbers = [
            self._peers.number(Peer(batch.names[key // 2], bool(key % 2)), sender, now_s, is_proven=is_proven)
            for key in distinct.tolist()
        ]
        peers[rows] = np.array(numbers, np.int32)[of_row]
        return peers

    def _message(self, spans: ArrivedSpans, row: int) -> bytes:
        return self.bodies.message(
            int(spans.request[row]), int(spans.columns.offset[row]), int(spans.columns.length[row])
        )

    def _keep(self, spans: ArrivedSpans, trees: Trees, begins: NDArray[np.int64], now_s: float) -> None:
        """Keep the newest of these traces that the budget has room for, and those that are slow for their operation."""
        columns = spans.columns
        moved = self.skews.corrected(columns.start_ns, columns.end_ns, spans.host, trees)
        start, end = columns.start_ns + moved, columns.end_ns + moved
        placed = trees.order[: trees.first_of[-1]]
        waiting = blocking_parents(trees.parent, columns.kind)
        self_ns = critical_paths(start, end, waiting, placed, trees.first_of, trees.root_of)
        duration = (end - start)[trees.root_of]
        sizes = np.diff(begins)
        random, threshold = self._head_sampling(spans, trees)
        if self.head.budget > 0.0:
            begun = ~trees.partial
            self.head.add(spans.operation[trees.root_of][begun], sizes[begun], threshold[begun], now_s)
        chosen = self.sampler.choose(
            FinishedTraces(
                spans.operation[trees.root_of],
                sizes,
                np.logical_or.reduceat(columns.failed, begins[:-1]),
                duration,
                random,
                np.maximum(threshold, 0).astype(np.uint64),
            ),
            self._slow_bound(now_s),
            now_s,
        )
        by_end = np.argsort(end[trees.root_of], kind="stable")
        passed = by_end[chosen.kept[by_end]]
        sampled = passed[-self.kept.max_last :]
        self.counts.cut += int(sizes[passed[: passed.size - sampled.size]].sum())
        wanted = set(sampled.tolist()) | self._slow(spans, trees, duration, now_s)
        traces = [
            self._trace(spans, trees, trace, start, end, self_ns, moved, int(sizes[trace]), now_s, chosen)
            for trace in by_end.tolist()
            if trace in wanted
        ]
        self.kept.add(traces, now_s)
        if self.collects_kept:
            self._kept_now += [trace for trace in traces if trace.kept_for != APART]

    def _head_sampling(self, spans: ArrivedSpans, trees: Trees) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """56 random bits of each trace, its root's own where it gives some, else those of the id; and the threshold
        that it came with, `NOT_SAID` where it gives none.
        """
        random = spans.columns.trace_low[trees.root_of] & np.uint64(ALL - 1)
        threshold = np.full(random.size, NOT_SAID, np.int64)
        if self.sampler.budget > 0.0 or self.head.budget > 0.0:
            for trace, row in enumerate(trees.root_of.tolist()):
                given, begun_with = self._carried(self._message(spans, row))
                random[trace] = random[trace] if given is None else given
                threshold[trace] = NOT_SAID if begun_with is None else begun_with
        return random, threshold

    def _slow_bound(self, now_s: float) -> Callable[[int], float]:
        def bound(operation: int) -> float:
            figures = self.latency.window(operation, now_s)
            return quantile_ns(figures.buckets, SLOW_SHARE) if figures.requests >= SLOW_FROM else inf

        return bound

    def _slow(self, spans: ArrivedSpans, trees: Trees, duration: Times, now_s: float) -> set[int]:
        operation = spans.operation[trees.root_of].astype(np.int64)
        is_fresh = spans.columns.end_ns[trees.root_of] > (now_s - SLOWEST_FOR_S) * 1e9
        slow: set[int] = set()
        for number, rows in grouped(operation):
            bound = self.kept.slow_enough_ns(self.operations[number], now_s)
            rows = rows[(duration[rows] > bound) & is_fresh[rows]]
            slow.update(rows[np.argsort(-duration[rows], kind="stable")[:5]].tolist())
        return slow

    def _trace(
        self,
        spans: ArrivedSpans,
        trees: Trees,
        trace: int,
        start: Times,
        end: Times,
        self_ns: Times,
        moved: Times,
        size: int,
        now_s: float,
        chosen: Sampled,
    ) -> KeptTrace:
        rows = trees.order[trees.first_of[trace] : trees.first_of[trace + 1]]
        root = int(trees.root_of[trace])
        if rows.size > MAX_KEPT_SPANS:
            head = rows[:MAX_KEPT_SPANS]
            rows = head if root in head else np.concatenate([[root], head[:-1]])
        place = {row: index for index, row in enumerate(rows.tolist())}
        columns = spans.columns
        kept = tuple(
            KeptSpan(
                span_id=int(columns.span_id[row]),
                parent=place.get(int(trees.parent[row]), -1),
                operation=self.operations[spans.operation[row]],
                source=self._sources[spans.source[row]][0],
                start_ns=int(start[row]),
                end_ns=int(end[row]),
                self_ns=int(self_ns[row]),
                shift_ns=int(moved[row]),
                failed=bool(columns.failed[row]),
                orphan=bool(trees.orphan[row]),
                message=self._message(spans, row),
            )
            for row in place
        )
        return KeptTrace(
            high=int(columns.trace_high[root]),
            low=int(columns.trace_low[root]),
            root=place[root],
            spans=kept,
            partial=bool(trees.partial[trace]),
            size=size,
            finished_s=now_s,
            threshold=int((chosen.threshold if chosen.kept[trace] else chosen.head)[trace]),
            kept_for=self._kept_for(chosen, trace),
        )

    def _kept_for(self, chosen: Sampled, trace: int) -> str:
        if self.sampler.budget <= 0.0:
            return "all"
        if not chosen.kept[trace]:
            return APART
        kept_for = _KEPT_FOR[int(chosen.of_class[trace])]
        return "rare" if kept_for == "chance" and chosen.threshold[trace] == chosen.head[trace] else kept_for
