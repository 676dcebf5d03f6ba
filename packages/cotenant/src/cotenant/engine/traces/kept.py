"""The traces that can be looked at: the last ones, and the slowest of each operation.

All traces do not fit, and the last ones seldom have the slow ones. A ring of the last traces, and for each root
operation those that took longest within the last hour; both bounded by number and together by bytes.
Limits: everything is lost with the process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from cotenant.engine.traces.operations import SpanOperation
from cotenant.model.traces.probability import probability_of
from cotenant.model.traces.spans import SpanSource

LAST = 1_000
SLOWEST_EACH = 5
SLOWEST_OPERATIONS = 400
SLOWEST_FOR_S = 3600.0
MAX_BYTES = 64 << 20
MAX_SPANS = 2_000  # of one kept trace; of a larger one the first in order of the tree are kept
APART = "slowest"  # kept for being one of them, not by the budget
_SHOWN = 16  # digits of an id
_SPAN_BYTES = 500  # beside its message: the object and its fields


@dataclass(frozen=True, slots=True)
class KeptSpan:
    """One span of a kept trace. Times are corrected by `shift_ns`; `self_ns` is its part of the critical path."""

    span_id: int
    parent: int  # position in the trace, -1 = none
    operation: SpanOperation
    source: SpanSource
    start_ns: int
    end_ns: int
    self_ns: int
    shift_ns: int
    failed: bool
    orphan: bool
    message: bytes  # a Span in protobuf; empty where it was dropped


@dataclass(frozen=True, slots=True)
class KeptTrace:
    """A finished trace; parents stand before their children. `partial`: a parent is missing, or the trace has more
    than one root.
    """

    high: int
    low: int
    root: int
    spans: tuple[KeptSpan, ...]
    partial: bool
    size: int  # spans that arrived; more than len(spans) where some were not kept
    finished_s: float
    threshold: int = 0  # it was kept by chance: 1 / probability traces like it were finished
    kept_for: str = "all"  # failed, slow, rare, chance; slowest: apart from the budget; all: there is none

    @property
    def probability(self) -> float:
        """With which it was kept."""
        return probability_of(self.threshold)

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        return f"{self.high:016x}{self.low:016x}"

    @property
    def short_id(self) -> str:
        """As its sender writes it: 16 digits where the upper half is 0, as of Jaeger's and Zipkin's clients, else
        32.
        """
        return f"{self.low:016x}" if self.high == 0 else self.trace_id

    @property
    def duration_ns(self) -> int:
        """Of the root."""
        root = self.spans[self.root]
        return root.end_ns - root.start_ns

    @property
    def bytes(self) -> int:
        """Roughly what it occupies."""
        return sum(_SPAN_BYTES + len(span.message) for span in self.spans)


class KeptTraces:
    """Bounded stores of traces."""

    def __init__(self, last: int = LAST, max_bytes: int = MAX_BYTES) -> None:
        self.max_last = last
        self._max_bytes = max_bytes
        self._last: OrderedDict[str, KeptTrace] = OrderedDict()
        self._slowest: OrderedDict[SpanOperation, list[KeptTrace]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._last)

    def __iter__(self) -> Iterator[KeptTrace]:
        """Each once, the newest first."""
        seen = set(self._last)
        others = {trace.trace_id: trace for trace in chain(*self._slowest.values()) if trace.trace_id not in seen}
        return chain(reversed(self._last.values()), sorted(others.values(), key=lambda trace: -trace.finished_s))

    def get(self, trace_id: str) -> KeptTrace | None:
        """The trace with this id of 32 digits, or with this beginning where only one has it; an id of 64 bits may
        be without its leading zeros.
        """
        found = (
            [
                kept_trace
                for kept_trace in self
                if trace_id in (kept_trace.trace_id, kept_trace.short_id, kept_trace.trace_id.lstrip("0"))
            ]
            if trace_id
            else []
        )
        if trace_id and not found:
            found = [
                kept_trace
                for kept_trace in self
                if kept_trace.trace_id.startswith(trace_id) or kept_trace.short_id.startswith(trace_id)
            ]
        return found[0] if len(found) == 1 else None

    def beginnings(self, traces: Iterable[KeptTrace]) -> list[str]:
        """Of each of these kept traces, as much of its id as no other has, and at least 16 digits: clients may begin
        all ids of a second alike.
        """
        ids = sorted(trace.short_id for trace in self)
        found = []
        for trace in traces:
            own = trace.short_id
            at = bisect_left(ids, own)
            beside = (*ids[max(0, at - 1) : at], *ids[at + 1 : at + 2])
            found.append(own[: max(_SHOWN, *(_alike(own, other) + 1 for other in beside), 0)])
        return found

    def slow_enough_ns(self, operation: SpanOperation, now_s: float) -> int:
        """A trace of this root operation must take longer to be kept as one of the slowest."""
        kept = self._fresh(operation, now_s)
        return min(trace.duration_ns for trace in kept) if len(kept) >= SLOWEST_EACH else -1

    def add(self, traces: Iterable[KeptTrace], now_s: float) -> None:
        """Keep these as the newest, and those that are among the slowest."""
        for trace in traces:
            if (before := self._last.pop(trace.trace_id, None)) is not None:
                self._bytes -= before.bytes
            self._last[trace.trace_id] = trace
            self._bytes += trace.bytes
            self._keep_slow(trace, now_s)
        while len(self._last) > self.max_last or (self._bytes > self._max_bytes and len(self._last) > 1):
            self._bytes -= self._last.popitem(last=False)[1].bytes

    def _keep_slow(self, trace: KeptTrace, now_s: float) -> None:
        root = trace.spans[trace.root]
        operation = root.operation
        if root.end_ns <= (now_s - SLOWEST_FOR_S) * 1e9:
            return  # a request of long ago that arrives now
        kept = sorted([*self._fresh(operation, now_s), trace], key=lambda kept_trace: -kept_trace.duration_ns)[
            :SLOWEST_EACH
        ]
        self._slowest[operation] = kept
        self._slowest.move_to_end(operation)
        while len(self._slowest) > SLOWEST_OPERATIONS:
            self._slowest.popitem(last=False)

    def _fresh(self, operation: SpanOperation, now_s: float) -> list[KeptTrace]:
        return [trace for trace in self._slowest.get(operation, ()) if abs(now_s - trace.finished_s) < SLOWEST_FOR_S]


def _alike(one: str, other: str) -> int:
    """With how many equal characters two texts begin."""
    return next((at for at, (mine, its) in enumerate(zip(one, other, strict=False)) if mine != its), len(one))
