"""The agent's metrics, for Prometheus.

A node has many groups and each has many figures, and keeping a time series object for each would cost more memory than
the agent itself. Nearly everything is read from the engine and the loop at a scrape, so nothing is kept between
scrapes; a figure that is not known is left out, never 0. Units are Prometheus' own: seconds, bytes, cores, and ratios
where 1 is the whole.
What is measured of the machine is in machine_metrics.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from prometheus_client import Histogram
from prometheus_client.core import Metric

from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.engine.node.agent import Agent
from cotenant.engine.node.doctor.checks import DoctorFinding
from cotenant.model.machine.counters import Gap
from cotenant.services.agent.actions.class_placement import ClassPlacement
from cotenant.services.agent.components import AgentComponents
from cotenant.services.agent.discovery.sources import DiscoverySources
from cotenant.services.agent.engine_metrics import of_engine
from cotenant.services.agent.gpu_metrics import of_gpus
from cotenant.services.agent.loop.actor import Actor
from cotenant.services.agent.loop.early_samples import EarlySamples
from cotenant.services.agent.loop.ticker import Ticker
from cotenant.services.agent.machine_metrics import of_machine
from cotenant.services.agent.metric_families import cores, counter, gauge
from cotenant.services.agent.replica_signals import ReplicaSignalFeed
from cotenant.services.agent.reports.incidents import IncidentReporter
from cotenant.services.agent.reports.outbox import ReportOutbox
from cotenant.services.agent.reports.writers import ObjectWriters
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.reporting.latency import LatencyOutcome as LatencyOutcome

if TYPE_CHECKING:  # an HTTP client comes with it
    from cotenant.services.agent.trace_link import TraceLink

# A tick's parts take fractions of a millisecond to a second.
_TICK_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_REACTION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)


class ScrapedAgent(Protocol):
    """The state read at a scrape."""

    config: AgentConfig
    node: str
    version: str
    mode: str
    agent: Agent
    actor: Actor
    ticker: Ticker
    sources: DiscoverySources
    conflicts: tuple[DoctorFinding, ...]
    deliveries: list[ReportOutbox]
    incidents: IncidentReporter | None
    components: AgentComponents
    signals: ReplicaSignalFeed
    latency_counts: dict[LatencyOutcome, int]
    reloads: dict[str, int]
    early: EarlySamples
    writers: ObjectWriters
    placing: ClassPlacement

    def gaps(self) -> tuple[Gap, ...]:
        """What cannot be measured or done here."""
        ...

    def monotonic(self) -> float:
        """The monotonic clock, seconds."""
        ...

    def remark(self) -> str:
        """What a person should know who asks whether it is ready, "" where there is nothing."""
        ...


class AgentMetrics:
    """All metrics of one agent."""

    def __init__(self, view: ScrapedAgent) -> None:
        self.registry = MetricsRegistry()
        self._ticks = Histogram(
            "cotenant_agent_tick_seconds",
            "Time of one tick: read, judge, and turn (judge with the keeper's answers)",
            ("part",),
            buckets=_TICK_BUCKETS,
            registry=self.registry,
        )
        self._reactions = Histogram(
            "cotenant_agent_reaction_seconds",
            "From a pressure trigger to the answer of the keeper, where knobs were written for it",
            buckets=_REACTION_BUCKETS,
            registry=self.registry,
        )
        self.registry.register(_Collector(view))

    def tick(self, part: str, seconds: float) -> None:
        """Observe the duration of a part of a tick."""
        self._ticks.labels(part).observe(seconds)

    def reacted(self, seconds: float) -> None:
        """Observe the time from a trigger to a changed knob."""
        self._reactions.observe(seconds)

    def page(self) -> bytes:
        """The text exposition."""
        return self.registry.page()


class _Collector:
    def __init__(self, view: ScrapedAgent) -> None:
        self._view = view

    def describe(self) -> Iterable[Metric]:
        """Empty: names are known when there are values."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Collect all metrics."""
        view = self._view
        yield from _process(view)
        yield from _deliveries(view)
        if view.incidents is not None:
            rows = [((outcome,), float(count)) for outcome, count in view.incidents.counts.items()]
            text = "Verdicts on incidents reported to the credit process, by outcome"
            yield counter("cotenant_agent_incident_reports", text, ("outcome",), rows)
        if view.components.traces is not None:
            yield from _signals(view, view.components.traces)
        yield from of_engine(view.agent)
        state = view.agent.state()
        if state is None:
            return
        yield from of_machine(state, view.components.network)


def _process(view: ScrapedAgent) -> Iterator[Metric]:
    ticker, actor = view.ticker, view.actor
    yield gauge(
        "cotenant_agent_info",
        "What runs here",
        ("node", "version", "mode"),
        [((view.node, view.version, view.mode), 1)],
    )
    yield gauge(
        "cotenant_agent_conflicts",
        "Conflicts with other writers that were found at the start; mode act then waits for leave",
        (),
        [((), len(view.conflicts))],
    )
    yield counter("cotenant_agent_ticks", "Ticks begun", (), [((), ticker.ticks)])
    yield counter("cotenant_agent_tick_failures", "Ticks that failed", (), [((), ticker.failures)])
    yield counter("cotenant_agent_missed_ticks", "Ticks that were due while one ran long", (), [((), ticker.missed)])
    yield counter("cotenant_agent_unread_knobs", "Knobs that could not be read", (), [((), ticker.unread_knobs)])
    yield gauge(
        "cotenant_agent_keeper_up",
        "Whether the keeper answered last",
        (),
        [((), None if actor.keeper_up is None else float(actor.keeper_up))],
    )
    yield counter(
        "cotenant_agent_keeper_failures", "Conversations with the keeper that failed", (), [((), actor.keeper_failures)]
    )
    yield counter(
        "cotenant_agent_discovery_failures",
        "Questions to a source of pods that failed",
        ("source",),
        [((source.name,), source.failures) for source in view.sources.sources],
    )
    yield gauge(
        "cotenant_agent_discovery_age_seconds",
        "Since a source of pods last answered",
        ("source",),
        [
            ((source.name,), None if source.answered_s is None else view.monotonic() - source.answered_s)
            for source in view.sources.sources
        ],
    )
    yield counter(
        "cotenant_agent_latency_reports",
        "Latency reports of services, by outcome",
        ("outcome",),
        [((outcome.value,), count) for outcome, count in view.latency_counts.items()],
    )
    yield counter(
        "cotenant_agent_reloads",
        "Configurations read again, by outcome",
        ("outcome",),
        [((outcome,), count) for outcome, count in view.reloads.items()],
    )
    yield counter(
        "cotenant_agent_pressure_events",
        "Pressure triggers that fired",
        ("resource",),
        [((resource,), count) for resource, count in view.early.pressure_events.items()],
    )
    yield from _objects(view)
    yield from _hardware(view)
    yield counter(
        "cotenant_agent_placing_failures",
        "Rounds that could not put programs into their classes",
        ("what",),
        [((what,), count) for what, count in view.placing.failures.items()],
    )


def _objects(view: ScrapedAgent) -> Iterator[Metric]:
    """What is written of the node's objects."""
    writer = view.writers.node_metric
    if writer is not None:
        yield counter(
            "cotenant_agent_node_metrics",
            "Writes of this node's NodeMetric, by outcome",
            ("outcome",),
            [(("written",), writer.written), (("failed",), writer.failures)],
        )
    yield from _prediction(view)
    topology = view.writers.node_topology
    if topology is not None:
        yield counter(
            "cotenant_agent_node_topologies",
            "Writes of this node's NodeResourceTopology, by outcome",
            ("outcome",),
            [(("written",), topology.written), (("failed",), topology.failures)],
        )
    devices = view.writers.devices
    if devices is not None:
        yield counter(
            "cotenant_agent_device_objects",
            "Writes of this node's Device object, by outcome",
            ("outcome",),
            [(("written",), devices.written), (("failed",), devices.failures)],
        )


def _hardware(view: ScrapedAgent) -> Iterator[Metric]:
    """What the machine lacks, its accelerators and its cache."""
    last = view.ticker.last
    if last is not None:
        yield gauge(
            "cotenant_node_gap_info",
            "What this machine cannot measure or do, and what is required",
            ("what", "needs"),
            [((gap.what, gap.needs), 1) for gap in view.gaps()],
        )
        yield from of_gpus(last.gpus, view.agent.idle_cards())
    uses = view.components.cache_use()
    yield gauge(
        "cotenant_cache_occupancy_bytes",
        "Last-level cache that a class of resctrl holds",
        ("class",),
        [((use.group or "root",), use.occupancy_bytes) for use in uses],
    )
    yield counter(
        "cotenant_cache_memory_bytes",
        "Moved to and from memory by a class of resctrl",
        ("class",),
        [((use.group or "root",), use.total_bytes) for use in uses],
    )


def _prediction(view: ScrapedAgent) -> Iterator[Metric]:
    found = view.writers.prediction.reclaimable() if view.writers.prediction is not None else None
    if found is None:
        return
    sides = (("reported", found.value), ("pods", found.by_pods), ("class", found.by_class))
    yield gauge(
        "cotenant_node_prod_reclaimable_cpu_cores",
        "CPU that prod pods request and are predicted not to use: by pods, by class, as reported",
        ("by",),
        [((by,), cores(use.cpu_m)) for by, use in sides],
    )
    yield gauge(
        "cotenant_node_prod_reclaimable_memory_bytes",
        "Memory that prod pods request and are predicted not to use: by pods, by class, as reported",
        ("by",),
        [((by,), use.memory_bytes) for by, use in sides],
    )
    yield gauge(
        "cotenant_agent_predicted_pods",
        "Prod pods that have been observed for the cold start, and that have not",
        ("state",),
        [(("warm",), found.warm), (("cold",), found.cold)],
    )


def _deliveries(view: ScrapedAgent) -> Iterator[Metric]:
    rows = [
        ((delivery.url, outcome), float(count))
        for delivery in view.deliveries
        for outcome, count in (
            ("delivered", delivery.delivered),
            ("refused", delivery.refused),
            ("failed", delivery.failed),
            ("replaced", delivery.replaced),
        )
    ]
    yield counter("cotenant_agent_reports", "Reports to a receiver, by outcome", ("url", "outcome"), rows)
    yield gauge(
        "cotenant_agent_report_age_seconds",
        "Since a report was last delivered",
        ("url",),
        [
            ((delivery.url,), None if delivery.delivered_s is None else view.monotonic() - delivery.delivered_s)
            for delivery in view.deliveries
        ],
    )


def _signals(view: ScrapedAgent, link: TraceLink) -> Iterator[Metric]:
    yield gauge(
        "cotenant_agent_traces_connected", "Whether the trace process sends signals", (), [((), float(link.connected))]
    )
    yield counter(
        "cotenant_agent_signals",
        "Signals of replicas, by outcome",
        ("outcome",),
        [((outcome,), float(count)) for outcome, count in view.signals.counts.items()],
    )
    yield counter(
        "cotenant_agent_traces_failures",
        "Streams of the trace process that failed or fell silent",
        (),
        [((), float(link.failures))],
    )
    yield counter(
        "cotenant_agent_objective_actions",
        "Actions reported to the trace process, by outcome",
        ("outcome",),
        [((outcome,), float(count)) for outcome, count in link.actions.items()],
    )
