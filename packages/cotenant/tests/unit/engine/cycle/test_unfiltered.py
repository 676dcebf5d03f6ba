"""Filters that a pod's profile leaves out: each alone lets the pod onto the one node that it refuses, and no other
does; what is not a filter still counts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Unschedulable
from cotenant.model.cluster.affinity import NodeInclusionPolicy, PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import HostPort, Pod
from cotenant.model.cluster.taints import Taint
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

WEB = LabelSelector((Requirement("app", SelectorOperator.IN, ("web",)),))
PLUGINS = ("TaintToleration", "NodeAffinity", "NodePorts", "InterPodAffinity", "PodTopologySpread")
POD = Pod("p", requests=Amounts.of({"cpu": 100}), labels=Labels((("app", "web"),)))


def cluster(*nodes: Node) -> Cluster:
    made = Cluster(profile("first-fit"), np.random.default_rng(0))
    for node in nodes:
        made.node_seen(node)
    return made


def node(name: str, *taints: Taint, cordoned: bool = False, **labels: str) -> Node:
    size = Amounts.of({"cpu": 4_000, "memory": 16 << 30, "pods": 20})
    named = Labels(tuple(sorted({HOSTNAME: name, **labels}.items())))
    return Node(name, size, labels=named, taints=taints, unschedulable=cordoned)


def where(made: Cluster, pod: Pod) -> str:
    """The node that a pod is bound to, or the filter that kept it off."""
    made.pod_seen(ObservedPod(pod, pod.name, "cotenant", 0.0), 1.0)
    (told,) = made.decide(1.0)
    made.validate()
    if isinstance(told, Bind):
        return told.node
    assert isinstance(told, Unschedulable)
    (rejection,) = told.record.rejections
    return rejection.filter


def refused_by(plugin: str) -> tuple[Cluster, Pod]:
    """A cluster of one node, with a resident, and a pod that this plugin keeps off it."""
    resident = replace(POD, name="r", host_ports=(HostPort(80),))
    made = cluster(node("n", *((Taint("busy"),) if plugin == "TaintToleration" else ())))
    made.pod_seen(ObservedPod(resident, "r", "other", 0.0, node="n"), 0.0)
    here = SpreadConstraint(HOSTNAME, WEB, min_domains=2)
    pods = {
        "NodeAffinity": replace(POD, node_selector=Labels((("disk", "fast"),))),
        "NodePorts": replace(POD, host_ports=(HostPort(80),)),
        "InterPodAffinity": replace(POD, anti_affinity=(PodTerm(HOSTNAME, WEB),)),
        "PodTopologySpread": replace(POD, spread=(here,)),
    }
    return made, pods.get(plugin, POD)


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("left_out", PLUGINS)
def test_only_the_filter_that_is_left_out_lets_it_pass(plugin: str, left_out: str) -> None:
    made, pod = refused_by(plugin)
    found = where(made, replace(pod, unfiltered=frozenset({left_out})))
    assert found == ("n" if plugin == left_out else plugin)


def test_anti_affinity_of_a_resident_is_that_filter_too() -> None:
    made = cluster(node("n"))
    resident = replace(POD, name="r", anti_affinity=(PodTerm(HOSTNAME, WEB),))
    made.pod_seen(ObservedPod(resident, "r", "other", 0.0, node="n"), 0.0)
    assert where(made, replace(POD, name="q")) == "InterPodAffinity"
    assert where(made, replace(POD, unfiltered=frozenset({"InterPodAffinity"}))) == "n"


def test_a_cordoned_node_has_a_taint_as_well() -> None:
    for left_out, expected in (
        ({"NodeUnschedulable"}, "NodeUnschedulable"),
        ({"TaintToleration"}, "NodeUnschedulable"),
        ({"NodeUnschedulable", "TaintToleration"}, "n"),
    ):
        made = cluster(node("n", cordoned=True))
        assert where(made, replace(POD, unfiltered=frozenset(left_out))) == expected


def test_taints_beyond_the_bits_of_a_word() -> None:
    made = cluster(*(node(f"n{i:02}", Taint(f"t{i:02}")) for i in range(70)))
    for i in range(69):  # every node but the last is taken
        full = Pod(f"full{i}", requests=Amounts.of({"cpu": 4_000}))
        made.pod_seen(ObservedPod(full, full.name, "other", 0.0, node=f"n{i:02}"), 0.0)
    assert where(made, replace(POD, unfiltered=frozenset({"TaintToleration"}))) == "n69"


@pytest.mark.parametrize("plugin", ["NodeAffinity", "TaintToleration"])
def test_spread_honours_what_is_not_filtered_by(plugin: str) -> None:
    """Two pods are on n1; n2 is not the pod's, so that it is no domain: the skew is none where it is left out."""
    taints = (Taint("busy"),) if plugin == "TaintToleration" else ()
    made = cluster(node("n1", disk="fast"), node("n2", *taints, disk="slow"))
    for i in range(2):
        resident = replace(POD, name=f"r{i}")
        made.pod_seen(ObservedPod(resident, resident.name, "other", 0.0, node="n1"), 0.0)
    constraint = SpreadConstraint(HOSTNAME, WEB, node_taints_policy=NodeInclusionPolicy.HONOR)
    pod = replace(POD, spread=(constraint,), unfiltered=frozenset({plugin}))
    if plugin == "NodeAffinity":
        pod = replace(pod, node_selector=Labels((("disk", "fast"),)))
    assert where(made, pod) == "n1"
