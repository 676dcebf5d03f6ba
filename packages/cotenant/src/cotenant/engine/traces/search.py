"""Questions to the kept traces: which match, and what the requests of a service spend their time on.

"what makes the slow ones slow" must be answered from the same spans that are shown. Plain functions over kept traces;
the critical path of a service is taken below each of its own requests (SERVER and CONSUMER spans), so a service in the
middle of a call chain has one too.
Limits: kept traces only; they are the last and the slowest, not a random sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from cotenant.engine.traces.kept import KeptSpan, KeptTrace
from cotenant.engine.traces.operations import Operation
from cotenant.engine.traces.trace_engine import MessageTags
from cotenant.model.traces.spans import REQUESTS
from cotenant.policy.objective.critical_path import blocking_parents, critical_path


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """A trace matches if one of its spans has all that is given. `tags`: attribute and value; an empty value
    matches any.
    """

    service: str = ""
    operation: str = ""
    min_ns: int = 0
    tags: Mapping[str, str] | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class PathShare:
    """An operation's part of the critical paths: in ns, and as a share of the requests' durations."""

    operation: Operation
    self_ns: int
    share: float
    requests: int  # on whose critical path it is


@dataclass(frozen=True, slots=True)
class ServicePaths:
    """The critical paths of a service's requests; the shares sum to 1."""

    requests: int
    total_ns: int
    shares: tuple[PathShare, ...]


def is_of(operation: Operation, service: str) -> bool:
    """Whether the operation belongs to `service`, given as NAME or NAMESPACE/NAME."""
    return service in (operation.service, operation.qualified_service)


def search(traces: Iterable[KeptTrace], query: TraceQuery, message_tags: MessageTags) -> Iterator[KeptTrace]:
    """The traces that match, in their order."""
    return (trace for trace in traces if any(_matches(span, query, message_tags) for span in trace.spans))


def critical_of(traces: Iterable[KeptTrace], service: str, slowest: float = 1.0) -> ServicePaths:
    """Where the requests of a service spend their time; `slowest`: only this share of them, the ones that took
    longest.
    """
    requests = [
        (span.end_ns - span.start_ns, trace, position)
        for trace in traces
        for position, span in enumerate(trace.spans)
        if span.operation.kind in REQUESTS and is_of(span.operation, service)
    ]
    requests.sort(key=lambda request: -request[0])
    requests = requests[: max(1, round(len(requests) * slowest))] if requests else []
    time_ns: Counter[Operation] = Counter()
    on_path: Counter[Operation] = Counter()
    for _, trace, position in requests:
        spans = trace.spans
        self_ns = critical_path(
            np.array([span.start_ns for span in spans]),
            np.array([span.end_ns for span in spans]),
            blocking_parents(
                np.array([span.parent for span in spans]),
                np.array([span.operation.kind for span in spans], np.uint8),
            ),
            position,
        )
        found: Counter[Operation] = Counter()
        for span, part in zip(spans, self_ns.tolist(), strict=True):
            found[span.operation] += part
        time_ns.update(found)
        on_path.update(operation for operation, part in found.items() if part > 0)
    total = sum(duration for duration, _, _ in requests)
    return ServicePaths(
        len(requests),
        total,
        tuple(
            PathShare(operation, part, part / total if total else 0.0, on_path[operation])
            for operation, part in time_ns.most_common()
            if part > 0
        ),
    )


def _matches(span: KeptSpan, query: TraceQuery, message_tags: MessageTags) -> bool:
    if query.service and not is_of(span.operation, query.service):
        return False
    if query.operation and query.operation != span.operation.name:
        return False
    if span.end_ns - span.start_ns < query.min_ns or (query.failed and not span.failed):
        return False
    if query.tags:
        tags = message_tags(span.message)
        return all(key in tags and value in ("", tags[key]) for key, value in query.tags.items())
    return True
