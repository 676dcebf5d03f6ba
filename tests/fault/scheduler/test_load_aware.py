"""Load-aware placement while everything goes wrong: metrics that flap, clocks that jump, nodes replaced under their
name, a scheduler built anew.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.load.rules import LoadAware
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings
from cotenant.policy.placement.profiles import profile

GI = 1 << 30
FILTER = LoadAwareSettings(score_weight=0.0)


def node(name: str, cpu: int = 10_000) -> Node:
    return Node(name, Amounts.of({"cpu": cpu, "memory": 100 * GI}))


def pod(name: str, on: str = "", started_s: float = nan) -> ObservedPod:
    value = Pod(name, requests=Amounts.of({"cpu": 1000, "memory": GI}))
    return ObservedPod(value, f"uid-{name}", "cotenant", 0.0, node=on, started_s=started_s)


def cluster(*nodes: Node, settings: LoadAwareSettings = FILTER) -> Cluster:
    plugins = PluginRegistry(load_aware=LoadAware(settings))
    made = Cluster(profile("least-allocated"), np.random.default_rng(1), EngineSettings(backoff=Backoff()), plugins)
    for node in nodes:
        made.node_seen(node)
    return made


def told(name: str, cpu: int, age_s: float = 0.0, **pods: int) -> NodeMetric:
    measured = {f"default/{key}": MeasuredPod(Use(use, GI)) for key, use in pods.items()}
    return NodeMetric(name, age_s, 60, Use(cpu, GI), pods=measured)


def bound(c: Cluster, now_s: float) -> dict[str, str]:
    found = {}
    for instruction in c.decide(now_s):
        if isinstance(instruction, Bind):
            assert c.sending(instruction.uid, now_s)
            c.bound(instruction.uid, now_s)
            found[instruction.key.partition("/")[2]] = instruction.node
    return found


def test_a_metric_that_flaps_makes_no_hot_loop() -> None:
    """A metric that swings over the threshold and back at every turn: a refused pod is judged with growing rests,
    not at each turn.
    """
    c = cluster(node("n"))
    load = c.plugins.load_aware
    load.metric_seen(told("n", 9000), 0.0)
    c.pod_seen(pod("a"), 0.0)
    for i in range(600):
        now_s = i / 10.0
        assert not bound(c, now_s)
        load.metric_seen(told("n", 8900 if i % 2 else 9000), now_s)
        if i % 50 == 0:
            c.validate()
    judged = c.queue.incoming["ScheduleAttemptFailure", "unschedulable"]
    assert 1 <= judged <= 20
    load.metric_seen(told("n", 1000), 60.0)
    assert bound(c, 90.0) == {"a": "n"}


@pytest.mark.parametrize("jump_s", [-1e6, -10.0, 10.0, 1e6])
def test_a_clock_that_jumps(jump_s: float) -> None:
    c = cluster(node("hot"), node("cool"))
    load = c.plugins.load_aware
    for name, cpu in (("hot", 9000), ("cool", 100)):
        load.metric_seen(told(name, cpu), 1e7)
    c.pod_seen(pod("a"), 1e7)
    now_s = 1e7 + jump_s
    placed = bound(c, now_s)
    # forward past the expiry nothing is known of either node; else the hot one stays hot
    assert placed == ({} if jump_s > 180.0 else {"a": "cool"})
    c.validate()
    for name, cpu in (("hot", 9000), ("cool", 100)):
        load.metric_seen(told(name, cpu), now_s)
    c.pod_seen(pod("b"), now_s)
    later_s = max(now_s, 1e7) + 400.0
    for name, cpu in (("hot", 9000), ("cool", 100)):
        load.metric_seen(told(name, cpu), later_s)
    assert set(bound(c, later_s).values()) <= {"cool"}
    c.validate()


def test_an_agent_whose_clock_is_ahead_or_behind() -> None:
    c = cluster(node("behind"), node("ahead"))
    load = c.plugins.load_aware
    load.metric_seen(told("behind", 9000, age_s=100.0), 1000.0)
    load.metric_seen(told("ahead", 100, age_s=0.0), 1000.0)  # the reader takes a time ahead of ours as now
    c.pod_seen(pod("a"), 1001.0)
    assert bound(c, 1001.0) == {"a": "ahead"}
    with pytest.raises(InvalidInput):
        NodeMetric("n", -1.0)
    c.validate()


def test_a_node_replaced_under_its_name() -> None:
    """Deleted and made anew with another size while a pod decided for it is on its way; its metric goes and comes
    later.
    """
    c = cluster(node("n"))
    load = c.plugins.load_aware
    load.metric_seen(told("n", 5000), 0.0)
    c.pod_seen(pod("a"), 1.0)
    first = c.decide(1.0)
    assert any(isinstance(instruction, Bind) for instruction in first)
    c.node_gone("n", 2.0)
    c.validate()
    c.node_seen(node("n", cpu=2000))
    c.validate()
    assert bound(c, 20.0) == {}  # 5 cores in use of 2
    load.metric_gone("n", 21.0)
    assert bound(c, 60.0) == {"a": "n"}
    load.metric_seen(told("n", 1900, a=900), 70.0)
    c.validate()


def test_rows_that_go_to_other_nodes_forget_who_was_there() -> None:
    c = cluster(node("a"), node("b"))
    load = c.plugins.load_aware
    load.metric_seen(told("a", 9000), 0.0)
    for i in range(3):
        c.pod_seen(pod(f"r{i}", on="a", started_s=-100.0), 0.0)
    assert bound(c, 1.0) == {}
    c.node_gone("a", 2.0)
    c.node_seen(node("other"))  # takes the row
    c.node_gone("b", 2.0)
    c.pod_seen(pod("x"), 3.0)
    assert bound(c, 3.0) == {"x": "other"}
    c.validate()
    c.node_seen(node("a"))
    c.validate()
    view = load.describe("a")
    assert view is not None
    assert (view.residents, view.usual.use.cpu_m) == (3, 9000)


def test_a_metric_that_cannot_be_read_any_more_is_none() -> None:
    c = cluster(node("n"))
    load = c.plugins.load_aware
    load.metric_seen(told("n", 9000), 0.0)
    c.pod_seen(pod("a"), 1.0)
    assert bound(c, 1.0) == {}
    load.metric_gone("n", 2.0)
    load.metric_gone("never-there", 2.0)
    assert bound(c, 20.0) == {"a": "n"}
    c.validate()


def test_built_anew_after_a_crash_it_judges_as_before() -> None:
    """The scheduler dies between two metrics; the next one knows of its pods only what the API server has."""
    before = cluster(node("n"))
    before.plugins.load_aware.metric_seen(told("n", 2000), 0.0)
    for i in range(5):
        before.pod_seen(pod(f"p{i}"), 10.0)
    placed = bound(before, 10.0)
    assert len(placed) == 5
    after = cluster(node("n"))
    for i in range(5):
        after.pod_seen(pod(f"p{i}", on="n", started_s=nan if i % 2 else 11.0), 20.0)
    after.plugins.load_aware.metric_seen(told("n", 2000, age_s=20.0), 20.0)
    after.pod_seen(pod("late"), 20.0)
    assert bound(after, 20.0) == {}
    assert [after.plugins.load_aware.describe("n").usual.expected] == [  # type: ignore[union-attr]
        before.plugins.load_aware.describe("n").usual.expected  # type: ignore[union-attr]
    ]
    after.validate()


def test_a_metric_before_its_node_and_a_pod_before_both() -> None:
    c = cluster()
    load = c.plugins.load_aware
    c.pod_seen(pod("r", on="n", started_s=0.0), 0.0)
    load.metric_seen(told("n", 9000, r=500), 1.0)
    c.pod_seen(pod("a"), 1.0)
    assert bound(c, 1.0) == {}
    c.node_seen(node("n"))
    assert bound(c, 20.0) == {}
    c.validate()
    assert c.next_s() > 100.0
    assert c.next_s() < inf


def test_settings_that_close_every_node_keep_the_scheduler_alive() -> None:
    c = cluster(*(node(f"n{i}") for i in range(5)), settings=replace(FILTER, expires_s=1.0))
    for i in range(5):
        c.plugins.load_aware.metric_seen(told(f"n{i}", 100), 0.0)
    for i in range(20):
        c.pod_seen(pod(f"p{i}"), 10.0)
    assert bound(c, 10.0) == {}
    c.validate()
