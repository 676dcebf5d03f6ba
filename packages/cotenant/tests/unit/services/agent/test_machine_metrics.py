"""Each figure of a machine and of its pods in the unit of its metric; what is not known has no sample."""

from __future__ import annotations

from prometheus_client.core import Metric

from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse, ServiceHealth
from cotenant.services.agent.machine_metrics import of_machine
from cotenant.services.agent.metric_families import cores, counter, gauge, ratio, seconds

UNKNOWN_HOST = HostUse(8, None, 64_000, 16_000)
HOST = HostUse(
    8, 2500, 64_000, 16_000, cpu_stall_ppm=250_000, memory_stall_ppm=125_000, io_stall_ppm=62_500, steal_ppm=500_000
)
WEB = NodePod(
    "u1", "shop", "web", "top/web", QoSClass.LS, priority_class=PriorityClass.PROD, tenant="red", objective_p99_us=5000
)
JOB = NodePod("u2", "shop", "job", "top/job", QoSClass.BE, priority_class=PriorityClass.BATCH, tenant="blue")
OTHER = NodePod("u3", "shop", "other", "top/other", QoSClass.BE, priority_class=PriorityClass.BATCH, tenant="blue")
LABELS = {pod.name: (pod.key, pod.group, pod.qos.value, pod.tenant) for pod in (WEB, JOB, OTHER)}
USED = GroupUse(
    "top/web",
    cpu_m=1500,
    throttled_ppm=250_000,
    run_delay_ppm=2_500_000,
    cpu_stall_ppm=100_000,
    memory_stall_ppm=200_000,
    io_stall_ppm=300_000,
    memory_bytes=9000,
    working_set_bytes=7000,
    refaults_per_s=11,
    io_read_bps=12,
    io_written_bps=13,
    tasks=14,
    cpi_milli=1250,
)
PAIR = ("pod", "group", "qos", "tenant")


def metrics(host: HostUse, *pods: PodUse, best_effort: GroupUse | None = None) -> dict[str, Metric]:
    networks = {"web": (100, 200)}
    state = NodeState(0, 1_000_000, host, pods, best_effort=best_effort)
    found = list(of_machine(state, lambda pod: networks.get(pod.name)))
    assert len({metric.name for metric in found}) == len(found)
    return {metric.name: metric for metric in found}


def values(metric: Metric) -> dict[tuple[str, ...], float]:
    """By the values of the labels, in their order."""
    return {tuple(sample.labels.values()): sample.value for sample in metric.samples}


def figures(found: dict[str, Metric]) -> dict[str, dict[tuple[str, ...], float]]:
    """Those that have samples."""
    return {name: values(metric) for name, metric in found.items() if metric.samples}


def test_a_machine_without_pods() -> None:
    assert figures(metrics(HOST)) == {
        "cotenant_node_cpu_capacity_cores": {(): 8.0},
        "cotenant_node_cpu_used_cores": {(): 2.5},
        "cotenant_node_memory_bytes": {(): 64_000.0},
        "cotenant_node_memory_used_bytes": {(): 16_000.0},
        "cotenant_node_stall_ratio": {("cpu",): 0.25, ("memory",): 0.125, ("io",): 0.0625},
        "cotenant_node_steal_ratio": {(): 0.5},
    }


def test_before_the_second_sample_only_sizes_are_known() -> None:
    assert set(figures(metrics(UNKNOWN_HOST, PodUse(JOB, GroupUse("top/job"))))) == {
        "cotenant_node_cpu_capacity_cores",
        "cotenant_node_memory_bytes",
        "cotenant_node_memory_used_bytes",
        "cotenant_class_cpu_used_cores",
        "cotenant_class_memory_working_set_bytes",
    }


def test_every_figure_of_a_pod() -> None:
    health = ServiceHealth(window_us=2_000_000, requests=100, p99_us=4500, over_objective=3, age_us=0)
    found = metrics(HOST, PodUse(WEB, USED, health=health))
    of_web = {
        name: given[LABELS["web"]]
        for name, given in figures(found).items()
        if name.startswith("cotenant_pod_") and name != "cotenant_pod_stall_ratio"
    }
    assert of_web == {
        "cotenant_pod_cpu_used_cores": 1.5,
        "cotenant_pod_memory_working_set_bytes": 7000.0,
        "cotenant_pod_throttled_ratio": 0.25,
        "cotenant_pod_run_delay_ratio": 2.5,
        "cotenant_pod_refaults_per_second": 11.0,
        "cotenant_pod_io_read_bytes_per_second": 12.0,
        "cotenant_pod_io_written_bytes_per_second": 13.0,
        "cotenant_pod_tasks": 14.0,
        "cotenant_pod_cpi": 1.25,
        "cotenant_pod_objective_seconds": 0.005,
        "cotenant_pod_latency_p99_seconds": 0.0045,
        "cotenant_pod_requests_per_second": 50.0,
        "cotenant_pod_over_objective_ratio": 0.03,
        "cotenant_pod_network_received_bytes": 100.0,
        "cotenant_pod_network_sent_bytes": 200.0,
    }
    assert values(found["cotenant_pod_stall_ratio"]) == {
        (*LABELS["web"], "cpu"): 0.1,
        (*LABELS["web"], "memory"): 0.2,
        (*LABELS["web"], "io"): 0.3,
    }
    assert tuple(found["cotenant_pod_cpu_used_cores"].samples[0].labels) == PAIR
    assert tuple(found["cotenant_pod_stall_ratio"].samples[0].labels) == (*PAIR, "resource")


def test_a_service_that_reported_nothing_has_no_rate_and_no_share() -> None:
    health = ServiceHealth(window_us=0, requests=0, p99_us=0, over_objective=0, age_us=0)
    found = figures(metrics(HOST, PodUse(WEB, USED, health=health), PodUse(JOB, USED)))
    assert found["cotenant_pod_latency_p99_seconds"] == {LABELS["web"]: 0.0}  # the job reports none
    assert "cotenant_pod_requests_per_second" not in found
    assert "cotenant_pod_over_objective_ratio" not in found
    assert found["cotenant_pod_objective_seconds"] == {LABELS["web"]: 0.005}


def test_only_pods_with_a_network_of_their_own_have_its_bytes() -> None:
    found = metrics(HOST, PodUse(WEB, USED), PodUse(JOB, USED))
    received, sent = found["cotenant_pod_network_received_bytes"], found["cotenant_pod_network_sent_bytes"]
    assert (received.type, values(received)) == ("counter", {LABELS["web"]: 100.0})
    assert (sent.type, values(sent)) == ("counter", {LABELS["web"]: 200.0})


def test_classes_add_up_their_pods_by_working_set_or_else_by_memory() -> None:
    found = figures(
        metrics(
            HOST,
            PodUse(WEB, USED),
            PodUse(JOB, GroupUse("top/job", cpu_m=250, memory_bytes=500)),
            PodUse(OTHER, GroupUse("top/other", cpu_m=500, memory_bytes=800, working_set_bytes=0)),
            PodUse(NodePod("u4", "shop", "plain", "top/plain"), GroupUse("top/plain")),
        )
    )
    assert found["cotenant_class_cpu_used_cores"] == {("prod",): 1.5, ("batch",): 0.75, ("none",): 0.0}
    assert found["cotenant_class_memory_working_set_bytes"] == {("prod",): 7000.0, ("batch",): 500.0, ("none",): 0.0}


def test_best_effort_work_together() -> None:
    group = GroupUse("top", cpu_m=750, working_set_bytes=4096, memory_bytes=9000, network_sent_bps=77)
    found = figures(metrics(HOST, best_effort=group))
    assert {name: given for name, given in found.items() if "best_effort" in name} == {
        "cotenant_best_effort_cpu_used_cores": {(): 0.75},
        "cotenant_best_effort_memory_bytes": {(): 4096.0},
        "cotenant_best_effort_sent_bytes_per_second": {(): 77.0},
    }


def test_what_is_not_known_is_left_out_and_zero_is_not() -> None:
    for convert, one in ((ratio, 1e-6), (cores, 1e-3), (seconds, 1e-6)):
        assert (convert(None), convert(0), convert(1)) == (None, 0.0, one)
    for family, kind in ((gauge, "gauge"), (counter, "counter")):
        made = family("x_y", "help", ("a",), [(("p",), 0), (("q",), None), (("r",), 2.5)])
        assert (made.name, made.documentation, made.type) == ("x_y", "help", kind)
        assert values(made) == {("p",): 0.0, ("r",): 2.5}
