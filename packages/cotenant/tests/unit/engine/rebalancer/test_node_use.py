"""What nodes use, from what they report and the moves that are under way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.rebalancer.node_use import NodeUse
from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.groups.migration import MigrationJob, MoveNote, PodRef
from cotenant.model.machine.node_metric import HostApplication, MeasuredPod, NodeMetric, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.policy.rebalance.loads.pools import NodePool
from cotenant.policy.rebalance.loads.thresholds import Percentages

POOL = NodePool("all", Percentages({"cpu": 30}, {"cpu": 60, "pods": 50}, prod_high={"memory": 40}))
SETTINGS = RebalancerSettings((POOL,), expires_s=180.0)
PROD, BATCH = PriorityClass.PROD, PriorityClass.BATCH


def node(name: str, cpu: int = 10_000, **fields: Any) -> Node:
    return replace(Node(name, Amounts.of({"cpu": cpu, "memory": 1000, "pods": 10}), Labels.of({"n": name})), **fields)


def world(settings: RebalancerSettings = SETTINGS, *nodes: Node) -> tuple[NodeUse, Cluster]:
    cluster = Cluster(profile("cotenant-requests"), np.random.default_rng(1), EngineSettings())
    for one in nodes or (node("a"), node("b", 20_000)):
        cluster.node_seen(one)
    return NodeUse(cluster, settings), cluster


def metric(name: str = "a", **fields: Any) -> NodeMetric:
    pods = {
        "ns/web": MeasuredPod(Use(1000, 100), PROD),
        "ns/hog": MeasuredPod(Use(3000, 200), BATCH),
        "ns/own": MeasuredPod(Use(50, 5)),
    }
    made = NodeMetric(name, 10.0, use=Use(9000, 900), pods=pods, system=Use(500, 50))
    return replace(made, **fields)


def job(pod: str, source: str, target: str, cpu: int, memory: int, new: str = "") -> MigrationJob:
    note = MoveNote(node=source, target=target, used={"cpu": cpu, "memory": memory})
    made = MigrationJob(f"j-{pod}", f"u-{pod}", PodRef("ns", pod), note=note)
    return replace(made, new_pod=PodRef("ns", new)) if new else made


def test_a_node_uses_what_its_pods_system_and_applications_do() -> None:
    use, _ = world()
    applications = (HostApplication(Use(7, 8)), HostApplication(Use(20, 30)))
    use.metric_seen(metric(applications=applications), 0.0)
    assert use.of("a") == (Use(4050 + 500 + 27, 305 + 50 + 38), Use(1000, 100))
    for unknown in ({"pods": None}, {"system": None}):
        use.metric_seen(metric(**unknown), 0.0)
        total, prod = use.of("a")
        assert total == Use(9000, 900)
        assert prod == (Use() if "pods" in unknown else Use(1000, 100))


def test_the_class_of_a_pod_is_the_engines_where_the_agent_reports_none() -> None:
    use, cluster = world()
    for name, priority_class in (("own", PROD), ("hog", PROD)):
        pod = Pod(name, "ns", Amounts.of({"cpu": 1}), priority_class=priority_class)
        cluster.pod_seen(ObservedPod(pod, name, "cotenant", 0.0, node="a"), 0.0)
    use.metric_seen(metric(), 0.0)
    assert use.of("a")[1] == Use(1050, 105)  # hog is of batch, as its agent says


def test_what_is_moved_counts_where_it_will_be_until_it_is_measured_there() -> None:
    use, _ = world()
    use.metric_seen(metric(), 0.0)
    use.metric_seen(metric("b", pods={"ns/new": MeasuredPod(Use(1, 1))}), 0.0)
    use.expect([job("hog", "a", "b", 2900, 190), job("gone", "a", "b", 400, 40, "new"), job("x", "c", "b", 30, 3)])
    assert use.of("a")[0] == Use(1050 + 500, 105 + 50)  # without all that it is measured to use
    assert use.of("b")[0] == Use(1 + 2900 + 30 + 500, 1 + 190 + 3 + 50)  # `new` is there already
    use.count("ns/web", "a", "b", Use(1000, 100))
    assert use.of("a") == (Use(50 + 500, 5 + 50), Use())
    assert use.of("b")[0] == Use(3931 + 500, 294 + 50)
    use.expect([replace(job("hog", "a", "b", 1, 1), note=None)])
    assert use.of("a")[0] == Use(4550, 355)


def test_moves_count_where_pods_are_not_measured_one_by_one_too() -> None:
    use, _ = world()
    use.metric_seen(metric(system=None), 0.0)
    use.metric_seen(metric("b", system=None, pods={"ns/new": MeasuredPod(Use(1, 1))}), 0.0)
    use.expect([job("hog", "a", "b", 2900, 190), job("gone", "a", "b", 400, 40, "new"), job("other", "a", "b", 5, 6)])
    assert use.of("a")[0] == Use(9000 - 2900, 900 - 190)  # what it does not show is not taken off
    assert use.of("b")[0] == Use(9000 + 2905, 900 + 196)
    use.expect([job("hog", "a", "b", 99_000, 9_900)])
    assert use.of("a")[0] == Use(0, 0)


def test_percent_are_of_what_a_node_had_before_amplification() -> None:
    use, _ = world()
    use.metric_seen(metric(age_s=100.0), 1000.0)
    assert use.percent("a", "cpu", 1000.0) == pytest.approx(45.5)
    assert use.percent("a", "memory", 1000.0) == pytest.approx(35.5)
    assert use.percent("a", "pods", 1000.0) is None
    use.raw_allocatable("a", Use(5000, 0))
    assert use.percent("a", "cpu", 1000.0) == pytest.approx(91.0)
    assert use.percent("a", "memory", 1000.0) == pytest.approx(35.5)  # not said: as allocatable
    assert use.percents("a", 1000.0) == {"cpu": 91.0, "memory": 35.5}
    use.metric_seen(metric(system=Use(504, 50)), 1000.0)
    assert use.percents("a", 1000.0)["cpu"] == 91.1
    assert use.percents("b", 1000.0) == {}
    assert use.percent("nowhere", "cpu", 1000.0) is None


def test_a_measurement_expires_by_its_age_and_by_the_time_since() -> None:
    use, _ = world()
    use.metric_seen(metric(age_s=100.0), 1000.0)
    assert [one.name for one in use.measured_nodes(1080.0)] == ["a"]
    assert use.measured_nodes(1080.1) == []
    assert use.percent("a", "cpu", 1080.1) is None
    for unknown in ({"age_s": float("nan")}, {"use": None}):
        use.metric_seen(metric(**unknown), 1000.0)
        assert use.measured_nodes(1000.0) == []
    use.metric_seen(metric(), 1000.0)
    use.metric_gone("a")
    use.metric_gone("a")
    assert use.measured_nodes(1000.0) == []


def test_what_a_pod_uses() -> None:
    use, _ = world()
    assert use.used_by("ns/hog", "a") == Use()
    use.metric_seen(metric(), 0.0)
    assert (use.used_by("ns/hog", "a"), use.used_by("ns/none", "a")) == (Use(3000, 200), Use())
    assert set(use.pods_of("a")) == {"ns/web", "ns/hog", "ns/own"}
    use.metric_seen(metric(pods=None), 0.0)
    assert (use.used_by("ns/hog", "a"), use.pods_of("a")) == (Use(), {})


def test_cooler_nodes_would_use_less_with_the_pod_on_them() -> None:
    selected = replace(SETTINGS, node_selector=LabelSelector.of({"pool": "x"}))
    names = {"a": 10_000, "warm": 10_000, "equal": 10_000, "large": 40_000, "unmeasured": 10_000}
    nodes = [node(name, cpu, labels=Labels.of({"pool": "x"})) for name, cpu in names.items()]
    nodes += [node("cordoned", labels=Labels.of({"pool": "x"}), unschedulable=True), node("elsewhere")]
    use, _ = world(selected, *nodes)
    use.metric_seen(metric("a", pods={"ns/p": MeasuredPod(Use(1000, 0))}, system=Use(4000, 0)), 0.0)  # 50 %
    for name, cpu in (("warm", 3999), ("equal", 4000), ("large", 18_000), ("cordoned", 0), ("elsewhere", 0)):
        use.metric_seen(metric(name, pods={}, system=Use(cpu, 0)), 0.0)
    assert use.cooler_than("a", "ns/p", 0.0) == ["warm", "large", "unmeasured"]
    assert len(use.cooler_than("a", "ns/p", 1000.0)) == 4  # nothing is current: all others
    assert use.takes_part(nodes[0])
    assert not use.takes_part(nodes[-1])


def test_loads_are_by_the_resources_that_thresholds_name() -> None:
    use, cluster = world()
    for i, priority_class in enumerate((PROD, BATCH, PROD)):
        pod = Pod(f"p{i}", "ns", Amounts.of({"cpu": 1}), priority_class=priority_class)
        cluster.pod_seen(ObservedPod(pod, f"p{i}", "cotenant", 0.0, node="a"), 0.0)
    use.raw_allocatable("b", Use(16_000, 0))
    use.metric_seen(metric(), 0.0)
    use.metric_seen(metric("b", pods={}), 0.0)
    cordoned = node("b", 20_000, unschedulable=True)
    loads = use.loads([node("a"), cordoned])
    assert (loads.names, loads.resources) == (("a", "b"), ("cpu", "memory", "pods"))
    assert loads.allocatable.tolist() == [[10_000, 1000, 10], [16_000, 1000, 10]]
    assert loads.usage.tolist() == [[4550, 355, 3], [500, 50, 0]]
    assert loads.prod.tolist() == [[1000, 100, 2], [0, 0, 0]]
    assert loads.unschedulable.tolist() == [False, True]
    only, _ = world(replace(SETTINGS, pools=(NodePool("m", Percentages({"memory": 5})),)))
    only.metric_seen(metric(), 0.0)
    assert (only.loads([node("a")]).resources, only.loads([node("a")]).usage.tolist()) == (("memory",), [[355]])


@pytest.mark.parametrize(
    ("named", "allocatable", "usage", "prod"),
    [
        ("cpu", 8000, 4550, 1000),  # as before amplification
        ("memory", 500, 355, 100),
        ("pods", 10, 3, 2),
    ],
)
def test_only_what_thresholds_name_is_in_the_loads(named: str, allocatable: int, usage: int, prod: int) -> None:
    use, cluster = world(replace(SETTINGS, pools=(NodePool("only", Percentages({}, {named: 5})),)))
    for name, priority in (("web", PROD), ("also", PROD), ("hog", BATCH)):
        made = Pod(name, "ns", priority_class=priority)
        cluster.pod_seen(ObservedPod(made, f"u-{name}", "other", 0.0, node="a"), 0.0)
    use.metric_seen(metric(), 0.0)
    use.raw_allocatable("a", Use(8000, 500))
    loads = use.loads([node("a")])
    assert loads.resources == tuple(sorted({named, "memory"}))  # which thresholds always have
    at = loads.resources.index(named)
    found = [int(table[0, at]) for table in (loads.allocatable, loads.usage, loads.prod)]
    assert found == [allocatable, usage, prod]


@pytest.mark.parametrize(
    ("cpu", "memory", "is_over"), [(6000, 0, False), (6001, 0, True), (0, 400, False), (0, 401, True)]
)
def test_where_no_use_is_above_a_threshold_nothing_has_to_be_considered(cpu: int, memory: int, is_over: bool) -> None:
    use, _ = world()
    pods = {"ns/web": MeasuredPod(Use(cpu, memory), PROD)}
    use.metric_seen(metric(pods=pods, system=Use()), 0.0)
    assert use.is_overloaded_somewhere(use.loads([node("a")])) is is_over
    around, _ = world(replace(SETTINGS, pools=(replace(POOL, percentages=Percentages(deviation=True)),)))
    around.metric_seen(metric(), 0.0)
    assert around.is_overloaded_somewhere(around.loads([node("a")]))
