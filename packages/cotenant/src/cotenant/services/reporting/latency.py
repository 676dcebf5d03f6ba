"""`POST /v1/latency`: services report the latency of their requests.

The guard decides by request latency, and only the service, its proxy or a load generator knows it. One small JSON
object per window, either with the percentile computed by the sender or as a histogram from which it is computed here;
everything is validated, because these values decide how much other pods may run. Any client that can connect may
report: the endpoint is a loopback address or a unix socket.

    {"workload": "shop/web", "window_s": 10, "requests": 1200, "p99_us": 8300, "over_objective": 3}
    {"workload": "shop/web", "window_s": 10, "bounds_us": [1000, 5000, 20000], "counts": [900, 280, 19, 1]}

`workload` is namespace/name, a UID, or the path of a group. `counts` are the requests of each bucket, one more than the
bounds: the last is of those beyond. Limits: within a bucket requests count as spread evenly, and those beyond the last
bound as being at it; one window per request.
Source: linear interpolation as in Prometheus' histogram_quantile.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Annotated

import msgspec

from cotenant.model.document import split_refusal
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import ServiceHealth

MAX_BYTES = 16 * 1024
MAX_BUCKETS = 256
MAX_REQUESTS = 10**12
LONGEST_WINDOW_S = 3600.0
MAX_US = 3_600_000_000  # an hour
WHOLE = "latency report"

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_REQUESTS)]
Microseconds = Annotated[int, msgspec.Meta(ge=0, le=MAX_US)]


class LatencyOutcome(StrEnum):
    """The outcome of a latency report; a label of the metric that counts them."""

    TAKEN = "taken"
    UNKNOWN = "unknown"  # unknown workload
    INVALID = "invalid"
    REFUSED = "refused"  # too large, too slow, wrong method


class LatencyReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One window of a service's requests, as it is sent."""

    workload: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    window_s: Annotated[float, msgspec.Meta(gt=0, le=LONGEST_WINDOW_S)]
    requests: Count | None = None
    p99_us: Microseconds | None = None
    over_objective: Count | None = None
    bounds_us: Annotated[tuple[Microseconds, ...], msgspec.Meta(max_length=MAX_BUCKETS)] | None = None
    counts: Annotated[tuple[Count, ...], msgspec.Meta(max_length=MAX_BUCKETS + 1)] | None = None
    age_s: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WINDOW_S)] = 0.0  # since the window ended

    def health(self, objective_us: int | None) -> ServiceHealth:
        """The health of a service with this objective. Raises `InvalidInput`."""
        if self.counts is not None or self.bounds_us is not None:
            requests, p99_us, over = self._of_histogram(objective_us)
        else:
            if self.requests is None or self.p99_us is None:
                raise InvalidInput("requests, p99_us", "missing", "both, or bounds_us and counts")
            requests, p99_us, over = self.requests, self.p99_us, self.over_objective or 0
            if over > requests:
                raise InvalidInput("over_objective", over, f"no more than requests, {requests}")
        return ServiceHealth(
            window_us=round(self.window_s * 1e6),
            requests=requests,
            p99_us=p99_us,
            over_objective=over,
            age_us=round(self.age_s * 1e6),
        )

    def _of_histogram(self, objective_us: int | None) -> tuple[int, int, int]:
        bounds, counts = self.bounds_us, self.counts
        if bounds is None or counts is None:
            raise InvalidInput("bounds_us, counts", "one of them", "both")
        if self.requests is not None or self.p99_us is not None or self.over_objective is not None:
            raise InvalidInput("requests, p99_us, over_objective", "given", "none of them beside a histogram")
        if not bounds or any(low >= high for low, high in pairwise(bounds)):
            raise InvalidInput("bounds_us", f"{len(bounds)} bounds", "at least one, in ascending order")
        if len(counts) != len(bounds) + 1:
            raise InvalidInput("counts", f"{len(counts)} counts", f"{len(bounds) + 1}, one more than the bounds")
        requests = sum(counts)
        over = 0 if objective_us is None else round(requests - requests_within(bounds, counts, objective_us))
        return requests, quantile_us(bounds, counts, 0.99), over


def quantile_us(bounds_us: Sequence[int], counts: Sequence[int], quantile: float) -> int:
    """The quantile of a histogram, microseconds; 0 where it is empty."""
    left = sum(counts) * quantile
    if left <= 0:
        return 0
    low = 0
    for high, count in zip(bounds_us, counts, strict=False):
        if count and left <= count:
            return round(low + (high - low) * left / count)
        left -= count
        low = high
    return bounds_us[-1]


def requests_within(bounds_us: Sequence[int], counts: Sequence[int], limit_us: int) -> float:
    """How many requests of a histogram took `limit_us` or less."""
    at = bisect_left(bounds_us, limit_us)
    below = float(sum(counts[:at]))
    if at == len(bounds_us):  # beyond the last bound: requests counted there are assumed to be slower
        return below
    low = bounds_us[at - 1] if at else 0
    return below + counts[at] * (limit_us - low) / (bounds_us[at] - low)


_decoder = msgspec.json.Decoder(LatencyReport)
_NAMED = re.compile(r"field `([^`]*)`")  # a missing or unknown field has no path in the decoder's message


def read(body: bytes) -> LatencyReport:
    """Decode a report. Raises `InvalidInput` naming the field, or `WHOLE` where no single field is wrong."""
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError as error:
        message, path = split_refusal(error)
        name = _NAMED.search(message)
        field = path or (name[1] if name else WHOLE)
        raise InvalidInput(field, *_refused(message)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(WHOLE, str(error), "a JSON object") from None


def _refused(message: str) -> tuple[str, str]:
    """The value and the expectation from the decoder's message, which does not always have the value."""
    if "missing required" in message:
        return "missing", "a value"
    if "unknown field" in message:
        return "unknown", f"one of {', '.join(LatencyReport.__struct_fields__)}"
    if not message.startswith("Expected "):
        return message.lower(), "a number in bounds" if "range" in message else "a report's value"
    expected, _, got = message.removeprefix("Expected ").replace("`", "").partition(", got ")
    return got or "out of bounds", expected


def find(workload: str, pods: Sequence[NodePod]) -> NodePod | None:
    """The pod of a report. Of several with one name the running one, else a terminating one; never a finished one."""
    meant = [pod for pod in pods if workload in (pod.key, pod.uid, pod.group) and pod.phase is not NodePodPhase.OVER]
    return next((pod for pod in meant if pod.phase is NodePodPhase.RUNNING), meant[0] if meant else None)
