"""Kubernetes values through the encoder, the ledger and the scheduler: the whole way of a pod, without an API server."""

from __future__ import annotations

from collections import Counter

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.scheduler import Scheduler
from cotenant.engine.state.ledger import Ledger
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.arrays import Int, PendingArrays
from cotenant.model.cluster.affinity import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodTerm,
    PreferredTerm,
    SpreadConstraint,
)
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector, Operator, Requirement
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import HostPort, Pod
from cotenant.model.cluster.taints import Effect, Taint, Toleration
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

SIZE = Amounts.of({"cpu": 4000, "memory": 8 << 30})
WEB = LabelSelector.of({"app": "web"})


class Cluster:
    def __init__(self, *zones: str) -> None:
        self.encoder = Encoder(half_node_cores=2.0)
        self.narrowing = Narrowing(self.encoder)
        for zone in zones:
            self.encoder.add_node(self.node(zone))
        self.ledger = Ledger(self.encoder.nodes(), self.encoder.shapes(), 0, 0)
        self.scheduler = Scheduler(
            self.ledger, profile("kube-default"), np.random.default_rng(1), narrowing=self.narrowing
        )
        self.numbers: dict[str, int] = {}

    def node(self, zone: str) -> Node:
        name = f"n{len(self.encoder.node_rows)}"
        return Node(name, SIZE, Labels.of({ZONE: zone, HOSTNAME: name}))

    def adopt(self) -> None:
        self.ledger.adopt(self.encoder.nodes(), self.encoder.shapes(), len(self.encoder.tenants))

    def submit(self, *pods: Pod) -> None:
        added = []
        for pod in pods:
            number, shape = self.encoder.add_pod(pod)
            self.narrowing.watch(number, pod, shape)
            self.numbers[pod.name] = number
            added.append((number, shape, float(pod.is_service)))
        self.adopt()
        number, shape, service = (np.array(column) for column in zip(*added, strict=True))
        size = len(added)
        self.scheduler.submit(
            PendingArrays(
                pod=number,
                shape=shape,
                tenant=self.ledger.shapes.tenant[shape],
                job=np.full(size, -1),
                stage=shape,
                is_service=service > 0,
                ready_s=np.zeros(size),
                deadline_s=np.full(size, np.inf),
                path_s=np.zeros(size),
                work=np.zeros(size),
            ),
            now_s=0.0,
        )

    def decide(self, now_s: float) -> Int:
        decision = self.scheduler.decide(now_s)
        self.scheduler.validate()
        return decision.rows

    def zones(self, rows: Int) -> Counter[str | None]:
        return Counter(self.encoder.node(row).labels.get(ZONE) for row in rows.tolist())


def web(i: int, cpu: int = 500, **rules: object) -> Pod:
    return Pod(
        f"web-{i}", requests=Amounts.of({"cpu": cpu, "memory": 1 << 20}), labels=Labels.of({"app": "web"}), **rules
    )  # type: ignore[arg-type]


def test_replicas_spread_over_zones_however_unequal() -> None:
    cluster = Cluster("a", "a", "a", "a", "b", "c")
    spread = (SpreadConstraint(ZONE, WEB),)
    cluster.submit(*(web(i, spread=spread) for i in range(9)))
    assert cluster.zones(cluster.decide(0.0)) == {"a": 3, "b": 3, "c": 3}


def test_a_full_zone_holds_the_others_back_and_says_so() -> None:
    cluster = Cluster("a", "a", "b")
    spread = (SpreadConstraint(ZONE, WEB),)
    cluster.submit(*(web(i, cpu=2500, spread=spread) for i in range(5)))
    cluster.scheduler.watch(np.array([cluster.numbers["web-4"]]))
    assert cluster.zones(cluster.decide(0.0)) == {"a": 2, "b": 1}
    assert cluster.scheduler.records[cluster.numbers["web-4"]].headline() == (
        "0/3 nodes are available: 3 Insufficient cpu."  # as in Kubernetes, resources are asked before spread
    )


def test_anti_affinity_leaves_one_a_host_and_room_made_is_used() -> None:
    cluster = Cluster("a", "b")
    alone = (PodTerm(HOSTNAME, WEB),)
    cluster.submit(*(web(i, anti_affinity=alone) for i in range(4)))
    rows = cluster.decide(0.0)
    assert sorted(rows.tolist()) == [0, 1]
    assert len(cluster.decide(1.0)) == 0
    seated = np.flatnonzero(cluster.ledger.row >= 0)
    cluster.scheduler.finish(seated[:1], 2.0)
    assert len(cluster.decide(2.0)) == 1  # the freed host
    cluster.encoder.add_node(cluster.node("c"))
    cluster.adopt()
    assert cluster.decide(3.0).tolist() == [2]  # the new host


def test_new_resources_and_tenants_keep_the_ledger_whole() -> None:
    cluster = Cluster("a")
    cluster.submit(web(0))
    cluster.decide(0.0)
    cluster.encoder.add_node(Node("gpu", SIZE + Amounts.of({"nvidia.com/gpu": 2})))
    cluster.submit(*(Pod(f"g{i}", tenant=f"t{i}", requests=Amounts.of({"nvidia.com/gpu": 1})) for i in range(3)))
    assert cluster.decide(1.0).tolist() == [1, 1]
    assert cluster.ledger.tenants.allocated[:, 3].tolist() == [0, 1, 1, 0]
    assert cluster.ledger.tenants.allocated[0, 0] == 500


def test_the_record_says_what_the_nearest_nodes_lack() -> None:
    cluster = Cluster("a", "a", "b")
    spread = (SpreadConstraint(ZONE, WEB),)
    cluster.submit(*(web(i, cpu=2500, spread=spread) for i in range(3)))
    cluster.decide(0.0)
    cluster.submit(web(9, cpu=100, spread=spread))
    cluster.submit(web(10, cpu=1800, spread=spread))
    last = cluster.numbers["web-10"]
    cluster.scheduler.watch(np.array([last]))
    assert cluster.zones(cluster.decide(1.0)) == {"b": 1}
    told = cluster.scheduler.records[last]
    assert told.headline() == "0/3 nodes are available: 3 Insufficient cpu."
    assert told.lines()[-1] == "  nearest: 2 nodes fit but for 300m cpu"


def test_wishes_decide_and_are_told_part_by_part() -> None:
    cluster = Cluster("a", "b", "b")
    near = (PodTerm(ZONE, WEB, weight=50),)
    away = (PodTerm(HOSTNAME, WEB, weight=20),)
    cluster.submit(web(0, node_selector=Labels.of({HOSTNAME: "n1"})))
    cluster.decide(0.0)
    cluster.submit(web(1, affinity=near, anti_affinity=away))
    number = cluster.numbers["web-1"]
    cluster.scheduler.watch(np.array([number]))
    assert cluster.decide(1.0).tolist() == [2]  # in the zone, not on the host
    best = cluster.scheduler.records[number].candidates[0]
    assert (best.node, best.rest()) == ("node 2", 0.0)
    assert {part.name: part.value for part in best.parts}["pod affinity"] == 200.0
    assert best.parts[0].name == "profile score"


def test_soft_taints_and_preferred_labels_decide_in_kubernetes_weights() -> None:
    cluster = Cluster("a", "b")
    cluster.encoder.update_node(
        Node("n0", SIZE, Labels.of({ZONE: "a", HOSTNAME: "n0"}), (Taint("t", "", Effect.PREFER_NO_SCHEDULE),))
    )
    likes_a = NodeAffinity(preferred=(PreferredTerm(7, NodeSelectorTerm((Requirement(ZONE, Operator.IN, ("a",)),))),))
    cluster.submit(web(0, node_affinity=likes_a), web(1, node_affinity=likes_a, tolerations=(Toleration("t"),)))
    decided = cluster.decide(0.0)
    assert decided.tolist() == [
        1,
        0,
    ]  # 3 x taints outweighs 2 x node affinity; who tolerates the taint goes where it likes


def test_a_daemon_sets_pod_goes_to_its_node_and_a_host_port_is_taken_once() -> None:
    cluster = Cluster("a", "b")

    def daemon(i: int) -> Pod:
        named = NodeSelectorTerm((), (Requirement("metadata.name", Operator.IN, (f"n{i}",)),))
        return web(i, node_affinity=NodeAffinity(NodeSelector((named,))), host_ports=(HostPort(9100),))

    cluster.submit(daemon(1), daemon(0))
    assert cluster.decide(0.0).tolist() == [1, 0]
    cluster.submit(web(7, host_ports=(HostPort(9100),)))
    assert len(cluster.decide(1.0)) == 0
