"""Who calls whom, with counts and durations, in the terms of Tempo's service graph.

Users have dashboards for `traces_service_graph_*`. The same pairing: a CLIENT span and the SERVER span below it, a
PRODUCER and its CONSUMER (connection type messaging_system); a CLIENT span without a partner is an edge to a database
or to a peer by its attributes; a SERVER span without a parent is called by `user`. A call failed if either side did.
Limits: a sampling multiplier is not read, so counts are those of the spans that arrived.

Source: grafana/tempo, modules/generator/processor/servicegraphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from cotenant.engine.traces.assembly import Rows, Trees
from cotenant.engine.traces.bounded_table import BoundedTable
from cotenant.engine.traces.open_spans import ArrivedSpans
from cotenant.engine.traces.operations import OTHER, Operations
from cotenant.model.traces.spans import SpanKind

USER = "user"
BOUNDS_S = tuple(0.1 * 2**power for power in range(8))
MAX_EDGES = 10_000
MAX_EDGES_OF_CLIENT = 500  # what a service calls beyond is `_other`


class ConnectionType(StrEnum):
    """Tempo's values of `connection_type`; empty for a call between two services."""

    CALL = ""
    MESSAGING = "messaging_system"
    DATABASE = "database"
    VIRTUAL = "virtual_node"


@dataclass(frozen=True, slots=True)
class Edge:
    """Two services, by their qualified names."""

    client: str
    server: str
    connection: ConnectionType


@dataclass(frozen=True, slots=True)
class Peer:
    """What a CLIENT or PRODUCER span says that it calls."""

    name: str
    is_database: bool


NO_PEER = Peer("", False)


@dataclass(slots=True)
class CallDurations:
    """A histogram over `BOUNDS_S`; the last count is of what took longer."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(BOUNDS_S) + 1, np.int64))
    total_s: float = 0.0


@dataclass(slots=True)
class EdgeFigures:
    """Since the start."""

    calls: int = 0
    failed: int = 0
    client: CallDurations = field(default_factory=CallDurations)
    server: CallDurations = field(default_factory=CallDurations)

    def add(self, other: EdgeFigures) -> None:
        """Add another edge's."""
        self.calls += other.calls
        self.failed += other.failed
        for mine, its in ((self.client, other.client), (self.server, other.server)):
            mine.counts += its.counts
            mine.total_s += its.total_s


class ServiceGraph:
    """The edges."""

    def __init__(self, most: int = MAX_EDGES) -> None:
        self._max = most
        self.edges: dict[Edge, EdgeFigures] = {}
        self._of_client: dict[str, int] = {}  # edges

    def add(self, spans: ArrivedSpans, trees: Trees, operations: Operations, peers: BoundedTable[Peer]) -> None:
        """Count the calls of finished traces. Spans number their peers as in `peers`."""
        kind = spans.columns.kind
        rows = trees.order[: trees.first_of[-1]]
        above = trees.parent[rows]
        answers = np.isin(kind[rows], (SpanKind.SERVER, SpanKind.CONSUMER))
        paired = answers & (above >= 0)
        paired[paired] = _asks_for(kind[above[paired]], kind[rows[paired]])
        clients, servers = above[paired], rows[paired]
        self._pairs(spans, clients, servers, operations)
        entered = answers & (spans.columns.parent_id[rows] == 0) & (kind[rows] == SpanKind.SERVER)
        self._entries(spans, rows[entered], operations)
        has_partner = np.zeros(kind.size, np.bool_)
        has_partner[clients] = True
        leaving = (spans.peer[rows] > 0) & ~has_partner[rows]
        self._exits(spans, rows[leaving], operations, peers)

    def _pairs(self, spans: ArrivedSpans, clients: Rows, servers: Rows, operations: Operations) -> None:
        def edge(key: int) -> Edge:
            asking, answering = operations[key >> 32], operations[key & 0xFFFFFFFF]
            connection = ConnectionType.MESSAGING if answering.kind is SpanKind.CONSUMER else ConnectionType.CALL
            return Edge(asking.qualified_service, answering.qualified_service, connection)

        failed = spans.columns.failed[clients] | spans.columns.failed[servers]
        keys = spans.operation[clients].astype(np.int64) << 32 | spans.operation[servers]
        self._count(keys, edge, failed, _seconds(spans, clients), _seconds(spans, servers))

    def _entries(self, spans: ArrivedSpans, rows: Rows, operations: Operations) -> None:
        def edge(key: int) -> Edge:
            return Edge(USER, operations[key].qualified_service, ConnectionType.VIRTUAL)

        keys = spans.operation[rows].astype(np.int64)
        self._count(keys, edge, spans.columns.failed[rows], None, _seconds(spans, rows))

    def _exits(self, spans: ArrivedSpans, rows: Rows, operations: Operations, peers: BoundedTable[Peer]) -> None:
        def edge(key: int) -> Edge:
            peer = peers[key & 0xFFFFFFFF]
            connection = ConnectionType.DATABASE if peer.is_database else ConnectionType.VIRTUAL
            return Edge(operations[key >> 32].qualified_service, peer.name, connection)

        keys = spans.operation[rows].astype(np.int64) << 32 | spans.peer[rows]
        self._count(keys, edge, spans.columns.failed[rows], _seconds(spans, rows), None)

    def _count(
        self,
        keys: NDArray[np.int64],
        edge: Callable[[int], Edge],
        failed: NDArray[np.bool_],
        client_s: NDArray[np.float64] | None,
        server_s: NDArray[np.float64] | None,
    ) -> None:
        """Count calls by their keys; a side that was not seen is None."""
        distinct, of_call, calls = np.unique(keys, return_inverse=True, return_counts=True)
        failures = np.bincount(of_call, failed, distinct.size).astype(np.int64).tolist()
        found = [self._edge(edge(key)) for key in distinct.tolist()]
        for figures, size, bad in zip(found, calls.tolist(), failures, strict=True):
            figures.calls += size
            figures.failed += bad
        for seconds, side in ((client_s, "client"), (server_s, "server")):
            if seconds is None:
                continue
            width = len(BOUNDS_S) + 1
            cells = of_call * width + np.searchsorted(BOUNDS_S, seconds)
            counts = np.bincount(cells, minlength=distinct.size * width).reshape(distinct.size, width)
            totals = np.bincount(of_call, seconds, distinct.size).tolist()
            for figures, row, total_s in zip(found, counts, totals, strict=True):
                durations: CallDurations = figures.client if side == "client" else figures.server
                durations.counts += row
                durations.total_s += total_s

    def _edge(self, edge: Edge) -> EdgeFigures:
        figures = self.edges.get(edge)
        if figures is None:
            if edge.client != USER and self._of_client.get(edge.client, 0) >= MAX_EDGES_OF_CLIENT:
                edge = Edge(edge.client, OTHER, edge.connection)
            if edge not in self.edges and len(self.edges) >= self._max:
                edge = Edge(OTHER, OTHER, ConnectionType.CALL)
            if edge not in self.edges:
                self._of_client[edge.client] = self._of_client.get(edge.client, 0) + 1
            figures = self.edges.setdefault(edge, EdgeFigures())
        return figures


def _asks_for(asking: NDArray[np.uint8], answering: NDArray[np.uint8]) -> NDArray[np.bool_]:
    calls = (asking == SpanKind.CLIENT) & (answering == SpanKind.SERVER)
    return calls | (asking == SpanKind.PRODUCER) & (answering == SpanKind.CONSUMER)


def grouped(keys: NDArray[np.int64]) -> Iterator[tuple[int, Rows]]:
    """The distinct keys, each with the places that have it."""
    distinct, of_place, counts = np.unique(keys, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts).tolist()
    places = np.argsort(of_place, kind="stable")
    for key, begin, end in zip(distinct.tolist(), [0, *ends], ends, strict=False):
        yield key, places[begin:end]


def _seconds(spans: ArrivedSpans, rows: Rows) -> NDArray[np.float64]:
    return (spans.columns.end_ns[rows] - spans.columns.start_ns[rows]) / 1e9
