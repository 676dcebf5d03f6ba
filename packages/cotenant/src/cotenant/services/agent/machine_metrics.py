"""What the agent measures of the machine and of its pods, as metrics.

A ratio of waiting may exceed 1, since several tasks of a group wait at once. Series end when their pod does; `pod` and
`group` are labels, so their number is that of the pods on a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import Metric

from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse
from cotenant.services.agent.metric_families import Sample, cores, counter, gauge, ratio, seconds

_POD = ("pod", "group", "qos", "tenant")


def of_machine(state: NodeState, network: Callable[[NodePod], tuple[int, int] | None]) -> Iterator[Metric]:
    """The machine, its pods, and all best-effort work together."""
    yield from _host(state.host)
    yield from _pods(state.pods)
    yield from _classes(state.pods)
    yield from _networks(state.pods, network)
    if state.best_effort is not None:
        yield gauge(
            "cotenant_best_effort_cpu_used_cores",
            "CPU of the best-effort group",
            (),
            [((), cores(state.best_effort.cpu_m))],
        )
        yield gauge(
            "cotenant_best_effort_memory_bytes",
            "Working set of the best-effort group",
            (),
            [((), state.best_effort.working_set_bytes)],
        )
        yield gauge(
            "cotenant_best_effort_sent_bytes_per_second",
            "Sent in best effort's class of the uplink",
            (),
            [((), state.best_effort.network_sent_bps)],
        )


def _classes(pods: Sequence[PodUse]) -> Iterator[Metric]:
    cpu: dict[str, int] = {}
    memory: dict[str, int] = {}
    for entry in pods:
        of = entry.pod.priority_class.value or "none"
        used = entry.use.working_set_bytes if entry.use.working_set_bytes is not None else entry.use.memory_bytes
        cpu[of] = cpu.get(of, 0) + (entry.use.cpu_m or 0)
        memory[of] = memory.get(of, 0) + (used or 0)
    yield gauge(
        "cotenant_class_cpu_used_cores",
        "CPU of all pods of a priority class",
        ("class",),
        [((of,), cores(used)) for of, used in cpu.items()],
    )
    yield gauge(
        "cotenant_class_memory_working_set_bytes",
        "Working sets of all pods of a priority class",
        ("class",),
        [((of,), used) for of, used in memory.items()],
    )


def _host(host: HostUse) -> Iterator[Metric]:
    yield gauge("cotenant_node_cpu_capacity_cores", "CPUs online", (), [((), host.cpus)])
    yield gauge("cotenant_node_cpu_used_cores", "CPU in use", (), [((), cores(host.cpu_m))])
    yield gauge("cotenant_node_memory_bytes", "Memory", (), [((), host.memory_total_bytes)])
    yield gauge("cotenant_node_memory_used_bytes", "Memory less what is available", (), [((), host.memory_used_bytes)])
    yield gauge(
        "cotenant_node_stall_ratio",
        "Time in which some tasks waited (PSI some)",
        ("resource",),
        [
            (("cpu",), ratio(host.cpu_stall_ppm)),
            (("memory",), ratio(host.memory_stall_ppm)),
            (("io",), ratio(host.io_stall_ppm)),
        ],
    )
    yield gauge(
        "cotenant_node_steal_ratio", "Time that the hypervisor gave to others", (), [((), ratio(host.steal_ppm))]
    )


def _pods(pods: tuple[PodUse, ...]) -> Iterator[Metric]:
    labels = [(entry, _labels(entry)) for entry in pods]

    def of_use(name: str, help_: str, read: str, scale: float) -> Metric:
        rows: list[Sample] = []
        for entry, words in labels:
            value = getattr(entry.use, read)
            rows.append((words, None if value is None else value * scale))
        return gauge(name, help_, _POD, rows)

    for name, help_, read, scale in _USES:
        yield of_use(name, help_, read, scale)
    stalls: list[Sample] = []
    for entry, words in labels:
        for resource, value in _stalls(entry.use):
            stalls.append(((*words, resource), value))
    yield gauge(
        "cotenant_pod_stall_ratio", "Time in which some of a pod's tasks waited (PSI some)", (*_POD, "resource"), stalls
    )
    yield gauge(
        "cotenant_pod_objective_seconds",
        "Latency objective of a service, p99",
        _POD,
        [(words, seconds(entry.pod.objective_p99_us)) for entry, words in labels],
    )
    healthy = [(entry.health, words) for entry, words in labels if entry.health is not None]
    yield gauge(
        "cotenant_pod_latency_p99_seconds",
        "p99 that a service last reported",
        _POD,
        [(words, health.p99_us / 1e6) for health, words in healthy],
    )
    yield gauge(
        "cotenant_pod_requests_per_second",
        "Requests that a service last reported",
        _POD,
        [
            (words, health.requests / (health.window_us / 1e6) if health.window_us else None)
            for health, words in healthy
        ],
    )
    yield gauge(
        "cotenant_pod_over_objective_ratio",
        "Share of a service's requests beyond its objective",
        _POD,
        [(words, health.over_objective / health.requests if health.requests else None) for health, words in healthy],
    )


def _networks(pods: tuple[PodUse, ...], network: Callable[[NodePod], tuple[int, int] | None]) -> Iterator[Metric]:
    received: list[Sample] = []
    sent: list[Sample] = []
    for entry in pods:
        moved = network(entry.pod)
        if moved is not None:
            received.append((_labels(entry), moved[0]))
            sent.append((_labels(entry), moved[1]))
    yield counter("cotenant_pod_network_received_bytes", "Received in a pod's own network", _POD, received)
    yield counter("cotenant_pod_network_sent_bytes", "Sent in a pod's own network", _POD, sent)


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
        ("cpu", ratio(use.cpu_stall_ppm)),
        ("memory", ratio(use.memory_stall_ppm)),
        ("io", ratio(use.io_stall_ppm)),
    )


def _labels(entry: PodUse) -> tuple[str, ...]:
    pod = entry.pod
    return pod.key, pod.group, pod.qos.value, pod.tenant
