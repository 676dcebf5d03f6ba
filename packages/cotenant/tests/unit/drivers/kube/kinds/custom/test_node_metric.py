"""NodeMetric as agents write it, read; and what of a pod and a node load-aware placement needs."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.node_metric import NodeMetricObject, read_node_metric
from cotenant.drivers.kube.kinds.custom.node_metric_writing import extensions_of
from cotenant.drivers.kube.kinds.node import NodeObject, read_node
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.engine.node.report import Aggregate, NodeUsage, PodAverage, SeriesSummary
from cotenant.model.cluster.annotations import RAW_ALLOCATABLE, USAGE_THRESHOLDS
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import MeasuredPod, PodSignals, Statistic, Use, UseWindow
from cotenant.model.machine.node_pod import NodePod
from cotenant.services.agent.reports.nodemetric import status_of

AT_S = 1_700_000_000.0
STATUS = {
    "updateTime": "2023-11-14T22:13:20Z",
    "nodeMetric": {
        "nodeUsage": {"resources": {"cpu": "1500m", "memory": "3Gi", "koordinator.sh/gpu": "7"}},
        "aggregatedNodeUsages": [
            {
                "duration": "5m0s",
                "usage": {"p95": {"resources": {"cpu": "2", "memory": "4Gi"}}, "p50": {"resources": {}}, "odd": None},
            },
        ],
    },
    "podsMetric": [
        {"namespace": "d", "name": "a", "podUsage": {"resources": {"cpu": "100m"}}, "priority": "koord-prod"},
        {"namespace": "d", "name": "new", "podUsage": {}},
    ],
}


def metric(status: Any, spec: Any = None, name: str = "n") -> NodeMetricObject:
    obj = {"metadata": {"name": name}, "spec": spec, "status": status}
    return msgspec.json.decode(msgspec.json.encode(obj), type=NodeMetricObject)


def test_everything_that_is_used_is_read() -> None:
    spec = {"metricCollectPolicy": {"reportIntervalSeconds": 30}}
    found = read_node_metric(metric(STATUS, spec), lambda: AT_S + 7.0)
    assert (found.node, found.age_s, found.interval_s) == ("n", 7.0, 30)
    assert found.use == Use(1500, 3 << 30)
    assert found.windows == (UseWindow(300, {Statistic.P95: Use(2000, 4 << 30)}),)
    assert found.pods == {"d/a": MeasuredPod(Use(100, 0), PriorityClass.PROD)}


def test_a_time_ahead_of_ours_is_now_and_none_is_never() -> None:
    assert read_node_metric(metric(STATUS), lambda: AT_S - 100.0).age_s == 0.0
    empty = read_node_metric(metric(None), lambda: AT_S)
    assert isnan(empty.age_s)
    assert empty.is_empty
    assert (empty.use, empty.windows, empty.pods, empty.interval_s) == (None, (), {}, 60)


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        ({"nodeUsage": {"resources": {"cpu": "many"}}}, "NodeMetric n: nodeUsage.resources.cpu"),
        ({"nodeUsage": {"resources": {"cpu": "-1"}}}, "NodeMetric n: nodeUsage.resources.cpu"),
        (
            {"aggregatedNodeUsages": [{"duration": "soon", "usage": {}}]},
            "NodeMetric n: aggregatedNodeUsages[0].duration",
        ),
    ],
)
def test_what_cannot_be_read_is_named(broken: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read_node_metric(metric({**STATUS, "nodeMetric": broken}))
    assert error.value.field == field


def test_what_our_own_agent_writes_is_read() -> None:
    pod = NodePod("u", "shop", "web", "kubepods/podu", qos=QoSClass.LS, priority_class=PriorityClass.PROD)
    usage = NodeUsage(
        at_us=0,
        cpu_m=1500,
        memory_bytes=3 << 30,
        system_cpu_m=200,
        system_memory_bytes=None,
        node=tuple(
            Aggregate(s * 1_000_000, SeriesSummary(1500, 1400, 1800, 1900, 2500), None) for s in (300, 300, 600)
        ),
        system=tuple(Aggregate(s * 1_000_000, None, None) for s in (300, 300, 600)),
        pods=(PodAverage(pod, 900, 1 << 30, PodSignals(12.5, None, 0.25)),),
        applications=(),
    )
    written = msgspec.json.decode(msgspec.json.encode(status_of(usage, AT_S)))
    found = read_node_metric(metric(written), lambda: AT_S + 1.0)
    assert (found.age_s, found.use) == (1.0, Use(1500, 3 << 30))
    assert [window.seconds for window in found.windows] == [300, 600]
    assert found.windows[0].use[Statistic.P95] == Use(1900, 0)
    signals = PodSignals(12.5, None, 0.25)
    assert found.pods == {"shop/web": MeasuredPod(Use(900, 1 << 30), PriorityClass.PROD, signals)}
    assert written["podsMetric"][0]["extensions"] == {"cotenant": {"latencyP99Ms": 12.5, "waitPerCpu": 0.25}}


def test_extensions_of_others_are_ignored() -> None:
    pods = [
        {
            "name": "a",
            "namespace": "d",
            "podUsage": {"resources": {"cpu": "1"}},
            "extensions": {"other": {"deep": [1]}, "cotenant": {"cyclesPerInstruction": 1.5, "new": "field"}},
        }
    ]
    found = read_node_metric(metric({**STATUS, "podsMetric": pods})).pods
    assert found == {"d/a": MeasuredPod(Use(1000, 0), signals=PodSignals(cycles_per_instruction=1.5))}


def a_pod(*containers: Any, **spec: Any) -> Any:
    obj = {"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {"containers": list(containers), **spec}}
    return PodReader().pod(msgspec.json.decode(msgspec.json.encode(obj), type=PodObject)).pod


def test_a_pods_limits_are_summed_as_its_requests() -> None:
    limited = {"name": "a", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}
    free = {"name": "b", "resources": {"requests": {"cpu": "1"}}}
    start = {"name": "i", "resources": {"limits": {"cpu": "3"}}}
    found = a_pod(limited, free, initContainers=[start])
    assert dict(found.limits) == {"cpu": 3000, "memory": 1 << 30}
    assert dict(a_pod(free).limits) == {}
    assert dict(a_pod({"name": "a", "resources": {"limits": {"cpu": "many", "memory": "1Gi"}}}).limits) == {
        "memory": 1 << 30
    }


def test_of_a_nodes_annotations_the_known_ones_are_kept() -> None:
    notes = {USAGE_THRESHOLDS: "{}", RAW_ALLOCATABLE: "{}", "other": "x"}
    obj = {"metadata": {"name": "n", "annotations": notes}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}}
    found = read_node(msgspec.json.decode(msgspec.json.encode(obj), type=NodeObject))
    assert dict(found.annotations) == {USAGE_THRESHOLDS: "{}", RAW_ALLOCATABLE: "{}"}


def test_what_a_pod_waits_for_is_read_as_it_was_written_and_what_cannot_be_counts_as_not_measured() -> None:
    signals = PodSignals(None, 1.5, 0.25, 0.01, 0.6, 0.4, 0.2, 123_456, 7)
    written = extensions_of(signals, None)
    assert written is not None
    fields = msgspec.to_builtins(written)["cotenant"]
    assert fields["diskBytesPerSecond"] == 123_456
    for change, expected in (
        ({}, signals),
        ({"diskStall": 1.5, "diskUse": -0.1}, replace(signals, disk_stall=None, disk_use=None)),
        ({"networkBytesPerSecond": -1}, replace(signals, network_bps=None)),
    ):
        pod = {"namespace": "a", "name": "b", "podUsage": {"resources": {"cpu": "1"}}}
        status = {"podsMetric": [{**pod, "extensions": {"cotenant": fields | change}}]}
        read = read_node_metric(msgspec.convert({"metadata": {"name": "n"}, "status": status}, NodeMetricObject))
        assert read.pods is not None
        assert read.pods["a/b"].signals == expected
