from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm, PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import ZONE, Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.node import KUBELET_MAX_PODS, Node
from cotenant.model.cluster.pod import HostPort, Pod, PodEstimate
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.cluster.taints import Taint, TaintEffect
from cotenant.model.cluster.topology import Domains
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import Amounts

SIZE = Amounts.of({"cpu": 4000, "memory": 1 << 30, "pods": 10})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "pod"),
        ({"requests": Amounts.of({"pods": 1})}, "requests.pods"),
        ({"deadline_s": nan}, "deadline"),
        ({"load_limit": nan}, "load limit"),
        ({"load_limit": 0.0}, "load limit"),
        ({"objective_p99_ms": nan}, "latency objective"),
        ({"objective_p99_ms": -1.0}, "latency objective"),
        ({"group": "g", "group_limit": 0}, "group limit"),
    ],
)
def test_absurd_pods_are_refused_with_the_field(changes: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        replace(Pod("p"), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["use_cpu_cores", "use_memory_bytes", "sensitivity", "pressure"])
@pytest.mark.parametrize("value", [nan, inf, -1.0])
def test_absurd_estimates_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=name):
        replace(PodEstimate(1.0, 1), **{name: value})


@pytest.mark.parametrize("name", ["allowance", "duration_s"])
def test_endless_is_allowed_where_it_means_something(name: str) -> None:
    assert getattr(replace(PodEstimate(1.0, 1), **{name: inf}), name) == inf
    for value in (nan, -0.5):
        with pytest.raises(InvalidInput, match=name):
            replace(PodEstimate(1.0, 1), **{name: value})


def test_equal_pods_have_equal_shapes_whatever_they_are_called() -> None:
    one = Pod("a", "ns", Amounts.of({"cpu": 1}), labels=Labels.of({"app": "a"}), deadline_s=5.0, priority=5500)
    two = replace(one, name="b", labels=Labels.of({"app": "b"}), deadline_s=9.0, priority=5001)
    assert one.shape() == two.shape()
    assert hash(one.shape()) == hash(two.shape())
    assert one.shape() != replace(one, requests=Amounts.of({"cpu": 2})).shape()
    assert one.shape() != replace(one, namespace="other").shape()  # another tenant
    assert replace(one, tenant="t").shape() == replace(one, tenant="t", namespace="other").shape()


def test_rules_about_other_pods_make_no_shape() -> None:
    one = Pod("a", labels=Labels.of({"app": "a"}))
    spread = (SpreadConstraint(ZONE, LabelSelector.of({"app": "a"})),)
    anti = (PodTerm(ZONE, LabelSelector()),)
    assert (
        one.shape()
        == replace(one, spread=spread, affinity=anti, anti_affinity=anti, host_ports=(HostPort(80),)).shape()
    )


def test_the_pods_of_a_daemon_set_share_a_shape() -> None:
    disk = Requirement("disk", SelectorOperator.IN, ("ssd",))

    def of(name: str, *more: Requirement) -> Pod:
        named = (Requirement("metadata.name", SelectorOperator.IN, (name,)),)
        return Pod("d", node_affinity=NodeAffinity(NodeSelector((NodeSelectorTerm(more, named),))))

    assert (of("n1").pinned, of("n2", disk).pinned) == ("n1", "n2")
    assert of("n1").shape() == of("n2").shape() == Pod("d").shape()
    assert of("n1", disk).shape() == of("n2", disk).shape() != Pod("d").shape()
    either = NodeSelector(
        (NodeSelectorTerm((disk,)), NodeSelectorTerm((), (Requirement("metadata.name", SelectorOperator.IN, ("n1",)),)))
    )
    assert Pod("d", node_affinity=NodeAffinity(either)).pinned is None
    excluded = NodeSelector((NodeSelectorTerm((), (Requirement("metadata.name", SelectorOperator.NOT_IN, ("n1",)),)),))
    assert Pod("d", node_affinity=NodeAffinity(excluded)).pinned is None
    assert Pod("d", node_affinity=NodeAffinity(excluded)).shape() != Pod("d").shape()


def test_a_host_port_without_address_takes_every_address() -> None:
    assert HostPort(80, address="") == HostPort(80)
    assert HostPort(80).conflicts(HostPort(80, address="10.0.0.1"))
    assert not HostPort(80, address="10.0.0.2").conflicts(HostPort(80, address="10.0.0.1"))
    assert not HostPort(80).conflicts(HostPort(80, "UDP"))
    with pytest.raises(InvalidInput, match="hostPort"):
        HostPort(0)


def test_what_is_a_service() -> None:
    assert Pod("p", priority_class=PriorityClass.PROD).is_service
    assert Pod("p", qos=QoSClass.LS).is_service
    assert not Pod("p", qos=QoSClass.BE).is_service
    assert not Pod("p", qos=QoSClass.LS, priority_class=PriorityClass.MID).is_service
    assert not Pod("p").is_service
    assert Pod("p", objective_p99_ms=10.0).is_service


def test_a_node_without_resources_is_refused() -> None:
    for missing in ("cpu", "memory"):
        for amounts in ({n: a for n, a in SIZE if n != missing}, {**dict(SIZE), missing: 0}):
            with pytest.raises(InvalidInput, match=f"node n: allocatable.{missing}: 0: expected more than 0"):
                Node("n", Amounts.of(amounts))
    with pytest.raises(InvalidInput, match="a name"):
        Node("", SIZE)


def test_pod_slots_default_to_the_kubelets() -> None:
    assert Node("n", SIZE).allocatable.get("pods") == 10
    assert Node("n", Amounts.of({"cpu": 1, "memory": 1})).allocatable.get("pods") == KUBELET_MAX_PODS
    assert Node("n", Amounts.of({"cpu": 1, "memory": 1, "pods": 0})).allocatable.get("pods") == 0


def test_a_cordoned_node_has_a_taint_that_can_be_tolerated() -> None:
    own = Taint("gpu")
    cordoned = Node("n", SIZE, taints=(own,), unschedulable=True)
    assert [t.key for t in cordoned.effective_taints] == ["node.kubernetes.io/unschedulable", "gpu"]
    both = replace(cordoned, taints=(Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE),))
    assert len(both.effective_taints) == 1
    assert Node("n", SIZE, taints=(own,)).effective_taints == (own,)


def test_domains_number_the_values_of_a_key() -> None:
    nodes = [Node(f"n{i}", SIZE, Labels.of({ZONE: z} if z else {})) for i, z in enumerate(["b", "a", "", "b"])]
    domains = Domains.of(ZONE, nodes)
    assert domains.names == ("b", "a")
    assert domains.of_node.tolist() == [0, 1, -1, 0]
    assert domains.total(np.array([1, 10, 100, 1000])).tolist() == [1001, 10]
    where = np.array([True, False, True, False])
    assert domains.total(np.array([1, 10, 100, 1000]), where).tolist() == [1, 0]
    assert domains.present(where).tolist() == [True, False]
