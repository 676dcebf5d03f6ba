"""Readiness of Kubernetes nodes acts through taints; a node without taints takes pods whatever its condition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from cotenant.drivers.kube.kinds.node import NodeObject, read_node
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Unschedulable
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Match, TaintEffect, Toleration
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

NOT_READY = "node.kubernetes.io/not-ready"
EVERYTHING = Toleration("", Match.EXISTS)
ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def node(ready: str, *taints: tuple[str, TaintEffect]) -> Node:
    made: dict[str, Any] = {
        "metadata": {"name": "n"},
        "spec": {"taints": [{"key": key, "effect": effect.value} for key, effect in taints]},
        "status": {"allocatable": ALLOCATABLE, "conditions": [{"type": "Ready", "status": ready}] if ready else []},
    }
    return read_node(msgspec.json.decode(msgspec.json.encode(made), type=NodeObject))


def cluster(*nodes: Node) -> Cluster:
    made = Cluster(profile("least-allocated"), np.random.default_rng(1), EngineSettings())
    for node in nodes:
        made.node_seen(node)
    return made


def pod(*tolerations: Toleration) -> ObservedPod:
    value = Pod("p", requests=Amounts.of({"cpu": 100}), tolerations=tolerations)
    return ObservedPod(value, "uid", "cotenant", 0.0)


@pytest.mark.parametrize("ready", ["False", "Unknown", ""])
def test_a_pod_that_tolerates_everything_reaches_a_node_that_is_not_ready(ready: str) -> None:
    c = cluster(node(ready, (NOT_READY, TaintEffect.NO_SCHEDULE), (NOT_READY, TaintEffect.NO_EXECUTE)))
    c.pod_seen(pod(EVERYTHING), 0.0)
    (bind,) = c.decide(0.0)
    assert isinstance(bind, Bind)


def test_other_pods_are_refused_by_the_taint_and_bound_once_it_is_removed() -> None:
    c = cluster(node("False", (NOT_READY, TaintEffect.NO_SCHEDULE)))
    c.pod_seen(pod(), 0.0)
    (refused,) = c.decide(0.0)
    assert isinstance(refused, Unschedulable)
    assert refused.message == f"0/1 nodes are available: 1 node(s) had untolerated taint {{{NOT_READY}: }}."
    c.node_seen(node("True"))
    (bind,) = c.decide(5.0)
    assert isinstance(bind, Bind)


def test_without_taints_the_condition_alone_excludes_no_pod() -> None:
    c = cluster(node("False"))
    c.pod_seen(pod(), 0.0)
    (bind,) = c.decide(0.0)
    assert isinstance(bind, Bind)


def test_a_failed_node_of_the_lab_takes_no_pod_whatever_it_tolerates() -> None:
    c = cluster(replace(node("False"), taints_decide=False))
    c.pod_seen(pod(EVERYTHING), 0.0)
    (refused,) = c.decide(0.0)
    assert isinstance(refused, Unschedulable)
