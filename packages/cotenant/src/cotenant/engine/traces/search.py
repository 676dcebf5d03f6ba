"""Questions to the kept traces: which match, and what the requests of a service spend their time on.

"what makes the slow ones slow" must be answered from the same spans that are shown. Plain functions over kept traces;
the critical path of a service is taken below each of its own requests (SERVER and CONSUMER spans), so a service in the
middle of a call chain has one too.
A trace that was kept by chance stands for 1 / probability; one that was kept as one of the slowest, apart from the
budget, stands for none, since those like it that were kept do.
Limits: kept traces only: the last ones, and without a budget the slowest too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.engine.traces.kept import APART, KeptSpan, KeptTrace
from cotenant.engine.traces.operations import SpanOperation
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

    operation: SpanOperation
    self_ns: float  # of all requests that the kept ones stand for
    share: float
    requests: int  # on whose critical path it is


@dataclass(frozen=True, slots=True)
class ServicePaths:
    """The critical paths of a service's requests; the shares sum to 1. `represented`: how many those that were looked
    at stand for; `total_ns` is of them.
    """

    requests: int
    represented: float
    total_ns: float
    shares: tuple[PathShare, ...]


def is_of(operation: SpanOperation, service: str) -> bool:
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
        (span.end_ns - span.start_ns, trace, position, 1.0 / trace.probability)
        for trace in traces
        if trace.kept_for != APART
        for position, span in enumerate(trace.spans)
        if span.operation.kind in REQUESTS and is_of(span.operation, service)
    ]
    requests.sort(key=lambda request: -request[0])
    requests = requests[: _slowest([weight for *_, weight in requests], slowest)]
    time_ns: dict[SpanOperation, float] = {}
    on_path: Counter[SpanOperation] = Counter()
    for _, trace, position, weight in requests:
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
        found: Counter[SpanOperation] = Counter()
        for span, part in zip(spans, self_ns.tolist(), strict=True):
            found[span.operation] += part
        for operation, part in found.items():
            time_ns[operation] = time_ns.get(operation, 0.0) + weight * part
        on_path.update(operation for operation, part in found.items() if part > 0)
    total = sum(duration * weight for duration, _, _, weight in requests)
    return ServicePaths(
        len(requests),
        sum(weight for *_, weight in requests),
        total,
        tuple(
            PathShare(operation, weighted, weighted / total if total else 0.0, on_path[operation])
            for operation, weighted in sorted(time_ns.items(), key=lambda counted: -counted[1])
            if weighted > 0
        ),
    )


def _slowest(weights: Sequence[float], share: float) -> int:
    """How many of the first have about this share of the weight, at least one."""
    if not weights:
        return 0
    summed = np.cumsum(weights)
    return max(1, int((summed - np.array(weights) / 2 < share * summed[-1]).sum()))


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
