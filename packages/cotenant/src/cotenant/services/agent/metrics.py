"""The agent's metrics, for Prometheus.

A node has many groups and each has many figures, and keeping a time series object for each would cost more memory than
the agent itself. Nearly everything is read from the engine and the loop at a scrape, so nothing is kept between
scrapes; a figure that is not known is left out, never 0. Units are Prometheus' own: seconds, bytes, cores, and ratios
where 1 is the whole.
Limits: a ratio of waiting may exceed 1, since several tasks of a group wait at once. Series end when their pod does;
`pod` and `group` are labels, so their number is that of the pods on a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from math import inf
from typing import TYPE_CHECKING, Protocol

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.drivers.resctrl.monitoring import CacheUse
from cotenant.engine.node.agent import Agent
from cotenant.engine.node.decision_log import HeldKnob
from cotenant.engine.node.doctor.checks import Finding
from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.recovery.policy import RecoveryMemory
from cotenant.engine.node.recovery.stages import ENDED, Rung, Stage
from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import CotenantError
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import UNLIMITED, Knob
from cotenant.model.machine.knob_values import parse_cpu_max
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import PPM, GroupUse, HostUse, PodUse
from cotenant.services.agent.actions.class_placement import ClassPlacement
from cotenant.services.agent.components import Components
from cotenant.services.agent.discovery.sources import Sources
from cotenant.services.agent.loop.actor import Actor
from cotenant.services.agent.loop.ticker import Ticker
from cotenant.services.agent.reports.incidents import IncidentReporter
from cotenant.services.agent.reports.outbox import Outbox
from cotenant.services.agent.reports.writers import ObjectWriters
from cotenant.services.reporting.latency import LatencyOutcome as LatencyOutcome

if TYPE_CHECKING:  # an HTTP client comes with it
    from cotenant.services.agent.trace_link import TraceLink

# A tick's parts take fractions of a millisecond to a second.
_TICK_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_REACTION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
_POD = ("pod", "group", "qos", "tenant")

Sample = tuple[tuple[str, ...], float | None]


class View(Protocol):
    """The state read at a scrape."""

    node: str
    version: str
    mode: str
    agent: Agent
    actor: Actor
    ticker: Ticker
    sources: Sources
    conflicts: tuple[Finding, ...]
    deliveries: list[Outbox]
    incidents: IncidentReporter | None
    components: Components
    signal_counts: dict[str, int]
    latency_counts: dict[LatencyOutcome, int]
    reloads: dict[str, int]
    pressure_events: dict[str, int]
    writers: ObjectWriters
    placing: ClassPlacement

    def network(self, pod: NodePod) -> tuple[int, int] | None:
        """Bytes received and sent by a pod; None where it has no network of its own."""
        ...

    def cache_use(self) -> tuple[CacheUse, ...]:
        """Occupancy and traffic of the cache classes."""
        ...

    def gaps(self) -> tuple[Gap, ...]:
        """What cannot be measured or done here."""
        ...

    def monotonic(self) -> float:
        """The monotonic clock, seconds."""
        ...


class AgentMetrics:
    """All metrics of one agent."""

    def __init__(self, view: View) -> None:
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
    def __init__(self, view: View) -> None:
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
            yield _counter("cotenant_agent_incident_reports", text, ("outcome",), rows)
        if view.components.traces is not None:
            yield from _signals(view, view.components.traces)
        yield from _engine(view.agent)
        state = view.agent.state()
        if state is None:
            return
        yield from _host(state.host)
        yield from _pods(state.pods)
        yield from _classes(state.pods)
        yield from _networks(state.pods, view.network)
        if state.best_effort is not None:
            yield _gauge("cotenant_best_effort_cpu_used_cores", "CPU of the best-effort group",
                         (), [((), _milli(state.best_effort.cpu_m))])  # fmt: skip
            yield _gauge("cotenant_best_effort_memory_bytes", "Working set of the best-effort group",
                         (), [((), state.best_effort.working_set_bytes)])  # fmt: skip
            yield _gauge("cotenant_best_effort_sent_bytes_per_second", "Sent in best effort's class of the uplink",
                         (), [((), state.best_effort.network_sent_bps)])  # fmt: skip


def _process(view: View) -> Iterator[Metric]:
    ticker, actor = view.ticker, view.actor
    yield _gauge("cotenant_agent_info", "What runs here", ("node", "version", "mode"),
                 [((view.node, view.version, view.mode), 1)])  # fmt: skip
    yield _gauge("cotenant_agent_conflicts", "Conflicts with other writers that were found at the start; mode act "
        "then waits for leave", (),
                 [((), len(view.conflicts))])  # fmt: skip
    yield _counter("cotenant_agent_ticks", "Ticks begun", (), [((), ticker.ticks)])
    yield _counter("cotenant_agent_tick_failures", "Ticks that failed", (), [((), ticker.failures)])
    yield _counter("cotenant_agent_missed_ticks", "Ticks that were due while one ran long", (), [((), ticker.missed)])
    yield _counter("cotenant_agent_unread_knobs", "Knobs that could not be read", (), [((), ticker.unread_knobs)])
    yield _gauge("cotenant_agent_keeper_up", "Whether the keeper answered last", (),
                 [((), None if actor.keeper_up is None else float(actor.keeper_up))])  # fmt: skip
    yield _counter("cotenant_agent_keeper_failures", "Conversations with the keeper that failed", (),
                   [((), actor.keeper_failures)])  # fmt: skip
    yield _counter("cotenant_agent_discovery_failures", "Questions to a source of pods that failed", ("source",),
                   [((source.name,), source.failures) for source in view.sources.sources])  # fmt: skip
    yield _gauge("cotenant_agent_discovery_age_seconds", "Since a source of pods last answered", ("source",),
                 [((source.name,), None if source.answered_s is None else view.monotonic() - source.answered_s)
                  for source in view.sources.sources])  # fmt: skip
    yield _counter("cotenant_agent_latency_reports", "Latency reports of services, by outcome", ("outcome",),
                   [((outcome.value,), count) for outcome, count in view.latency_counts.items()])  # fmt: skip
    yield _counter("cotenant_agent_reloads", "Configurations read again, by outcome", ("outcome",),
                   [((outcome,), count) for outcome, count in view.reloads.items()])  # fmt: skip
    yield _counter("cotenant_agent_pressure_events", "Pressure triggers that fired", ("resource",),
                   [((resource,), count) for resource, count in view.pressure_events.items()])  # fmt: skip
    writer = view.writers.node_metric
    if writer is not None:
        yield _counter("cotenant_agent_node_metrics", "Writes of this node's NodeMetric, by outcome", ("outcome",),
                       [(("written",), writer.written), (("failed",), writer.failures)])  # fmt: skip
    yield from _prediction(view)
    topology = view.writers.node_topology
    if topology is not None:
        yield _counter("cotenant_agent_node_topologies", "Writes of this node's NodeResourceTopology, by outcome",
            ("outcome",),
                       [(("written",), topology.written), (("failed",), topology.failures)])  # fmt: skip
    devices = view.writers.devices
    if devices is not None:
        yield _counter("cotenant_agent_device_objects", "Writes of this node's Device object, by outcome", ("outcome",),
                       [(("written",), devices.written), (("failed",), devices.failures)])  # fmt: skip
    if ticker.last is not None:
        yield _gauge("cotenant_node_gap_info", "What this machine cannot measure or do, and what is required",
            ("what", "needs"),
                     [((gap.what, gap.needs), 1) for gap in view.gaps()])  # fmt: skip
        yield _gauge("cotenant_gpu_utilisation_ratio", "Use of an accelerator", ("gpu",),
                     [((gpu.uuid,), gpu.utilisation_percent / 100) for gpu in ticker.last.gpus])  # fmt: skip
        yield _gauge("cotenant_gpu_memory_used_bytes", "Memory of an accelerator in use", ("gpu",),
                     [((gpu.uuid,), gpu.memory_used_bytes) for gpu in ticker.last.gpus])  # fmt: skip
        yield _gauge("cotenant_gpu_memory_total_bytes", "Memory of an accelerator", ("gpu",),
                     [((gpu.uuid,), gpu.memory_total_bytes) for gpu in ticker.last.gpus])  # fmt: skip
        yield _gauge("cotenant_gpu_healthy", "1 where an accelerator is well", ("gpu",),
                     [((gpu.uuid,), float(gpu.healthy)) for gpu in ticker.last.gpus])  # fmt: skip
    uses = view.cache_use()
    yield _gauge("cotenant_cache_occupancy_bytes", "Last-level cache that a class of resctrl holds", ("class",),
                 [((use.group or "root",), use.occupancy_bytes) for use in uses])  # fmt: skip
    yield _counter("cotenant_cache_memory_bytes", "Moved to and from memory by a class of resctrl", ("class",),
                   [((use.group or "root",), use.total_bytes) for use in uses])  # fmt: skip
    yield _counter("cotenant_agent_placing_failures", "Rounds that could not put programs into their classes",
        ("what",),
                   [((what,), count) for what, count in view.placing.failures.items()])  # fmt: skip


def _prediction(view: View) -> Iterator[Metric]:
    found = view.writers.prediction.reclaimable() if view.writers.prediction is not None else None
    if found is None:
        return
    sides = (("reported", found.value), ("pods", found.by_pods), ("class", found.by_class))
    yield _gauge("cotenant_node_prod_reclaimable_cpu_cores", "CPU that prod pods request and are predicted not to "
        "use: by pods, by class, as reported", ("by",),
                 [((by,), _milli(use.cpu_m)) for by, use in sides])  # fmt: skip
    yield _gauge("cotenant_node_prod_reclaimable_memory_bytes", "Memory that prod pods request and are predicted not "
        "to use: by pods, by class, as reported", ("by",),
                 [((by,), use.memory_bytes) for by, use in sides])  # fmt: skip
    yield _gauge("cotenant_agent_predicted_pods", "Prod pods that have been observed for the cold start, and that "
        "have not", ("state",),
                 [(("warm",), found.warm), (("cold",), found.cold)])  # fmt: skip


def _deliveries(view: View) -> Iterator[Metric]:
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
    yield _counter("cotenant_agent_reports", "Reports to a receiver, by outcome", ("url", "outcome"), rows)
    yield _gauge("cotenant_agent_report_age_seconds", "Since a report was last delivered", ("url",),
                 [((delivery.url,), None if delivery.delivered_s is None else view.monotonic() - delivery.delivered_s)
                  for delivery in view.deliveries])  # fmt: skip


def _signals(view: View, link: TraceLink) -> Iterator[Metric]:
    yield _gauge(
        "cotenant_agent_traces_connected", "Whether the trace process sends signals", (), [((), float(link.connected))]
    )
    yield _counter("cotenant_agent_signals", "Signals of replicas, by outcome", ("outcome",),
                   [((outcome,), float(count)) for outcome, count in view.signal_counts.items()])  # fmt: skip
    yield _counter(
        "cotenant_agent_traces_failures",
        "Streams of the trace process that failed or fell silent",
        (),
        [((), float(link.failures))],
    )
    yield _counter("cotenant_agent_objective_actions", "Actions reported to the trace process, by outcome",
        ("outcome",),
                   [((outcome,), float(count)) for outcome, count in link.actions.items()])  # fmt: skip


def _recovery(memory: RecoveryMemory) -> Iterator[Metric]:
    stages = Counter(incident.stage.value for incident in memory.incidents)
    yield _gauge("cotenant_agent_incidents", "Open incidents of services by stage", ("stage",),
                 [((stage.value,), stages[stage.value]) for stage in Stage if stage not in ENDED])  # fmt: skip
    yield _counter("cotenant_agent_recovery_actions", "Proven actions for services in trouble", ("rung", "outcome"),
                   [((rung.value, "helped" if helped else "no effect"), memory.proven.get((rung, helped), 0))
                    for rung in Rung for helped in (True, False)])  # fmt: skip


def _engine(agent: Agent) -> Iterator[Metric]:
    recovery = agent.recovery()
    if recovery is not None:
        yield from _recovery(recovery)
    counts = agent.counts()
    yield _counter("cotenant_agent_events", "What happened, as the engine counts it", ("what",),
                   [((field.name,), getattr(counts, field.name)) for field in fields(AgentCounts)])  # fmt: skip
    holds = agent.held_knobs()
    by_state: dict[tuple[str, str], int] = {}
    for hold in holds:
        key = (hold.state, hold.policy)
        by_state[key] = by_state.get(key, 0) + 1
    yield _gauge("cotenant_agent_holds", "Knobs by state and by the policy that wants them", ("state", "policy"),
                 list(by_state.items()))  # fmt: skip
    for knob, name, help_ in _KNOBS:
        yield _gauge(name, help_, ("group", "policy", "state"),
                     [((hold.target.group, hold.policy, hold.state), _amount(hold))
                      for hold in holds if hold.target.knob is knob])  # fmt: skip


# Held knobs whose value is an amount.
_KNOBS = (
    (Knob.CPU_MAX, "cotenant_knob_cpu_max_cores", "CPU that a held quota allows; +Inf: no limit"),
    (Knob.CPUSET_CPUS, "cotenant_knob_cpuset_cpus", "CPUs of a held set"),
    (Knob.CPU_IDLE, "cotenant_knob_cpu_idle", "1 where a group is held idle"),
    (Knob.CPU_WEIGHT, "cotenant_knob_cpu_weight", "A held weight, 1 to 10000"),
    (Knob.MEMORY_HIGH, "cotenant_knob_memory_high_bytes", "A held memory.high; +Inf: no limit"),
    (Knob.MEMORY_MAX, "cotenant_knob_memory_max_bytes", "A held memory.max; +Inf: no limit"),
)


def _amount(hold: HeldKnob) -> float | None:
    try:
        if hold.target.knob is Knob.CPU_MAX:
            limit = parse_cpu_max(hold.value)
            return inf if limit.quota_us is None else limit.quota_us / limit.period_us
        if hold.target.knob is Knob.CPUSET_CPUS:
            return float(len(parse_cpus(hold.value)))
        return inf if hold.value == UNLIMITED else float(hold.value)
    except (ValueError, CotenantError):
        return None


def _classes(pods: Sequence[PodUse]) -> Iterator[Metric]:
    cpu: dict[str, int] = {}
    memory: dict[str, int] = {}
    for entry in pods:
        of = entry.pod.priority_class.value or "none"
        used = entry.use.working_set_bytes if entry.use.working_set_bytes is not None else entry.use.memory_bytes
        cpu[of] = cpu.get(of, 0) + (entry.use.cpu_m or 0)
        memory[of] = memory.get(of, 0) + (used or 0)
    yield _gauge("cotenant_class_cpu_used_cores", "CPU of all pods of a priority class", ("class",),
                 [((of,), _milli(used)) for of, used in cpu.items()])  # fmt: skip
    yield _gauge("cotenant_class_memory_working_set_bytes", "Working sets of all pods of a priority class", ("class",),
                 [((of,), used) for of, used in memory.items()])  # fmt: skip


def _host(host: HostUse) -> Iterator[Metric]:
    yield _gauge("cotenant_node_cpu_capacity_cores", "CPUs online", (), [((), host.cpus)])
    yield _gauge("cotenant_node_cpu_used_cores", "CPU in use", (), [((), _milli(host.cpu_m))])
    yield _gauge("cotenant_node_memory_bytes", "Memory", (), [((), host.memory_total_bytes)])
    yield _gauge("cotenant_node_memory_used_bytes", "Memory less what is available", (),
                 [((), host.memory_used_bytes)])  # fmt: skip
    yield _gauge("cotenant_node_stall_ratio", "Time in which some tasks waited (PSI some)", ("resource",),
                 [(("cpu",), _ppm(host.cpu_stall_ppm)), (("memory",), _ppm(host.memory_stall_ppm)),
                  (("io",), _ppm(host.io_stall_ppm))])  # fmt: skip
    yield _gauge("cotenant_node_steal_ratio", "Time that the hypervisor gave to others", (),
                 [((), _ppm(host.steal_ppm))])  # fmt: skip


def _pods(pods: tuple[PodUse, ...]) -> Iterator[Metric]:
    labels = [(entry, _labels(entry)) for entry in pods]

    def of_use(name: str, help_: str, read: str, scale: float) -> Metric:
        rows: list[Sample] = []
        for entry, words in labels:
            value = getattr(entry.use, read)
            rows.append((words, None if value is None else value * scale))
        return _gauge(name, help_, _POD, rows)

    for name, help_, read, scale in _USES:
        yield of_use(name, help_, read, scale)
    stalls: list[Sample] = []
    for entry, words in labels:
        for resource, value in _stalls(entry.use):
            stalls.append(((*words, resource), value))
    yield _gauge("cotenant_pod_stall_ratio", "Time in which some of a pod's tasks waited (PSI some)",
                 (*_POD, "resource"), stalls)  # fmt: skip
    yield _gauge("cotenant_pod_objective_seconds", "Latency objective of a service, p99", _POD,
                 [(words, _us(entry.pod.objective_p99_us)) for entry, words in labels])  # fmt: skip
    healthy = [(entry.health, words) for entry, words in labels if entry.health is not None]
    yield _gauge("cotenant_pod_latency_p99_seconds", "p99 that a service last reported", _POD,
                 [(words, health.p99_us / 1e6) for health, words in healthy])  # fmt: skip
    yield _gauge("cotenant_pod_requests_per_second", "Requests that a service last reported", _POD,
                 [(words, health.requests / (health.window_us / 1e6) if health.window_us else None)
                  for health, words in healthy])  # fmt: skip
    yield _gauge("cotenant_pod_over_objective_ratio", "Share of a service's requests beyond its objective", _POD,
                 [(words, health.over_objective / health.requests if health.requests else None)
                  for health, words in healthy])  # fmt: skip


def _networks(pods: tuple[PodUse, ...], network: Callable[[NodePod], tuple[int, int] | None]) -> Iterator[Metric]:
    received: list[Sample] = []
    sent: list[Sample] = []
    for entry in pods:
        moved = network(entry.pod)
        if moved is not None:
            received.append((_labels(entry), moved[0]))
            sent.append((_labels(entry), moved[1]))
    yield _counter("cotenant_pod_network_received_bytes", "Received in a pod's own network", _POD, received)
    yield _counter("cotenant_pod_network_sent_bytes", "Sent in a pod's own network", _POD, sent)


_USES = (
    ("cotenant_pod_cpu_used_cores", "CPU of a pod", "cpu_m", 1e-3),
    ("cotenant_pod_memory_working_set_bytes", "Memory of a pod without what can be dropped", "working_set_bytes", 1),
    ("cotenant_pod_throttled_ratio", "Share of bandwidth periods in which a pod was throttled", "throttled_ppm", 1e-6),
    ("cotenant_pod_run_delay_ratio", "Waiting for a CPU per time, summed over tasks", "run_delay_ppm", 1e-6),
    ("cotenant_pod_refaults_per_second", "Pages read again after they were reclaimed", "refaults_per_s", 1),
    ("cotenant_pod_io_read_bytes_per_second", "Read from devices", "io_read_bps", 1),
    ("cotenant_pod_io_written_bytes_per_second", "Written to devices", "io_written_bps", 1),
    ("cotenant_pod_tasks", "Processes and threads", "tasks", 1),
    ("cotenant_pod_cpi", "Cycles per instruction", "cpi_milli", 1e-3),
)


def _stalls(use: GroupUse) -> tuple[tuple[str, float | None], ...]:
    return (
        ("cpu", _ppm(use.cpu_stall_ppm)),
        ("memory", _ppm(use.memory_stall_ppm)),
        ("io", _ppm(use.io_stall_ppm)),
    )


def _labels(entry: PodUse) -> tuple[str, ...]:
    pod = entry.pod
    return pod.key, pod.group, pod.qos.value, pod.tenant


def _gauge(name: str, help_: str, labels: tuple[str, ...], samples: Iterable[Sample]) -> Metric:
    return _filled(GaugeMetricFamily(name, help_, labels=labels), samples)


def _counter(name: str, help_: str, labels: tuple[str, ...], samples: Iterable[Sample]) -> Metric:
    return _filled(CounterMetricFamily(name, help_, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Iterable[Sample]) -> Metric:
    for labels, value in samples:
        if value is not None:
            family.add_metric(labels, value)
    return family


def _ppm(value: int | None) -> float | None:
    return None if value is None else value / PPM


def _milli(value: int | None) -> float | None:
    return None if value is None else value / 1000


def _us(value: int | None) -> float | None:
    return None if value is None else value / 1e6
