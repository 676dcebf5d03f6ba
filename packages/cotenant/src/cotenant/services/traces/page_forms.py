"""What the pages of the trace process have in them, as JSON."""

from __future__ import annotations

import msgspec


class OperationRow(msgspec.Struct, frozen=True, rename="camel"):
    """An operation that serves requests, in the window. Latencies are null where there was no request."""

    service: str
    operation: str
    kind: str
    requests: int
    per_second: float
    errors: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


class SilentRow(msgspec.Struct, frozen=True, rename="camel"):
    """A service of which no request is known: spans since the start, by kind."""

    service: str
    spans: dict[str, int]


class ServicesPage(msgspec.Struct, frozen=True, rename="camel"):
    """`window_s`: what the rows cover. `silent`: services that sent spans since the start and no request among
    them, the first ones, each with the spans by kind. `old`: spans since the start that came too late to count as
    requests of now.
    """

    window_s: float
    operations: list[OperationRow]
    silent: list[SilentRow] = []
    old: int = 0


class SketchSlot(msgspec.Struct, frozen=True, rename="camel"):
    """Requests that arrived between `ago_s` seconds ago and `length_s` later. `bands`: position, and requests that
    took that long.
    """

    ago_s: float
    length_s: float
    requests: int
    errors: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    bands: list[tuple[int, int]]


class SketchPage(msgspec.Struct, frozen=True, rename="camel"):
    """Band k is from `low_ms` x `factor` ** k to the next. Slots without a request are left out."""

    service: str
    low_ms: float
    factor: float
    slots: list[SketchSlot]


class TraceRow(msgspec.Struct, frozen=True, rename="camel"):
    """A trace in a list."""

    trace_id: str
    service: str
    operation: str
    start_ns: int
    duration_ms: float
    spans: int
    services: int
    failed: bool
    partial: bool
    kept_for: str = "all"
    probability: float = 1.0  # with which it was kept
    beginning: str = ""  # as much of its id as no other kept trace has


class TracesPage(msgspec.Struct, frozen=True, rename="camel"):
    """`kept`: how many traces were searched."""

    kept: int
    traces: list[TraceRow]


class SpanRow(msgspec.Struct, frozen=True, rename="camel"):
    """A span of one trace; `parent` is a position in the list, -1 = none. `self_ms` is its part of the critical
    path.
    """

    span_id: str
    parent: int
    service: str
    operation: str
    kind: str
    pod: str
    host: str
    start_ms: float  # since the root's start
    duration_ms: float
    self_ms: float
    shift_ms: float  # by the correction of clock skew
    failed: bool
    orphan: bool
    tags: dict[str, str]


class TracePage(msgspec.Struct, frozen=True, rename="camel"):
    """One trace. `size`: spans that arrived."""

    trace_id: str
    start_ns: int
    duration_ms: float
    partial: bool
    size: int
    spans: list[SpanRow]


class EdgeRow(msgspec.Struct, frozen=True, rename="camel"):
    """A caller and what it calls, since the start; means are null on a side that was not traced."""

    client: str
    server: str
    connection: str
    calls: int
    failed: int
    client_mean_ms: float | None
    server_mean_ms: float | None


class PathRow(msgspec.Struct, frozen=True, rename="camel"):
    """An operation's share of the time of a service's requests."""

    service: str
    operation: str
    kind: str
    share: float
    mean_ms: float  # over all of the requests
    requests: int  # on whose critical path it is


class CriticalPage(msgspec.Struct, frozen=True, rename="camel"):
    """The shares sum to 1. `represented`: how many the requests stand for, by the probabilities of their traces."""

    service: str
    requests: int
    mean_ms: float
    path: list[PathRow]
    represented: float = 0.0
