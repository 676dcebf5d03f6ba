"""Nodes on which another scheduler places: closed, counted, and opened."""

from __future__ import annotations

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Unschedulable
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.decisions.answers import WhatIf
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

GIB = 1 << 30


def cluster() -> Cluster:
    made = Cluster(profile("cotenant-requests"), np.random.default_rng(1))
    for name in ("a", "b", "c"):
        made.node_seen(Node(name, Amounts.of({"cpu": 4000, "memory": 8 * GIB})))
    return made


def pod(name: str, node: str = "", cpu: int = 1000) -> ObservedPod:
    return ObservedPod(
        Pod(name, requests=Amounts.of({"cpu": cpu, "memory": GIB})), f"uid-{name}", "cotenant", 0.0, node=node
    )


def placed(made: Cluster, now_s: float) -> dict[str, str]:
    return {one.key: one.node for one in made.decide(now_s) if isinstance(one, Bind)}


def test_nothing_is_placed_on_a_closed_node_and_what_is_there_counts() -> None:
    made = cluster()
    made.closed.close(("a", "b"), 0.0)
    made.pod_seen(pod("there", "a"), 0.0)
    for number in range(4):
        made.pod_seen(pod(f"p{number}"), 0.0)
    assert set(placed(made, 0.0).values()) == {"c"}
    assert [entry.seen.pod.name for entry in made.pods_on("a")] == ["there"]
    made.validate()


def test_a_pod_without_room_says_so_and_which_closed_nodes_have_room() -> None:
    made = cluster()
    made.closed.close(("a", "b"), 0.0)
    made.pod_seen(pod("there", "a", 3000), 0.0)
    made.pod_seen(pod("full", "c", 4000), 0.0)
    made.pod_seen(pod("waits", cpu=2000), 0.0)
    (told,) = [one for one in made.decide(0.0) if isinstance(one, Unschedulable)]
    assert "2 node(s) belonged to another shard" in told.message
    assert "1 Insufficient cpu" in told.message
    assert list(made.closed.helpful(4)) == [(1, {"b": 2})]
    made.closed.open(("b",))
    assert placed(made, 10.0) == {"default/waits": "b"}
    made.validate()


def test_closed_nodes_stay_closed_when_their_object_changes_and_after_a_rebuild() -> None:
    made = cluster()
    made.closed.close(("a", "b", "later"), 0.0)
    made.node_seen(Node("a", Amounts.of({"cpu": 64000, "memory": 64 * GIB})))
    made.node_seen(Node("later", Amounts.of({"cpu": 64000, "memory": 64 * GIB})))
    made.rebuild(0.0)
    made.pod_seen(pod("p"), 0.0)
    assert set(placed(made, 0.0).values()) == {"c"}
    assert made.closed.names == {"a", "b", "later"}


def test_a_pod_that_is_given_up_is_forgotten_and_comes_back() -> None:
    made = cluster()
    made.pod_seen(pod("p"), 0.0)
    assert made.closed.waiting() is not None
    assert made.closed.give_up("uid-p", 0.0)
    assert made.closed.waiting() is None
    assert not made.decide(0.0)
    made.pod_seen(pod("p"), 1.0)
    assert placed(made, 1.0)
    assert not made.closed.give_up("uid-p", 1.0)  # its bind is decided
    assert [entry.seen.uid for entry in made.closed.deciding()] == ["uid-p"]
    assert made.sending("uid-p", 1.0)
    made.bound("uid-p", 1.0)
    assert not list(made.closed.deciding())


def test_an_answer_about_a_waiting_pod_knows_closed_nodes() -> None:
    made = cluster()
    made.closed.close(("a", "b"), 0.0)
    made.pod_seen(pod("full", "c", 4000), 0.0)
    made.pod_seen(pod("waits"), 0.0)
    made.decide(0.0)
    question = made.why.ask("default/waits", 1.0, WhatIf())
    assert question is not None
    answer = question.answer()
    assert answer.waiting is not None
    assert "belonged to another shard" in answer.waiting.because
