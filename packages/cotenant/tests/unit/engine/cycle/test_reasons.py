"""What the owner of a pod that waits is told, how often, and that the order of the reasons keeps nobody asleep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Unschedulable
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod, PodEstimate
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

WEB = Labels.of({"app": "web"})
ALONE = (PodTerm(HOSTNAME, LabelSelector.of({"app": "web"})),)


def node(name: str, cpu: int) -> Node:
    return Node(name, Amounts.of({"cpu": cpu, "memory": 1 << 30}), Labels.of({HOSTNAME: name}))


def pod(name: str, cpu: int, on: str = "", **more: object) -> ObservedPod:
    value = Pod(name, requests=Amounts.of({"cpu": cpu}), **more)  # type: ignore[arg-type]
    return ObservedPod(value, f"uid-{name}", "cotenant", 0.0, node=on)


def cluster(*nodes: Node, by: str = "least-allocated") -> Cluster:
    made = Cluster(profile(by), np.random.default_rng(1))
    for node in nodes:
        made.node_seen(node)
    return made


def told(instructions: tuple[Instruction, ...]) -> dict[str, Unschedulable]:
    return {i.key.partition("/")[2]: i for i in instructions if isinstance(i, Unschedulable)}


def placed(instructions: tuple[Instruction, ...]) -> set[str]:
    return {i.key.partition("/")[2] for i in instructions if isinstance(i, Bind)}


def test_the_nearest_miss_stands_behind_the_sentence_and_in_the_record() -> None:
    c = cluster(node("a", 800), node("b", 800), node("c", 500))
    c.pod_seen(pod("x", 1000), 0.0)
    said = told(c.decide(0.0))["x"]
    assert said.message == "0/3 nodes are available: 3 Insufficient cpu. 2 nodes fit but for 200m cpu."
    assert said.record.nearest == "2 nodes fit but for 200m cpu"
    assert said.record.headline() == "0/3 nodes are available: 3 Insufficient cpu."


def test_preemption_has_the_word_before_the_nearest_miss() -> None:
    c = cluster(node("a", 800))
    c.pod_seen(pod("low", 500, on="a"), 0.0)
    c.pod_seen(pod("x", 1000, priority=10), 0.0)
    message = told(c.decide(0.0))["x"].message
    assert message.startswith("0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available")
    assert message.endswith(". 1 node fits but for 700m cpu.")


def test_a_reason_without_an_amount_is_not_said_twice() -> None:
    c = cluster(node("a", 800))
    c.pod_seen(pod("x", 100, node_selector=Labels.of({"disk": "tape"})), 0.0)
    said = told(c.decide(0.0))["x"]
    assert said.message == "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    assert said.record.nearest == "1 node fits but for node(s) didn't match Pod's node affinity/selector"


def test_another_nearest_miss_alone_is_not_told_anew() -> None:
    c = cluster(node("a", 800))
    c.pod_seen(pod("x", 1000), 0.0)
    assert "200m" in told(c.decide(0.0))["x"].message
    c.node_seen(node("a", 900))
    assert told(c.decide(400.0)) == {}  # looked at again after the flush, and the sentence is the same
    c.pod_seen(pod("y", 1000), 401.0)
    assert "100m" in told(c.decide(401.0))["y"].message  # a newcomer hears the group's newest verdict


def test_resources_come_before_rules_and_each_that_gives_way_wakes_the_pod() -> None:
    c = cluster(node("a", 1000))
    c.pod_seen(pod("web", 100, on="a", labels=WEB), 0.0)
    c.pod_seen(pod("full", 900, on="a"), 0.0)
    c.pod_seen(pod("x", 500, labels=WEB, anti_affinity=ALONE), 0.0)
    first = told(c.decide(0.0))["x"]
    assert [rejection.filter for rejection in first.record.rejections] == ["NodeResourcesFit"]
    assert first.record.nearest == ""  # two things are in its way
    c.pod_gone("uid-full", 10.0)
    second = told(c.decide(10.0))["x"]
    assert [rejection.filter for rejection in second.record.rejections] == ["InterPodAffinity"]
    c.pod_gone("uid-web", 30.0)
    assert placed(c.decide(30.0)) == {"x"}
    c.validate()


def test_a_profile_by_predicted_use_tells_what_it_judges_by() -> None:
    c = cluster(node("a", 1000), by="cotenant")
    hungry = pod("x", 900)
    hungry = replace(
        hungry, pod=replace(hungry.pod, qos=QoSClass.BE, estimate=PodEstimate(2.0, 1 << 20))
    )  # fits by its requests
    c.pod_seen(hungry, 0.0)
    said = told(c.decide(0.0))["x"]
    assert [rejection.filter for rejection in said.record.rejections] == ["LoadThreshold"]


@pytest.mark.slow
def test_ten_thousand_refused_alike_share_one_explanation() -> None:
    c = cluster(*(node(f"n{i}", 800) for i in range(20)))
    for i in range(10_000):
        c.pod_seen(pod(f"p{i}", 1000), 0.0)
    said = told(c.decide(0.0)).values()
    assert len(said) == 10_000
    assert {unschedulable.message for unschedulable in said} == {
        "0/20 nodes are available: 20 Insufficient cpu. 20 nodes fit but for 200m cpu."
    }
    assert len({id(unschedulable.record) for unschedulable in said}) == 1
    for i in range(100):  # labels of their own, and no rule is about them: a verdict each, and one explanation
        c.pod_seen(pod(f"q{i}", 1000, labels=Labels.of({"pod-index": str(i)})), 1.0)
    said = told(c.decide(1.0)).values()
    assert len({id(unschedulable.record) for unschedulable in said}) == 100
    assert len({id(unschedulable.record.rejections) for unschedulable in said}) == 1
