"""The extender's `/metrics`.

A figure that costs more than the answer would change what it measures. Durations are observed by the Prometheus client,
everything else is read from the parts' own counts at a scrape.
Limits: one process, one registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.services.extender.mirror import Mirror
from cotenant.services.extender.protocol import ExtenderCounts
from cotenant.services.reporting.endpoint import ReportOutcome

VERBS = ("filter", "prioritize", "preempt", "bind")
_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class ExtenderMetrics(Collector):
    """Collects from the parts. `fresh_nodes` counts nodes with a fresh report."""

    def __init__(
        self, tally: ExtenderCounts, mirror: Mirror, reports: dict[ReportOutcome, int], fresh_nodes: Callable[[], int]
    ) -> None:
        self._tally = tally
        self._mirror = mirror
        self._reports = reports
        self._fresh_nodes = fresh_nodes
        self.registry = MetricsRegistry()
        seconds = Histogram(
            "cotenant_extender_request_seconds",
            "From the last byte of a request to its answer.",
            ["verb"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.took = {verb: seconds.labels(verb).observe for verb in VERBS}
        self.answers: dict[tuple[str, int], int] = {}
        self.faults = 0
        self.registry.register(self)

    def answered(self, verb: str, status: int) -> None:
        """Count an answer."""
        self.answers[verb, status] = self.answers.get((verb, status), 0) + 1

    def page(self) -> bytes:
        """The text exposition."""
        return self.registry.page()

    def collect(self) -> Iterator[Metric]:
        """What the parts counted."""
        answers = CounterMetricFamily(
            "cotenant_extender_answers", "Answers by verb and HTTP status.", labels=["verb", "status"]
        )
        for (verb, status), count in self.answers.items():
            answers.add_metric([verb, str(status)], count)
        yield answers
        nodes = CounterMetricFamily(
            "cotenant_extender_nodes", "Nodes that filter judged, by what became of them.", labels=["result"]
        )
        tally = self._tally
        nodes.add_metric(["passed"], tally.judged - tally.refused)
        nodes.add_metric(["refused"], tally.refused)
        yield nodes
        yield CounterMetricFamily(
            "cotenant_extender_nodes_unknown",
            "Nodes that filter let through because nothing was known of them.",
            value=tally.unknown,
        )
        yield CounterMetricFamily(
            "cotenant_extender_errors", "Filter requests that were answered with Error.", value=tally.errors
        )
        yield CounterMetricFamily(
            "cotenant_extender_faults",
            "Requests on which the extender itself failed: each is in the log.",
            value=self.faults,
        )
        reports = CounterMetricFamily("cotenant_extender_reports", "Node reports by outcome.", labels=["outcome"])
        for outcome, count in self._reports.items():
            reports.add_metric([outcome.value], count)
        yield reports
        yield GaugeMetricFamily(
            "cotenant_extender_nodes_reporting", "Nodes with a fresh report.", value=self._fresh_nodes()
        )
        yield GaugeMetricFamily(
            "cotenant_extender_nodes_known", "Nodes that are known.", value=len(self._mirror.rows) - 1
        )
        yield GaugeMetricFamily(
            "cotenant_extender_residents", "Bound pods that are counted.", value=self._mirror.residents
        )
