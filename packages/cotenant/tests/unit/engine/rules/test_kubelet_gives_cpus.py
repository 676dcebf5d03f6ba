"""A node whose kubelet gives CPUs: none are chosen there, and a pod to which the kubelet gives none is refused with
a reason.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.cpu_cluster import EIGHT, Api, node, pod, tells, zones

from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.reported import NodeTopology
from cotenant.model.cpus.spec import NodeBindPolicy, TopologyPolicy


def static(name: str, **more: object) -> NodeTopology:
    return tells(name, EIGHT, kubelet_gives=True, **more)


def whole(name: str, cpu: int = 2) -> ObservedPod:
    """A Guaranteed pod whose containers have whole CPUs."""
    made = pod(name, cpu)
    return replace(made, pod=replace(made.pod, has_whole_cpus=True))


def test_a_pod_to_which_the_kubelet_gives_none_is_refused_with_a_reason() -> None:
    api = Api(node("a"), told=[static("a")])
    api.create(pod("cart"), pod("plain", qos=QoSClass.LS))
    api.turn()
    assert api.where("cart") == ""
    assert "1 node(s) where the kubelet's static CPU manager gives CPUs" in api.waits["cart"]
    assert "to Guaranteed pods whose containers have whole CPUs, which this pod is not" in api.waits["cart"]
    assert api.where("plain") == "a"
    assert api.victims == []


def test_a_guaranteed_pod_is_placed_and_gets_what_the_kubelet_chooses() -> None:
    api = Api(node("a"), told=[static("a", kept=[0, 1, 2, 3])])
    api.create(whole("cart", 6))
    api.turn()
    assert api.where("cart") == "a"  # the kubelet counts, by requests: we do not
    assert api.pods["uid-cart"].holds.cpus is None


def test_another_node_gives_cpus_as_before() -> None:
    api = Api(node("a"), node("b"), told=[static("a"), tells("b")])
    api.create(pod("cart"))
    api.turn()
    assert api.where("cart") == "b"
    status = api.pods["uid-cart"].holds.cpus
    assert status is not None
    assert len(status.cpus) == 2


@pytest.mark.parametrize(("cpu", "where"), [(2, "a"), (3, "")])
def test_a_kubelet_of_whole_cores_refuses_parts_of_one(cpu: int, where: str) -> None:
    api = Api(node("a"), told=[static("a", bind=NodeBindPolicy.FULL_CORES_ONLY)])
    api.create(whole("cart", cpu))
    api.turn()
    assert api.where("cart") == where
    if not where:
        assert "the kubelet gives whole cores only (3 CPUs requested, a core has 2)" in api.waits["cart"]


def test_its_topology_manager_still_aligns() -> None:
    told = static("a", policy=TopologyPolicy.SINGLE_NUMA_NODE, zones=zones(8, 8))
    api = Api(node("a"), told=[told])
    api.create(whole("four", 4), whole("two", 2), whole("six", 6))
    api.turn()
    assert (api.where("four"), api.where("two"), api.where("six")) == ("a", "a", "")


def test_a_kubelet_that_becomes_static_leaves_what_was_given() -> None:
    api = Api(node("a"))
    api.create(pod("cart"))
    api.turn()
    api.tell(static("a"))
    api.create(pod("other"))
    api.turn()
    assert (api.where("cart"), api.where("other")) == ("a", "")
    api.cluster.validate()
