"""Spans of one export request, in columns.

A collector receives tens of thousands of spans a second, and an object for each costs more than everything that is done
with it. One array per field; names and sources are indices into the batch's own tables, and a span's attributes stay in
the request's bytes until something asks for them. Ids are unsigned integers in big-endian order, as their hexadecimal
form reads.
Limits: events and links stay in the bytes too.

Source: opentelemetry-proto, opentelemetry/proto/trace/v1/trace.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

EVERYBODY = "*"  # a sender that forwards others' spans
UNKNOWN_SERVICE = "unknown"  # of a source without service.name


class SpanKind(IntEnum):
    """OTLP's numbers. SERVER and CONSUMER spans are the requests of a service."""

    UNSPECIFIED = 0
    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


REQUESTS = frozenset({SpanKind.SERVER, SpanKind.CONSUMER})


@dataclass(frozen=True, slots=True)
class SpanSource:
    """What produced a span: the resource of OTLP, as far as it is used. Unknown fields are empty."""

    service: str = UNKNOWN_SERVICE
    namespace: str = ""
    pod: str = ""
    pod_uid: str = ""
    host: str = ""
    pod_namespace: str = ""  # where it is not the service's
    # the namespace that whoever sent it has proven to be of; EVERYBODY = it may speak for all; not of the resource
    sender: str = ""
    instance: str = field(default="", compare=False)  # one process; those of a pod are one source
    resource: bytes = field(default=b"", compare=False, repr=False)  # in protobuf, of that process; empty: too large

    @property
    def qualified_service(self) -> str:
        """NAMESPACE/NAME, or NAME without a namespace."""
        return f"{self.namespace}/{self.service}" if self.namespace else self.service


class SpanColumns(NamedTuple):
    """One row a span; arrays of equal length."""

    trace_high: NDArray[np.uint64]
    trace_low: NDArray[np.uint64]
    span_id: NDArray[np.uint64]
    parent_id: NDArray[np.uint64]  # 0 = no parent
    start_ns: NDArray[np.int64]  # since the Unix epoch
    end_ns: NDArray[np.int64]
    kind: NDArray[np.uint8]  # SpanKind
    failed: NDArray[np.bool_]  # status code ERROR
    name: NDArray[np.int32]  # index into SpanBatch.names
    source: NDArray[np.int32]  # index into SpanBatch.sources
    offset: NDArray[np.int64]  # of the span's message in SpanBatch.body
    length: NDArray[np.int64]
    peer: NDArray[
        np.int32
    ]  # index into SpanBatch.names of what a CLIENT or PRODUCER span says that it calls; -1 = nothing
    to_database: NDArray[np.bool_]  # the peer is a database

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> SpanColumns:
        """These rows."""
        return SpanColumns._make(column[rows] for column in self)


@dataclass(frozen=True, slots=True)
class SpanBatch:
    """The valid spans of one request. `body` has their messages; `problem` says why `rejected` spans were left out."""

    columns: SpanColumns
    names: tuple[str, ...]
    sources: tuple[SpanSource, ...]
    body: bytes
    rejected: int = 0
    problem: str = ""

    def __len__(self) -> int:
        return self.columns.span_id.size

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> SpanBatch:
        """These spans, without what was said of rejected ones."""
        return SpanBatch(self.columns.take(rows), self.names, self.sources, self.body)

    def parts(self, max_spans: int) -> Iterator[SpanBatch]:
        """The batch in parts of so many spans, each with its own bytes; the first says what was rejected."""
        if len(self) <= max_spans:
            yield self
            return
        for first in range(0, len(self), max_spans):
            columns = self.columns.take(np.arange(first, min(first + max_spans, len(self))))
            begin, end = int(columns.offset.min()), int((columns.offset + columns.length).max())
            rejected, problem = (self.rejected, self.problem) if first == 0 else (0, "")
            moved = columns._replace(offset=columns.offset - begin)
            yield SpanBatch(moved, self.names, self.sources, self.body[begin:end], rejected, problem)


def columns_of(size: int) -> SpanColumns:
    """Columns of so many rows, without peers and else all 0."""
    ids = [np.zeros(size, np.uint64) for _ in range(4)]
    return SpanColumns(
        ids[0],
        ids[1],
        ids[2],
        ids[3],
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.uint8),
        np.zeros(size, np.bool_),
        np.zeros(size, np.int32),
        np.zeros(size, np.int32),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.full(size, -1, np.int32),
        np.zeros(size, np.bool_),
    )
