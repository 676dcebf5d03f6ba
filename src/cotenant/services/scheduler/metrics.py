"""The scheduler's metrics: kube-scheduler's names where the meaning is the same, `cotenant_` for the rest.

Problem: dashboards and alerts exist for kube-scheduler. Choice: its names, labels and buckets; counts that the engine keeps are read when
somebody scrapes. Limits: `profile` is the placement profile's name; extension points are not timed one by one, because they run as one kernel.
Source: Kubernetes documentation, "Kubernetes Metrics Reference", scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

Sample = tuple[tuple[str, ...], float]


def _exponential(first: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(first * factor**i for i in range(count))


class Read:
    """A metric whose values somebody else keeps: asked for at each scrape."""

    def __init__(
        self, kind: type[CounterMetricFamily] | type[GaugeMetricFamily], name: str, help_: str, labels: tuple[str, ...],
        samples: Callable[[], Iterable[Sample]],
    ) -> None:  # fmt: skip
        self._kind, self._name, self._help, self._labels, self._samples = kind, name, help_, labels, samples

    def collect(self) -> Iterator[Metric]:
        """The values now."""
        family = self._kind(self._name, self._help, labels=self._labels)
        for labels, value in self._samples():
            family.add_metric(labels, value)
        yield family


class Metrics:
    """All metrics of one scheduler process."""

    def __init__(self, profile: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.profile = profile
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        attempts = Counter(
            "scheduler_schedule_attempts",
            "Number of attempts to schedule pods, by the result",
            ("result", "profile"),
            registry=self.registry,
        )
        self.scheduled = attempts.labels("scheduled", profile)
        self.unschedulable = attempts.labels("unschedulable", profile)
        self.error = attempts.labels("error", profile)
        duration = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency (judgement and bind)",
            ("result", "profile"),
            buckets=_exponential(0.001, 2, 15),
            registry=self.registry,
        )
        self.attempt_duration = duration.labels("scheduled", profile)
        self.algorithm_duration = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Judgement of a pod: its share of its batch",
            buckets=_exponential(0.00001, 2, 18),
            registry=self.registry,
        )
        self.sli_duration = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the pod's first being seen schedulable to its bind",
            ("attempts",),
            buckets=_exponential(0.01, 2, 20),
            registry=self.registry,
        )
        self.attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts until a pod was scheduled",
            buckets=(1, 2, 4, 8, 16),
            registry=self.registry,
        )
        self.victims = Histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            buckets=_exponential(1, 2, 7),
            registry=self.registry,
        )
        self.preemptions = Counter(
            "scheduler_preemption_attempts",
            "Total preemption attempts in the cluster till now",
            registry=self.registry,
        )
        self.binding_duration = Histogram(
            "cotenant_scheduler_bind_duration_seconds",
            "The Binding request, from sending to answer",
            buckets=_exponential(0.001, 2, 14),
            registry=self.registry,
        )
        self.decide_duration = Histogram(
            "cotenant_scheduler_decide_duration_seconds",
            "One batch of judgements",
            buckets=_exponential(0.0001, 2, 16),
            registry=self.registry,
        )
        self.leading = Gauge("cotenant_scheduler_leading", "1 while this replica binds", registry=self.registry)
        self.loop_errors = Counter(
            "cotenant_scheduler_unforeseen_errors", "Errors that reached an outer loop", registry=self.registry
        )

    def read(
        self,
        kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
        name: str,
        help_: str,
        labels: tuple[str, ...],
        samples: Callable[[], Iterable[Sample]],
    ) -> None:
        """Add a metric whose values are asked for at each scrape."""
        self.registry.register(Read(kind, name, help_, labels, samples))

    def page(self) -> bytes:
        """The text exposition."""
        return bytes(generate_latest(self.registry))
