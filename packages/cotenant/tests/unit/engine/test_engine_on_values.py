"""Kubernetes values through the encoder, the ledger and the engine: the whole way of a pod, without an API server."""

from __future__ import annotations

from collections import Counter

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.cycle.score_parts import Ranking, Seen, table
from cotenant.engine.framework.instructions import Bind, Unschedulable
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.affinity import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodTerm,
    PreferredTerm,
    SpreadConstraint,
)
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import HostPort, Pod
from cotenant.model.cluster.taints import Taint, TaintEffect, Toleration
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

SIZE = Amounts.of({"cpu": 4000, "memory": 8 << 30})
WEB = LabelSelector.of({"app": "web"})


class World:
    """The engine over nodes in these zones, by the profile `kube-default`; pods that are bound stay bound."""

    def __init__(self, *zones: str) -> None:
        self.engine = Cluster(profile("kube-default"), np.random.default_rng(1), EngineSettings(max_pods=100))
        self.nodes: dict[str, Node] = {}
        self.records: dict[str, DecisionRecord] = {}  # the latest of each pod, by name
        for zone in zones:
            self.add_node(self.node(zone))

    def node(self, zone: str) -> Node:
        name = f"n{len(self.nodes)}"
        return Node(name, SIZE, Labels.of({ZONE: zone, HOSTNAME: name}))

    def add_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.engine.node_seen(node)

    def submit(self, *pods: Pod) -> None:
        for pod in pods:
            self.engine.pod_seen(ObservedPod(pod, pod.name, "cotenant", 0.0), 0.0)

    def decide(self, now_s: float) -> dict[str, str]:
        """Pod -> node, in order of decision."""
        bound = {}
        for instruction in self.engine.decide(now_s):
            if isinstance(instruction, Bind):
                assert self.engine.sending(instruction.uid, now_s)
                self.engine.bound(instruction.uid, now_s)
                bound[instruction.uid] = instruction.node
            if isinstance(instruction, (Bind, Unschedulable)):
                self.records[instruction.uid] = instruction.record
        self.engine.validate()
        return bound

    def zones(self, bound: dict[str, str]) -> Counter[str | None]:
        return Counter(self.nodes[node].labels.get(ZONE) for node in bound.values())


def web(i: int, cpu: int = 500, **rules: object) -> Pod:
    return Pod(
        f"web-{i}", requests=Amounts.of({"cpu": cpu, "memory": 1 << 20}), labels=Labels.of({"app": "web"}), **rules
    )  # type: ignore[arg-type]


def test_replicas_spread_over_zones_of_unequal_size() -> None:
    cluster = World("a", "a", "a", "a", "b", "c")
    spread = (SpreadConstraint(ZONE, WEB),)
    cluster.submit(*(web(i, spread=spread) for i in range(9)))
    assert cluster.zones(cluster.decide(0.0)) == {"a": 3, "b": 3, "c": 3}


def test_a_full_zone_makes_the_other_replicas_wait_with_a_reason() -> None:
    cluster = World("a", "a", "b")
    spread = (SpreadConstraint(ZONE, WEB),)
    cluster.submit(*(web(i, cpu=2500, spread=spread) for i in range(5)))
    assert cluster.zones(cluster.decide(0.0)) == {"a": 2, "b": 1}
    assert cluster.records["web-4"].headline() == (
        "0/3 nodes are available: 3 Insufficient cpu."  # as in Kubernetes, resources are asked before spread
    )


def test_anti_affinity_allows_one_per_host_and_freed_hosts_are_used() -> None:
    cluster = World("a", "b")
    alone = (PodTerm(HOSTNAME, WEB),)
    cluster.submit(*(web(i, anti_affinity=alone) for i in range(4)))
    bound = cluster.decide(0.0)
    assert sorted(bound.values()) == ["n0", "n1"]
    assert cluster.decide(1.0) == {}
    cluster.engine.pod_gone(next(iter(bound)), 20.0)
    assert len(cluster.decide(20.0)) == 1  # the freed host
    cluster.add_node(cluster.node("c"))
    assert list(cluster.decide(40.0).values()) == ["n2"]  # the new host


def test_new_resources_and_tenants_keep_the_ledger_consistent() -> None:
    cluster = World("a")
    cluster.submit(web(0))
    cluster.decide(0.0)
    cluster.add_node(Node("gpu", SIZE + Amounts.of({"example.com/tpu": 2})))
    cluster.submit(*(Pod(f"g{i}", tenant=f"t{i}", requests=Amounts.of({"example.com/tpu": 1})) for i in range(3)))
    assert list(cluster.decide(1.0).values()) == ["gpu", "gpu"]
    allocated = cluster.engine._components.assignments.ledger.tenants.allocated
    assert allocated[:, 3].tolist() == [0, 1, 1, 0]
    assert allocated[0, 0] == 500


def test_the_record_has_what_the_nearest_nodes_lack() -> None:
    cluster = World("a", "a", "b")
    spread = (SpreadConstraint(ZONE, WEB),)
    cluster.submit(*(web(i, cpu=2500, spread=spread) for i in range(3)))
    cluster.decide(0.0)
    cluster.submit(web(9, cpu=100, spread=spread))
    cluster.submit(web(10, cpu=1800, spread=spread))
    assert cluster.zones(cluster.decide(1.0)) == {"b": 1}
    told = cluster.records["web-10"]
    assert told.headline() == "0/3 nodes are available: 3 Insufficient cpu."
    assert told.lines()[-1] == "  nearest: 2 nodes fit but for 300m cpu"


def test_preferences_decide_and_are_recorded_by_part() -> None:
    cluster = World("a", "b", "b")
    near = (PodTerm(ZONE, WEB, weight=50),)
    away = (PodTerm(HOSTNAME, WEB, weight=20),)
    cluster.submit(web(0, node_selector=Labels.of({HOSTNAME: "n1"})))
    cluster.decide(0.0)
    cluster.submit(web(1, affinity=near, anti_affinity=away))
    tables: list[Ranking] = []

    class Listener:
        def judging(self, seen: Seen) -> None:
            tables.append(table(seen))

    cluster.engine.observe(Listener())
    assert cluster.decide(1.0) == {"web-1": "n2"}  # in the zone, not on the host
    (best,) = tables[0].best(1)
    assert (best.node, best.rest()) == ("n2", 0.0)
    assert {part.name: part.value for part in best.parts}["pod affinity"] == 200.0
    assert best.parts[0].name == "profile score"


def test_soft_taints_and_preferred_labels_have_kubernetes_weights() -> None:
    cluster = World("a", "b")
    cluster.engine.node_seen(
        Node("n0", SIZE, Labels.of({ZONE: "a", HOSTNAME: "n0"}), (Taint("t", "", TaintEffect.PREFER_NO_SCHEDULE),))
    )
    likes_a = NodeAffinity(
        preferred=(PreferredTerm(7, NodeSelectorTerm((Requirement(ZONE, SelectorOperator.IN, ("a",)),))),)
    )
    cluster.submit(web(0, node_affinity=likes_a), web(1, node_affinity=likes_a, tolerations=(Toleration("t"),)))
    decided = cluster.decide(0.0)
    # 3 x taints outweighs 2 x node affinity; the pod that tolerates the taint goes where it prefers to
    assert decided == {"web-0": "n1", "web-1": "n0"}


def test_a_daemon_sets_pod_goes_to_its_node_and_a_host_port_is_taken_once() -> None:
    cluster = World("a", "b")

    def daemon(i: int) -> Pod:
        named = NodeSelectorTerm((), (Requirement("metadata.name", SelectorOperator.IN, (f"n{i}",)),))
        return web(i, node_affinity=NodeAffinity(NodeSelector((named,))), host_ports=(HostPort(9100),))

    cluster.submit(daemon(1), daemon(0))
    assert cluster.decide(0.0) == {"web-1": "n1", "web-0": "n0"}
    cluster.submit(web(7, host_ports=(HostPort(9100),)))
    assert cluster.decide(1.0) == {}
