"""The hook's metrics, for Prometheus.

A container's creation waits for the hook, so counting must cost it nothing. Counters are read at a scrape; only the
time of a decision is observed at once.
Limits: times are the decision's own, without the runtime's and the socket's.
"""

from __future__ import annotations

from prometheus_client import Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.services.nri.hook import HookCounts
from cotenant.services.nri.nri_process import HookProcess

_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1.0)


class HookMetrics:
    """`took` observes a decision, `text` is the exposition."""

    def __init__(self) -> None:
        self._registry = MetricsRegistry()
        took = Histogram(
            "cotenant_hook_decision_seconds",
            "Time to decide a container's first values.",
            registry=self._registry,
            buckets=_BUCKETS,
        )
        self.took = took.observe

    def show(self, process: HookProcess) -> None:
        """Add what the process keeps."""
        counts: HookCounts = process.hook.counts
        read = self._registry.read
        read(
            CounterMetricFamily,
            "cotenant_hook_containers",
            "Containers that the runtime created or updated, by what was answered.",
            ("call", "outcome"),
            lambda: [(pair, float(number)) for pair, number in sorted(counts.containers.items())],
        )
        read(
            CounterMetricFamily,
            "cotenant_hook_left_out",
            "Values that pods asked for and did not get, by cause.",
            ("cause",),
            lambda: [((cause,), float(number)) for cause, number in sorted(counts.left_out.items())],
        )
        read(
            CounterMetricFamily,
            "cotenant_hook_failures",
            "Calls that could not be decided and were answered without a change.",
            ("call",),
            lambda: [((call,), float(number)) for call, number in sorted(counts.failures.items())],
        )
        read(
            CounterMetricFamily,
            "cotenant_hook_connections",
            "Times that a runtime accepted the hook.",
            (),
            lambda: [((), float(counts.connections))],
        )
        read(
            GaugeMetricFamily,
            "cotenant_hook_up",
            "Whether a runtime has the hook now.",
            (),
            lambda: [((), float(process.runtime is not None))],
        )
        read(
            GaugeMetricFamily,
            "cotenant_hook_adopted_containers",
            "Containers that ran already when the runtime accepted the hook.",
            (),
            lambda: [((), float(counts.adopted))],
        )

    def text(self) -> bytes:
        """The exposition."""
        return generate_latest(self._registry)
