"""Load-aware placement in a cluster's engine, event by event."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Unschedulable
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.load.rules import LoadAware
from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.annotations import RAW_ALLOCATABLE, USAGE_THRESHOLDS
from cotenant.model.cluster.labels import HOSTNAME, Labels, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.cluster.report import NodeReport
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Statistic, Use, UseWindow
from cotenant.model.resources import Amounts
from cotenant.policy.placement.load_aware.forecast import LoadForecast
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings, LoadShares, Percentile, Percentiles
from cotenant.policy.placement.profiles import profile

GI = 1 << 30
FILTER = LoadAwareSettings(score_weight=0.0)


def node(name: str, cpu: int = 10_000, **annotations: str) -> Node:
    notes = Labels.of(
        {{"own": USAGE_THRESHOLDS, "raw": RAW_ALLOCATABLE}[key]: text for key, text in annotations.items()}
    )
    size = Amounts.of({"cpu": cpu, "memory": 100 * GI})
    return Node(name, size, Labels.of({HOSTNAME: name}), annotations=notes)


def pod(
    name: str, cpu: int = 1000, *, on: str = "", started_s: float = nan, prod: bool = True, **more: object
) -> ObservedPod:
    its = PriorityClass.PROD if prod else PriorityClass.FREE
    value = Pod(name, requests=Amounts.of({"cpu": cpu, "memory": GI}), priority_class=its, **more)  # type: ignore[arg-type]
    return ObservedPod(value, f"uid-{name}", "cotenant", 0.0, node=on, started_s=started_s)


def metric(name: str, cpu: int, memory: int = GI, age_s: float = 0.0, **pods: int) -> NodeMetric:
    measured = {f"default/{key}": MeasuredPod(Use(use, GI)) for key, use in pods.items()}
    return NodeMetric(name, age_s, 60, Use(cpu, memory), pods=measured)


def cluster(settings: LoadAwareSettings | None, *nodes: Node, name: str = "least-allocated") -> Cluster:
    made = Cluster(profile(name), np.random.default_rng(1), plugins=PluginRegistry(load_aware=LoadAware(settings)))
    for node in nodes:
        made.node_seen(node)
    return made


def binds(instructions: tuple[Instruction, ...]) -> dict[str, str]:
    return {i.key.partition("/")[2]: i.node for i in instructions if isinstance(i, Bind)}


def unschedulable(instructions: tuple[Instruction, ...]) -> dict[str, str]:
    return {i.key.partition("/")[2]: i.message for i in instructions if isinstance(i, Unschedulable)}


def test_a_hot_node_is_passed_over_and_the_reason_has_figures() -> None:
    c = cluster(FILTER, node("hot"), node("cool"))
    load = c.plugins.load_aware
    load.metric_seen(metric("hot", 6200), 0.0)
    load.metric_seen(metric("cool", 1000), 0.0)
    c.pod_seen(pod("a"), 1.0)
    assert binds(c.decide(1.0)) == {"a": "cool"}
    load.metric_seen(metric("cool", 6300), 60.0)
    c.pod_seen(pod("b"), 61.0)
    (message,) = unschedulable(c.decide(61.0)).values()
    assert message == (
        "0/2 nodes are available: 2 node(s) would use more CPU than the load threshold allows. 2 nodes fit but for "
        "node(s) would use more CPU "
        "than the load threshold allows (node hot uses 62 % of CPU, this pod adds 9 %; threshold 65 %)."
    )
    c.validate()


def test_off_without_settings() -> None:
    c = cluster(None, node("hot"))
    c.plugins.load_aware.metric_seen(metric("hot", 9999), 0.0)
    c.pod_seen(pod("a"), 1.0)
    assert binds(c.decide(1.0)) == {"a": "hot"}
    assert c.plugins.load_aware not in c.plugins.node_rules()
    assert c.plugins.load_aware.describe("hot") is None


def test_pods_placed_since_the_metric_count_by_estimate() -> None:
    """Ten pods with an estimate of 850 m on a node of 10 cores at 20 %: five of them fit below 65 %."""
    c = cluster(FILTER, node("n", cpu=10_000))
    c.plugins.load_aware.metric_seen(metric("n", 2000), 0.0)
    for i in range(8):
        c.pod_seen(pod(f"p{i}", prod=False), 1.0)
    assert len(binds(c.decide(1.0))) == 5
    view = c.plugins.load_aware.describe("n")
    assert view is not None
    assert (view.usual.use.cpu_m, view.usual.expected.cpu_m, view.usual.counted, view.usual.cpu_pct) == (
        2000,
        4250,
        5,
        63,
    )
    c.validate()


def test_a_metric_that_includes_the_pods_frees_room_and_wakes_waiting_pods() -> None:
    c = cluster(FILTER, node("n"))
    load = c.plugins.load_aware
    load.metric_seen(metric("n", 5000), 0.0)
    c.pod_seen(pod("a"), 1.0)
    c.pod_seen(pod("b"), 1.0)
    instructions = c.decide(1.0)
    assert binds(instructions) == {"a": "n"}
    assert "b" in unschedulable(instructions)
    assert c.decide(1.5) == ()
    assert c.next_s() > 200.0  # no timer looks again
    load.metric_seen(metric("n", 5100, a=30), 90.0)  # `a` is idle
    assert c.next_s() == -inf
    assert binds(c.decide(90.0)) == {"b": "n"}
    c.validate()


def test_a_metric_without_more_room_wakes_no_pod() -> None:
    c = cluster(FILTER, node("n"))
    load = c.plugins.load_aware
    load.metric_seen(metric("n", 7000), 0.0)
    c.pod_seen(pod("a"), 1.0)
    c.decide(1.0)
    load.metric_seen(metric("n", 7500), 60.0)
    load.metric_seen(metric("n", 7500), 61.0)
    assert c.next_s() > 200.0


def test_a_pod_that_is_resized_wakes_waiting_pods() -> None:
    c = cluster(FILTER, node("n"))
    c.plugins.load_aware.metric_seen(metric("n", 0), 0.0)
    c.pod_seen(pod("large", 5000, on="n", started_s=1.0), 1.0)
    c.pod_seen(pod("b", 4000), 2.0)
    assert "b" in unschedulable(c.decide(2.0))
    c.pod_seen(pod("large", 500, on="n", started_s=1.0), 3.0)
    assert binds(c.decide(20.0)) == {"b": "n"}


def test_a_pod_that_leaves_wakes_waiting_pods() -> None:
    c = cluster(FILTER, node("n"))
    c.plugins.load_aware.metric_seen(metric("n", 5000), 0.0)
    c.pod_seen(pod("a"), 1.0)
    c.pod_seen(pod("b"), 1.0)
    first = binds(c.decide(1.0))
    gone, left = ("a", "b") if "a" in first else ("b", "a")
    c.pod_gone(f"uid-{gone}", 20.0)
    assert binds(c.decide(20.0)) == {left: "n"}
    c.validate()


@pytest.mark.parametrize(
    ("settings", "placed"),
    [
        (FILTER, False),
        (replace(FILTER, schedule_when_expired=True), True),
        (replace(FILTER, filters_expired=False), False),  # trusted, and too high
        (replace(FILTER, expires_s=0.0), False),  # never expires
    ],
)
def test_an_expired_metric(settings: LoadAwareSettings, placed: bool) -> None:
    c = cluster(settings, node("n"))
    c.plugins.load_aware.metric_seen(metric("n", 9000), 0.0)
    c.pod_seen(pod("a"), 500.0)
    assert bool(binds(c.decide(500.0))) is placed
    c.validate()


def test_an_expired_metric_has_a_reason_of_its_own() -> None:
    c = cluster(FILTER, node("n"))
    c.plugins.load_aware.metric_seen(metric("n", 100), 0.0)
    c.pod_seen(pod("a"), 500.0)
    (message,) = unschedulable(c.decide(500.0)).values()
    assert "1 node(s) have not reported their use recently" in message
    view = c.plugins.load_aware.describe("n")
    assert view is not None
    assert view.sentence() == "n has reported no use for 500 s: no pod is placed there until it does"
    c.plugins.load_aware.metric_seen(metric("n", 100), 510.0)
    assert binds(c.decide(530.0)) == {"a": "n"}


def test_expiry_that_opens_a_node_wakes_waiting_pods() -> None:
    c = cluster(replace(FILTER, schedule_when_expired=True), node("n"))
    c.plugins.load_aware.metric_seen(metric("n", 9000), 0.0)
    c.pod_seen(pod("a"), 1.0)
    assert binds(c.decide(1.0)) == {}
    assert c.next_s() == 180.0
    assert binds(c.decide(180.0)) == {"a": "n"}


def test_a_metric_that_was_never_updated_is_expired_and_an_absent_one_passes() -> None:
    c = cluster(FILTER, node("empty"), node("none"))
    c.plugins.load_aware.metric_seen(NodeMetric("empty"), 0.0)
    c.pod_seen(pod("a"), 1.0)
    assert binds(c.decide(1.0)) == {"a": "none"}


def test_daemonsets_are_not_filtered_and_count() -> None:
    c = cluster(FILTER, node("n"))
    c.plugins.load_aware.metric_seen(metric("n", 5600), 0.0)
    term = NodeSelectorTerm((), (Requirement("metadata.name", SelectorOperator.IN, ("n",)),))
    pinned = NodeAffinity(NodeSelector((term,)))
    c.pod_seen(pod("p", 2000, node_affinity=pinned), 1.0)
    c.pod_seen(pod("d", 2000, node_affinity=pinned, is_daemon=True), 1.0)
    assert binds(c.decide(1.0)) == {"d": "n"}  # a node's name alone exempts no pod
    c.pod_seen(pod("a"), 2.0)
    assert binds(c.decide(2.0)) == {}
    c.validate()


def test_productions_thresholds_count_productions_use() -> None:
    c = cluster(replace(FILTER, thresholds=LoadShares(), prod_thresholds=LoadShares(cpu=50)), node("n"))
    of_prod = {"default/p": MeasuredPod(Use(4500, GI), PriorityClass.PROD)}
    c.plugins.load_aware.metric_seen(NodeMetric("n", 0.0, 60, Use(9000, GI), pods=of_prod), 0.0)
    c.pod_seen(pod("p", on="n", started_s=-1000.0), 0.0)
    c.pod_seen(pod("batch", prod=False), 1.0)
    c.pod_seen(pod("small", 500), 1.0)
    c.pod_seen(pod("large", 700), 1.0)
    assert set(binds(c.decide(1.0))) == {"batch", "small"} or set(binds(c.decide(1.0))) == {"batch", "large"}
    c.validate()


def test_a_nodes_own_thresholds_and_raw_size() -> None:
    own, raw = '{"usageThresholds": {"cpu": 40}}', '{"cpu": "5", "memory": "100Gi"}'
    c = cluster(FILTER, node("own", own=own), node("raw", raw=raw), node("plain"))
    for name in ("own", "raw", "plain"):
        c.plugins.load_aware.metric_seen(metric(name, 3500), 0.0)
    c.pod_seen(pod("a"), 1.0)
    assert binds(c.decide(1.0)) == {"a": "plain"}
    c.node_seen(node("own"))  # the annotation is removed
    c.node_seen(node("plain", own=own))
    c.pod_seen(pod("b"), 2.0)
    assert binds(c.decide(2.0)) == {"b": "own"}
    c.validate()


def test_an_unreadable_annotation_is_counted_and_the_clusters_threshold_applies() -> None:
    c = cluster(FILTER, node("n", own='{"usageThresholds": {"cpu": 400}}'))
    c.plugins.load_aware.metric_seen(metric("n", 9000), 0.0)
    c.pod_seen(pod("a"), 1.0)
    assert binds(c.decide(1.0)) == {}
    assert sum(c.plugins.load_aware.counts.values()) == 1


def test_a_percentile_over_a_window_and_estimates_where_it_is_missing() -> None:
    settings = replace(FILTER, percentiles=Percentiles(LoadShares(cpu=60), Percentile(Statistic.P95, 300)))
    c = cluster(settings, node("calm"), node("peaks"), node("new"))
    told_95 = {Statistic.P95: Use(7000, GI)}
    c.plugins.load_aware.metric_seen(NodeMetric("peaks", 0.0, 60, Use(100, GI), (UseWindow(300, told_95),)), 0.0)
    c.plugins.load_aware.metric_seen(
        NodeMetric("calm", 0.0, 60, Use(9000, GI), (UseWindow(300, {Statistic.P95: Use(200, GI)}),)), 0.0
    )
    c.plugins.load_aware.metric_seen(NodeMetric("new", 0.0, 60, Use(100, GI), (UseWindow(600, told_95),)), 0.0)
    for i in range(7):
        c.pod_seen(pod(f"r{i}", on="new", started_s=-9999.0), 0.0)  # seven times 850 m by estimate
    c.pod_seen(pod("a"), 1.0)
    assert binds(c.decide(1.0)) == {"a": "calm"}
    view = c.plugins.load_aware.describe("new")
    assert view is not None
    assert (view.usual.basis, view.usual.use.cpu_m, view.usual.expected.cpu_m) == ("estimates", 0, 7 * 850)
    c.validate()


def test_a_forecast_remembers_the_peak() -> None:
    c = cluster(replace(FILTER, forecast=LoadForecast(quantile_pct=90, half_life_s=600.0)), node("n"))
    load = c.plugins.load_aware
    for i, cpu in enumerate((7000, 7000, 1000, 1000)):
        load.metric_seen(metric("n", cpu), 60.0 * i)
    c.pod_seen(pod("a"), 200.0)
    assert binds(c.decide(200.0)) == {}
    view = load.describe("n")
    assert view is not None
    assert view.usual.basis == "forecast"
    assert 7000 <= view.usual.use.cpu_m <= 7350
    load.metric_seen(metric("n", 1000), 240.0)
    for i in range(40):
        load.metric_seen(metric("n", 1000), 300.0 + 60.0 * i)
    assert binds(c.decide(2700.0)) == {"a": "n"}
    c.validate()


def test_the_score_prefers_the_node_that_uses_least() -> None:
    c = cluster(LoadAwareSettings(score_weight=100.0), node("a", 20_000), node("b"), node("c"))
    load = c.plugins.load_aware
    for name, cpu in (("a", 9000), ("b", 3000), ("c", 500)):
        load.metric_seen(metric(name, cpu), 0.0)
    c.pod_seen(pod("x", 100), 1.0)
    assert binds(c.decide(1.0)) == {"x": "c"}
    c.pod_seen(pod("y", 100), 1.0)
    assert binds(c.decide(1.0)) == {"y": "c"}
    load.metric_seen(metric("c", 5000, x=80, y=80), 60.0)
    c.pod_seen(pod("z", 100), 61.0)
    assert binds(c.decide(61.0)) == {"z": "b"}
    c.validate()


def report(name: str, cpu: float, at_s: float) -> NodeReport:
    return NodeReport(name, 10.0, cpu, 100.0 * GI, float(GI), 0.0, 0.0, 0.5, 1.0, at_s)


def test_a_report_counts_where_no_metric_does() -> None:
    c = cluster(FILTER, node("n"))
    load = c.plugins.load_aware
    load.report_seen(report("n", 7.0, 0.0), 0.0)
    c.pod_seen(pod("a"), 1.0)
    assert binds(c.decide(1.0)) == {}
    load.metric_seen(metric("n", 1000), 2.0)  # it takes precedence: it includes the pods
    assert binds(c.decide(30.0)) == {"a": "n"}
    load.report_seen(report("n", 7.0, 31.0), 31.0)
    view = load.describe("n")
    assert view is not None
    assert view.source == "NodeMetric"
    load.metric_gone("n", 32.0)
    view = load.describe("n")
    assert view is not None
    assert view.source == "report"
    load.at(200.0)
    view = load.describe("n")
    assert view is not None
    assert view.source == "nobody"
    c.validate()


def test_a_report_does_not_count_old_residents_twice() -> None:
    c = cluster(FILTER, node("n"))
    c.pod_seen(pod("old", 3000, on="n", started_s=-5000.0), 0.0)
    c.plugins.load_aware.report_seen(report("n", 3.0, 0.0), 0.0)
    view = c.plugins.load_aware.describe("n")
    assert view is not None
    assert (view.usual.use.cpu_m, view.usual.expected.cpu_m) == (3000, 0)


def test_what_was_measured_under_a_reused_name_is_not_the_new_pods() -> None:
    c = cluster(FILTER, node("n"))
    c.plugins.load_aware.metric_seen(metric("n", 5000, web=800), 0.0)
    c.pod_seen(pod("web"), 10.0)
    assert binds(c.decide(10.0)) == {"web": "n"}
    view = c.plugins.load_aware.describe("n")
    assert view is not None
    assert view.usual.expected.cpu_m == 850
    c.validate()


def test_limits_are_what_a_pod_may_grow_to() -> None:
    c = cluster(FILTER, node("n"))
    c.plugins.load_aware.metric_seen(metric("n", 5000), 0.0)
    c.pod_seen(pod("bursts", 100, limits=Amounts.of({"cpu": 4000})), 1.0)
    c.pod_seen(pod("steady", 100), 1.0)
    instructions = c.decide(1.0)
    assert binds(instructions) == {"steady": "n"}
    assert set(unschedulable(instructions)) == {"bursts"}


def test_a_rebuild_from_facts_restores_the_state() -> None:
    c = cluster(FILTER, node("n"), node("m"))
    load = c.plugins.load_aware
    load.metric_seen(metric("n", 3000), 0.0)
    load.metric_seen(metric("m", 2000), 0.0)
    for i in range(9):
        c.pod_seen(pod(f"p{i}"), 1.0)
    c.decide(1.0)
    before = [load.describe(name) for name in ("n", "m")]
    c.rebuild(1.0)
    c.validate()
    assert [load.describe(name) for name in ("n", "m")] == before
    c.validate()
    assert all(c.state_of(f"uid-p{i}") is not SchedulingState.GONE for i in range(9))


def test_time_never_goes_back() -> None:
    c = cluster(FILTER, node("n"))
    load = c.plugins.load_aware
    load.metric_seen(metric("n", 1000), 1000.0)
    load.at(500.0)
    c.pod_seen(pod("a"), 400.0)
    assert binds(c.decide(400.0)) == {"a": "n"}
    c.validate()


def test_what_was_simulated_leaves_times_and_figures_as_they_were() -> None:
    c = cluster(FILTER, node("n", cpu=10_000), node("m", cpu=10_000))
    load = c.plugins.load_aware
    load.metric_seen(metric("n", 2000), 0.0)
    c.pod_seen(pod("a", on="n"), 1.0)
    c.decide(1.0)
    before = load.describe("n"), load.describe("m"), c.next_s()
    with c.tentative(1.0):
        load.at(500.0)  # by then the figures have expired
        c.pod_seen(pod("b", prod=False), 500.0)
        c.decide(500.0)
        assert load.describe("n") != before[0]
    assert (load.describe("n"), load.describe("m"), c.next_s()) == before
    c.validate()
