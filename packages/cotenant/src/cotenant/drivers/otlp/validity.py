"""Which spans of a request are accepted.

One bad span must not cost the rest of its request. The protocol's partial success: valid spans are taken, the others
are counted with the first reason.
Limits: times are checked against one another only; the trace engine compares them with its clock.

Source: opentelemetry-proto, docs/specification.md (partial success), trace.proto (ids).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cotenant.model.traces.spans import SpanBatch, SpanColumns, SpanSource

VALID, BAD_TRACE_ID, BAD_SPAN_ID, BAD_PARENT_ID, BAD_TIME, TOO_MANY_PARTS = range(6)
# attributes of a span, and events, and links; an SDK sends 128 of each at most where it is not told otherwise
MAX_PARTS = 1_000
MAX_NAME = 200  # characters of a span's name that are used: it becomes part of keys and labels
REASONS = {
    BAD_TRACE_ID: "trace_id: expected 16 bytes, not all 0",
    BAD_SPAN_ID: "span_id: expected 8 bytes, not all 0",
    BAD_PARENT_ID: "parent_span_id: expected 8 bytes, or none",
    BAD_TIME: "end_time_unix_nano: expected a time after 1970 and not before start_time_unix_nano",
    TOO_MANY_PARTS: f"attributes, events, links: expected at most {MAX_PARTS} of each",
}
LATEST_NS = np.uint64((1 << 63) - 1)


def batch_of(
    columns: SpanColumns,
    faults: NDArray[np.uint8],
    names: tuple[str, ...],
    sources: tuple[SpanSource, ...],
    body: bytes,
) -> SpanBatch:
    """The batch of the rows without a fault; names are cut to `MAX_NAME`."""
    names = tuple(name[:MAX_NAME] for name in names)
    if not faults.any():
        return SpanBatch(columns, names, sources, body)
    kinds, counts = np.unique(faults[faults != VALID], return_counts=True)
    problem = "; ".join(
        f"{count} of {faults.size} spans: {REASONS[int(kind)]}" for kind, count in zip(kinds, counts, strict=True)
    )
    return SpanBatch(columns.take(faults == VALID), names, sources, body, int(counts.sum()), problem)
