"""A node's NodeMetric: its windows and period by its own spec, and each figure of use where it belongs."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound
from cotenant.drivers.kube.kinds.custom.node_metric import NodeMetricObject, read_node_metric
from cotenant.drivers.kube.kinds.custom.node_metric_writing import (
    AggregatePolicy,
    CollectPolicy,
    OwnNodeMetric,
)
from cotenant.engine.node.report import Aggregate, NodeUsage, PodAverage
from cotenant.engine.node.series import SeriesSummary
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.node_metric import PodSignals, Use
from cotenant.model.machine.node_pod import NodePod
from cotenant.services.agent.reports.nodemetric import NodeMetricWriter, duration_s, status_of, windows_s

WEB = NodePod("u-web", "shop", "web", "g", QoSClass.LS, priority_class=PriorityClass.PROD)
JOB = NodePod("u-job", "shop", "job", "g", QoSClass.BE, priority_class=PriorityClass.BATCH)
NGINX = NodePod("u-nginx", "", "nginx", "g", QoSClass.LS, host_application=True)
MI = 1 << 20


def summary(first: int) -> SeriesSummary:
    return SeriesSummary(first, first + 1, first + 2, first + 3, first + 4)


def usage(*pods: PodAverage, applications: tuple[PodAverage, ...] = (), at_us: int = 10_000_000) -> NodeUsage:
    minutes, hours = 300_000_000, 5_400_000_000
    node = (
        Aggregate(minutes, summary(1), summary(1)),
        Aggregate(minutes, summary(1000), summary(2 * MI)),
        Aggregate(hours, None, summary(3 * MI)),
        Aggregate(hours, None, None),
    )
    system = (Aggregate(minutes, None, None), Aggregate(15_000_000, summary(500), None))
    return NodeUsage(at_us, 2500, 64 * MI, 250, None, node, system, pods, applications)


def as_json(*given: Any, **more: Any) -> Any:
    return msgspec.to_builtins(status_of(*given, **more))


def amounts(cpu: str = "", memory: str = "") -> dict[str, Any]:
    return {"resources": {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}}


def test_the_node_and_its_system_with_the_windows_after_the_first() -> None:
    status = as_json(usage(), 1_767_225_600.9)
    assert status["updateTime"] == "2026-01-01T00:00:00Z"
    node = status["nodeMetric"]
    assert (node["nodeUsage"], node["systemUsage"]) == (amounts("2500m", "64Mi"), amounts("250m"))
    aggregated = node["aggregatedNodeUsages"]
    assert [entry["duration"] for entry in aggregated] == ["5m0s", "1h30m0s"]
    assert {name: used["resources"]["cpu"] for name, used in aggregated[0]["usage"].items()} == {
        "avg": "1",
        "p50": "1001m",
        "p90": "1002m",
        "p95": "1003m",
        "p99": "1004m",
    }
    assert aggregated[1]["usage"]["avg"] == amounts(memory="3Mi")
    (of_system,) = node["aggregatedSystemUsages"]
    assert (of_system["duration"], of_system["usage"]["avg"]) == ("15s", amounts("500m"))


def test_pods_and_host_applications_of_which_anything_is_known() -> None:
    pods = (
        PodAverage(WEB, 1500, 32 * MI),
        PodAverage(JOB, 250, None),
        PodAverage(JOB, None, MI),
        PodAverage(JOB, None, None),
    )
    status = as_json(usage(*pods, applications=(PodAverage(NGINX, 100, MI), PodAverage(NGINX, None, None))), 0.0)
    assert [(pod["namespace"], pod["name"], pod["podUsage"]) for pod in status["podsMetric"]] == [
        ("shop", "web", amounts("1500m", "32Mi")),
        ("shop", "job", amounts("250m")),
        ("shop", "job", amounts(memory="1Mi")),
    ]
    web = status["podsMetric"][0]
    assert (web["priority"], web["qos"], web.get("extensions")) == ("koord-prod", "LS", None)
    (application,) = status["hostApplicationMetric"]
    assert (application["name"], application["qos"]) == (NGINX.key, "LS")
    assert application["usage"] == amounts("100m", "1Mi")


def test_what_prod_pods_will_not_use_is_there_where_it_is_predicted() -> None:
    assert as_json(usage(), 0.0).get("prodReclaimableMetric") is None
    found = as_json(usage(), 0.0, Use(1500, 3 * MI))["prodReclaimableMetric"]
    assert found == {"resource": amounts("1500m", "3Mi")}


def test_signals_of_a_pod_are_added() -> None:
    (pod,) = as_json(usage(PodAverage(WEB, 1, 1, PodSignals(latency_p99_ms=4.5))), 0.0)["podsMetric"]
    assert 4.5 in [value for part in pod["extensions"].values() for value in part.values()]


def test_a_scheduler_reads_what_the_agent_says_of_a_pods_cards() -> None:
    told = PodSignals(gpu_sm=0.62, gpu_bandwidth=0.21)
    status = as_json(usage(PodAverage(WEB, 1, 1, told)), 0.0)
    found = read_node_metric(msgspec.convert({"metadata": {"name": "n"}, "status": status}, NodeMetricObject))
    assert found.pods is not None
    assert found.pods[WEB.key].signals == told
    status["podsMetric"][0]["extensions"]["cotenant"]["gpuSm"] = 1.5  # no share of a card
    found = read_node_metric(msgspec.convert({"metadata": {"name": "n"}, "status": status}, NodeMetricObject))
    assert found.pods is not None
    assert found.pods[WEB.key].signals.gpu_sm is None


def over(*durations: str) -> CollectPolicy:
    return CollectPolicy(node_aggregate_policy=AggregatePolicy(durations=durations))


@pytest.mark.parametrize(
    ("policy", "windows"),
    [
        (CollectPolicy(), (300, 300, 600, 1800)),
        (CollectPolicy(aggregate_duration_seconds=60), (60, 300, 600, 1800)),
        (CollectPolicy(aggregate_duration_seconds=0), (300, 300, 600, 1800)),
        (CollectPolicy(aggregate_duration_seconds=-5), (300, 300, 600, 1800)),
        (CollectPolicy(aggregate_duration_seconds=86_400), (86_400, 300, 600, 1800)),
        (CollectPolicy(aggregate_duration_seconds=86_401), (300, 300, 600, 1800)),
        (CollectPolicy(node_aggregate_policy=AggregatePolicy(durations=())), (300,)),
        (
            CollectPolicy(node_aggregate_policy=AggregatePolicy(durations=("1m0s", "x", "48h", "1h30m"))),
            (300, 60, 5400),
        ),
        (CollectPolicy(node_aggregate_policy=AggregatePolicy(durations=("1m",) * 20)), (300, *(60,) * 8)),
    ],
)
def test_windows_are_those_of_the_objects_spec(policy: CollectPolicy, windows: tuple[int, ...]) -> None:
    assert windows_s(policy) == windows


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("24h", 86_400), ("24h0m1s", 0), ("", 0), ("soon", 0)])
def test_durations(text: str, seconds: int) -> None:
    assert duration_s(text) == seconds


class OneObject:
    """As much of a client as the writer needs. `races`: somebody else creates the object at this moment."""

    def __init__(self, spec: dict[str, Any] | None = None, races: bool = False) -> None:
        self.obj: dict[str, Any] | None = None if spec is None else {"metadata": {"name": "n"}, "spec": spec}
        self.races = races
        self.patches: list[dict[str, Any]] = []

    async def get(self, kind: Any, namespace: str, name: str) -> OwnNodeMetric:
        assert (kind.plural, namespace, name) == ("nodemetrics", "", "n")
        if self.obj is None:
            raise NotFound("nodemetrics n")
        return msgspec.convert(self.obj, OwnNodeMetric)

    async def create(self, kind: Any, namespace: str, obj: Any) -> OwnNodeMetric:
        self.obj = msgspec.to_builtins(obj)
        assert self.obj is not None
        assert (self.obj["apiVersion"], self.obj["kind"]) == ("slo.koordinator.sh/v1alpha1", "NodeMetric")
        if self.races:
            self.obj["spec"] = {"metricCollectPolicy": {"reportIntervalSeconds": 20}}
            raise AlreadyExists("nodemetrics n")
        return msgspec.convert(self.obj, OwnNodeMetric)

    async def patch(self, kind: Any, namespace: str, name: str, body: Any, **how: str) -> None:
        assert how == {"content_type": "application/merge-patch+json", "subresource": "status"}
        self.patches.append(msgspec.to_builtins(body))


def writer(client: OneObject, *usages: NodeUsage | None, **more: Any) -> tuple[NodeMetricWriter, list[tuple[int, ...]]]:
    asked: list[tuple[int, ...]] = []
    left = list(usages)

    def use(windows_us: Any) -> NodeUsage | None:
        asked.append(tuple(windows_us))
        return left.pop(0)

    return NodeMetricWriter(client, "n", use, lambda: 1_767_225_600.0, 60.0, **more), asked  # type: ignore[arg-type]


def test_an_object_that_is_not_there_is_made_and_its_status_written() -> None:
    client = OneObject()
    made, asked = writer(client, usage(PodAverage(WEB, 1500, MI)), reclaimable=lambda: None)
    assert asyncio.run(made.write())
    assert (made.written, made.failures, made.period_s) == (1, 0, 60.0)
    assert asked == [(300_000_000, 300_000_000, 600_000_000, 1_800_000_000)]
    (patch,) = client.patches
    assert patch["status"]["podsMetric"][0]["name"] == "web"


def test_before_anything_is_measured_nothing_is_written() -> None:
    client = OneObject({})
    made, _ = writer(client, None)
    assert not asyncio.run(made.write())
    assert (client.patches, made.written, made.failures, made.problem) == ([], 0, 0, "")


def test_one_that_a_manager_makes_at_this_moment_is_taken_with_its_spec() -> None:
    made, _ = writer(OneObject(races=True), usage())
    assert asyncio.run(made.write())
    assert made.period_s == 20.0


@pytest.mark.parametrize(("asked_s", "period_s"), [(None, 60.0), (30, 30.0), (1, 5.0), (100_000, 3600.0), (-1, 5.0)])
def test_the_period_is_that_of_the_spec_within_bounds(asked_s: int | None, period_s: float) -> None:
    spec = {} if asked_s is None else {"metricCollectPolicy": {"reportIntervalSeconds": asked_s}}
    made, _ = writer(OneObject(spec), usage())
    assert asyncio.run(made.write())
    assert made.period_s == period_s


def test_bytes_of_a_pods_own_network_are_rates_between_two_writes() -> None:
    counters = {"web": iter([(1000, 2000), (4000, 8000)])}
    client = OneObject({})
    pods = PodAverage(WEB, 1500, MI), PodAverage(JOB, 100, MI)
    made, _ = writer(
        client,
        usage(*pods, at_us=10_000_000),
        usage(*pods, at_us=13_000_000),
        network=lambda pod: next(counters[pod.name]) if pod.name in counters else None,
        reclaimable=lambda: None,
        uplink_bps=30_000,
    )
    for _ in range(2):
        assert asyncio.run(made.write())
    first, second = (
        {pod["name"]: pod.get("extensions") or {} for pod in patch["status"]["podsMetric"]} for patch in client.patches
    )

    def rate(extensions: dict[str, Any]) -> list[float]:
        wanted = ("networkBytesPerSecond", "networkUse")
        return [value for part in extensions.values() for key, value in part.items() if key in wanted and value]

    assert rate(first["web"]) == []
    assert sorted(rate(second["web"])) == [round(2000 / 30_000, 4), 3000]  # the busier way, and both
    assert rate(second["job"]) == []
