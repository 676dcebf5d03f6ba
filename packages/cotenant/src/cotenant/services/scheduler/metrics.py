"""The scheduler's metrics: kube-scheduler's names where the meaning is the same, `cotenant_` for the rest.

Dashboards and alerts exist for kube-scheduler. Its names, labels and buckets; counts that the engine keeps are read
when a scrape asks for them.
Limits: `profile` is the placement profile's name; extension points are not timed one by one, because they run as one
kernel.
Source: Kubernetes documentation, "Kubernetes Metrics Reference", scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from cotenant.drivers.metrics.registry import MetricsRegistry, Sample
from cotenant.engine.cluster import Cluster
from cotenant.services.reporting.endpoint import ReportOutcome
from cotenant.services.scheduler.shards.shard import Shard


def _exponential(first: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(first * factor**i for i in range(count))


_SHARD = "cotenant_scheduler_shard_"


class SchedulerMetrics:
    """All metrics of one scheduler process."""

    def __init__(self, profile: str, registry: MetricsRegistry | None = None) -> None:
        self.profile = profile
        self.registry = MetricsRegistry() if registry is None else registry
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
        self.extender_duration = Histogram(
            "cotenant_scheduler_extender_call_duration_seconds",
            "Calls to extenders, by what became of them: answered, ignored, failed",
            ("extender", "verb", "result"),
            buckets=_exponential(0.001, 2, 15),
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
        self.loop_errors = Counter(
            "cotenant_scheduler_unforeseen_errors", "Errors that reached an outer loop", registry=self.registry
        )

    def page(self) -> bytes:
        """The text exposition."""
        return self.registry.page()

    def read_engine(self, cluster: Cluster) -> None:
        """Add what the engine counts; its values are read at each scrape."""
        read = self.registry.read
        read(
            GaugeMetricFamily,
            "scheduler_pending_pods",
            "Pending pods, by the queue type",
            ("queue",),
            lambda: (((queue,), pods) for queue, pods in cluster.pending_pods().items()),
        )
        read(
            CounterMetricFamily,
            "scheduler_queue_incoming_pods",
            "Pods added to scheduling queues by event and queue type",
            ("event", "queue"),
            lambda: cluster.queue.incoming.items(),
        )
        read(
            GaugeMetricFamily,
            "scheduler_cache_size",
            "Nodes and pods in the scheduler's cache",
            ("type",),
            lambda: zip((("nodes",), ("pods",)), cluster.size(), strict=True),
        )
        read(
            CounterMetricFamily,
            "cotenant_scheduler_oddities",
            "What was stale, lost or failed, and how it was met",
            ("what",),
            lambda: (((what,), count) for what, count in list(cluster.counts.items())[:200]),
        )
        load = cluster.plugins.load_aware
        if load.is_on:
            read(
                GaugeMetricFamily,
                "cotenant_scheduler_node_loads",
                "Nodes by whose figures of their use count",
                ("source",),
                lambda: (((source,), nodes) for source, nodes in load.sources().items()),
            )
            read(
                CounterMetricFamily,
                "cotenant_scheduler_load_oddities",
                "What of nodes' own load settings cannot be read",
                ("what",),
                lambda: (((what,), count) for what, count in load.counts.items()),
            )

        use = cluster.plugins.predicted_use
        if use.is_on:
            read(
                GaugeMetricFamily,
                "cotenant_scheduler_predicted_use_nodes",
                "Nodes by what the predicted use of their pods is made from; none before a node offers lent resources",
                ("source",),
                lambda: (((source,), nodes) for source, nodes in use.sources().items()),
            )
            read(
                CounterMetricFamily,
                "cotenant_scheduler_predicted_use_oddities",
                "What of measured use and nodes' sizes is refused",
                ("what",),
                lambda: (((what,), count) for what, count in use.counts.items()),
            )

    def read_spans(self, samples: Callable[[], Iterable[Sample]]) -> None:
        """Add the spans by outcome, where they are on."""
        self.registry.read(
            CounterMetricFamily,
            "cotenant_scheduler_spans",
            "Spans of scheduling attempts, by outcome: exported, refused by the receiver, or dropped",
            ("outcome",),
            samples,
        )

    def read_shard(self, shard: Shard) -> None:
        """Add what one shard of several has; its values are read at each scrape."""
        read = self.registry.read
        for name, words in (
            ("cotenant_scheduler_shard_slot", "The slot of this shard, -1 where it is none"),
            ("cotenant_scheduler_shard_epoch", "The ring by which nodes and pods are divided"),
            ("cotenant_scheduler_shard_nodes", "Nodes on which this shard places"),
            ("cotenant_scheduler_shard_borrowed", "Of these, nodes of other shards"),
            ("cotenant_scheduler_shard_lent", "Own nodes on which another shard places"),
            ("cotenant_scheduler_shard_others", "Pods that wait in other shards"),
            ("cotenant_scheduler_shard_quotas_borrowed", "Quotas of other shards of which this shard has room"),
            ("cotenant_scheduler_shard_quotas_lent", "Quotas of which another shard has room"),
        ):
            read(
                GaugeMetricFamily,
                name,
                words,
                (),
                lambda name=name: (((), shard.samples()[name.removeprefix(_SHARD)]),),  # type: ignore[misc]
            )
        for name, words in (
            ("cotenant_scheduler_shard_rings", "Changes of the ring that this shard saw"),
            ("cotenant_scheduler_shard_loans", "Nodes that this shard borrowed"),
            ("cotenant_scheduler_shard_quota_grants", "Amounts of other shards' quotas that this shard was granted"),
            (
                "cotenant_scheduler_shard_fenced_pods",
                "Pending pods that were changed, lest a bind of a lost shard counts",
            ),
            ("cotenant_scheduler_shard_table_conflicts", "Writes of the table of shards that met a newer version"),
        ):
            read(
                CounterMetricFamily,
                name,
                words,
                (),
                lambda name=name: (((), shard.counts()[name.removeprefix(_SHARD)]),),  # type: ignore[misc]
            )

    def read_process(
        self,
        *,
        malformed: Callable[[], Mapping[str, int]],
        reports: Mapping[ReportOutcome, int],
        events_dropped: Callable[[], int],
        binds_under_way: Callable[[], int],
        requests: Callable[[], int],
        leads: Callable[[], bool],
    ) -> None:
        """Add what the parts around the engine count; their values are read at each scrape."""
        read = self.registry.read
        read(
            GaugeMetricFamily,
            "cotenant_scheduler_leading",
            "1 while this replica binds",
            (),
            lambda: (((), float(leads())),),
        )
        read(
            CounterMetricFamily,
            "cotenant_scheduler_malformed_objects",
            "Objects that could not be read",
            ("kind",),
            lambda: (((kind,), count) for kind, count in malformed().items()),
        )
        read(
            CounterMetricFamily,
            "cotenant_scheduler_reports",
            "Reports of nodes, by outcome",
            ("outcome",),
            lambda: (((outcome.value,), count) for outcome, count in reports.items()),
        )
        read(
            CounterMetricFamily,
            "cotenant_scheduler_events_dropped",
            "Events that were not written because too many waited",
            (),
            lambda: (((), events_dropped()),),
        )
        read(
            GaugeMetricFamily,
            "cotenant_scheduler_binds_under_way",
            "Binds decided and not answered",
            (),
            lambda: (((), binds_under_way()),),
        )
        read(
            CounterMetricFamily,
            "cotenant_scheduler_requests",
            "Requests to the API server",
            (),
            lambda: (((), requests()),),
        )
