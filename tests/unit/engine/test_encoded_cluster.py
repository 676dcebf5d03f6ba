"""Kubernetes values through the encoder, the ledger and the scheduler: the whole way of a pod, without an API server."""

from __future__ import annotations

from collections import Counter

import numpy as np

from cotenant.engine.encoding import Encoder
from cotenant.engine.ledger import Ledger
from cotenant.engine.narrowing import Narrowing
from cotenant.engine.scheduler import Scheduler
from cotenant.model.affinity import PodTerm, SpreadConstraint
from cotenant.model.arrays import Int, PendingArrays
from cotenant.model.labels import HOSTNAME, ZONE, Labels, LabelSelector
from cotenant.model.node import Node
from cotenant.model.pod import Pod
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
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match pod topology spread constraints."
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
