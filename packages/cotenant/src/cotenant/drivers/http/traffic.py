"""An HTTP server's metrics of itself.

Every server needs its requests by status, those in flight and their duration, without a cost that shows beside a
judgement of 0.1 ms. Plain counters that the event loop increments; Prometheus families are built when they are scraped.
Limits: paths are no label, because clients choose them; the duration of requests that are meant to last, such as
watches, is not observed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from cotenant.drivers.http.messages import Scope

_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
UNANSWERED = 0  # the status of a request whose client disconnected before an answer


class ServerTraffic(Collector):
    """Counts of one server; register it with the process's registry. `server` is the label that tells servers apart."""

    def __init__(self, server: str, lasts: Callable[[Scope], bool] | None = None) -> None:
        """`lasts` tells requests whose duration is not observed; None = there are none."""
        self._server = server
        self._lasts = lasts
        self.requests: dict[int, int] = {}  # by status
        self.refusals: dict[str, int] = {}  # connections that were refused or cut by the server's limits, by reason
        self.in_flight = 0  # the connection adds a request that begins
        self.connections = 0
        self._observed = [0] * (len(_BUCKETS_S) + 1)
        self._seconds = 0.0

    def ended(self, status: int, scope: Scope, took_s: float) -> None:
        """Count a request; one that got no answer has the status `UNANSWERED`."""
        self.in_flight -= 1
        self.requests[status] = self.requests.get(status, 0) + 1
        if self._lasts is None or not self._lasts(scope):
            self._observed[bisect_left(_BUCKETS_S, took_s)] += 1
            self._seconds += took_s

    def refused(self, reason: str) -> None:
        """Count a connection that a limit ended."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """The families, for a registry."""
        server = self._server
        requests = CounterMetricFamily(
            "cotenant_http_requests", "Requests answered, by HTTP status.", labels=["server", "code"]
        )
        for status, count in self.requests.items():
            requests.add_metric([server, str(status) if status else "none"], count)
        yield requests
        refusals = CounterMetricFamily(
            "cotenant_http_refusals", "Connections refused or cut by a limit, by reason.", labels=["server", "reason"]
        )
        for reason, count in self.refusals.items():
            refusals.add_metric([server, reason], count)
        yield refusals
        in_flight = GaugeMetricFamily("cotenant_http_requests_in_flight", "Requests in progress.", labels=["server"])
        in_flight.add_metric([server], self.in_flight)
        yield in_flight
        connections = GaugeMetricFamily("cotenant_http_connections", "Open connections.", labels=["server"])
        connections.add_metric([server], self.connections)
        yield connections
        duration = HistogramMetricFamily(
            "cotenant_http_request_duration_seconds",
            "From the end of a request's head to the end of its answer, watches excluded.",
            labels=["server"],
        )
        bounds = [str(bound) for bound in _BUCKETS_S] + ["+Inf"]
        duration.add_metric([server], list(zip(bounds, accumulate(self._observed), strict=True)), self._seconds)
        yield duration
