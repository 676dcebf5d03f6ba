"""Volume limits of nodes, inline disks, zones and free storage, in the narrowing and in the whole engine."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.cycle.rejections import Rejector
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.instructions import Bind, Preempt, Unschedulable
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.state.narrowing import Narrowing
from cotenant.engine.state.storage import attach_limits, inline_disks
from cotenant.engine.state.storage.volumes import REASON_NONE, REASON_ROOM, REASON_ZONE
from cotenant.model.cluster.affinity import NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import HOSTNAME, Labels, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import (
    Attachment,
    ClaimBinding,
    InlineDisk,
    NodeStorage,
    ObservedPod,
    PodPhase,
    StorageRoom,
    VolumeNeed,
    VolumeOption,
)
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

SIZE = Amounts.of({"cpu": 10_000, "memory": 10_000})
DRIVER = "csi.example"
ANYWHERE = (VolumeOption("v", None),)


def on(*names: str) -> NodeSelector:
    return NodeSelector((NodeSelectorTerm((Requirement(HOSTNAME, SelectorOperator.IN, names),)),))


def csi(claim: str, handle: str) -> VolumeNeed:
    return VolumeNeed(f"default/{claim}", ClaimBinding.BOUND, ANYWHERE, attachment=Attachment(DRIVER, handle))


def disk(identity: str, read_only: bool = False, monitors: tuple[str, ...] = ()) -> VolumeNeed:
    return VolumeNeed(identity, ClaimBinding.BOUND, ANYWHERE, disk=InlineDisk(identity, read_only, monitors))


def limited(limit: int, *attached: str, node: str = "n0") -> NodeStorage:
    return NodeStorage(node, ((DRIVER, limit),), frozenset(Attachment(DRIVER, name) for name in attached))


class Nodes:
    """Three nodes."""

    def __init__(self) -> None:
        self.encoder = Encoder(half_node_cores=1.0)
        for i in range(3):
            self.encoder.add_node(Node(f"n{i}", SIZE, Labels.of({HOSTNAME: f"n{i}"})))
        self.narrowing = Narrowing(self.encoder)
        self.limits = self.narrowing.volumes.limits
        self.made = 0

    def add(self, *needs: VolumeNeed, row: int = -1) -> int:
        self.made += 1
        pod = Pod(f"p{self.made}")
        number, shape = self.encoder.add_pod(pod)
        self.narrowing.add_pod(number, pod, shape, needs)
        if row >= 0:
            self.narrowing.assign(number, row)
        return number

    def rows(self, number: int) -> list[bool]:
        return self.narrowing.allowed(number).tolist() or [True] * 3  # no rule applies: every row

    def reasons(self, number: int) -> dict[str, int]:
        found = Rejector(self.encoder, self.narrowing, profile("first-fit")).explain(number)
        return {rejection.reason: rejection.nodes for rejection in found.rejections}


def test_a_node_attaches_no_more_volumes_than_its_limit() -> None:
    nodes = Nodes()
    nodes.limits.set_storage(limited(1))
    first = nodes.add(csi("a", "h1"), row=0)
    second = nodes.add(csi("b", "h2"))
    assert nodes.rows(second) == [False, True, True]
    assert nodes.reasons(second) == {attach_limits.REASON: 1}
    nodes.narrowing.unassign(first)
    assert nodes.rows(second) == [True, True, True]


def test_claims_of_one_volume_count_once() -> None:
    nodes = Nodes()
    nodes.limits.set_storage(limited(1))
    assert nodes.rows(nodes.add(csi("a", "h1"), csi("b", "h1"))) == [True, True, True]
    assert nodes.rows(nodes.add(csi("a", "h1"), csi("b", "h2"))) == [False, True, True]
    nodes.add(csi("a", "h1"), row=0)
    assert nodes.rows(nodes.add(csi("c", "h1"))) == [True, True, True]


def test_attached_volumes_count_with_or_without_a_pod() -> None:
    nodes = Nodes()
    nodes.limits.set_storage(limited(2, "gone", "h1"))
    nodes.add(csi("a", "h1"), row=0)
    other = nodes.add(csi("b", "h2"))
    assert nodes.rows(other) == [False, True, True]
    nodes.limits.set_storage(limited(2, "h1"))
    assert nodes.rows(other) == [True, True, True]
    nodes.limits.set_storage(limited(2, "h1", "h2"))
    assert nodes.rows(other) == [True, True, True]


def test_a_driver_without_limits_costs_nothing() -> None:
    nodes = Nodes()
    number = nodes.add(csi("a", "h1"))
    assert nodes.limits.feasible([Attachment(DRIVER, "h1")]) is None
    nodes.limits.set_storage(limited(0))
    assert nodes.rows(number) == [False, True, True]
    nodes.limits.set_storage(NodeStorage("n0"))
    assert nodes.limits.feasible([Attachment(DRIVER, "h1")]) is None


@pytest.mark.parametrize(
    ("used", "wanted", "both"),
    [
        (disk("gcePersistentDisk pd"), disk("gcePersistentDisk pd"), False),
        (disk("gcePersistentDisk pd", True), disk("gcePersistentDisk pd"), False),
        (disk("gcePersistentDisk pd", True), disk("gcePersistentDisk pd", True), True),
        (disk("gcePersistentDisk pd"), disk("gcePersistentDisk other"), True),
        (disk("rbd rbd/i", False, ("m1", "m2")), disk("rbd rbd/i", False, ("m2",)), False),
        (disk("rbd rbd/i", False, ("m1",)), disk("rbd rbd/i", False, ("m2",)), True),
    ],
)
def test_inline_disks_on_one_node(used: VolumeNeed, wanted: VolumeNeed, both: bool) -> None:
    nodes = Nodes()
    nodes.add(used, row=1)
    number = nodes.add(wanted)
    assert nodes.rows(number) == [True, both, True]
    assert nodes.reasons(number) == ({} if both else {inline_disks.REASON: 1})


def test_zone_and_room_have_their_own_reasons() -> None:
    nodes = Nodes()
    bound = VolumeNeed("d/a", ClaimBinding.BOUND, (VolumeOption("v", None, zone=on("n1")),))
    number = nodes.add(bound)
    assert nodes.rows(number) == [False, True, False]
    assert nodes.reasons(number) == {REASON_ZONE: 2}
    new = VolumeNeed("d/b", ClaimBinding.PROVISIONED, (VolumeOption("", on("n0", "n1"), room=StorageRoom(on("n1"))),))
    number = nodes.add(new)
    assert nodes.rows(number) == [False, True, False]
    assert nodes.reasons(number) == {REASON_NONE: 1, REASON_ROOM: 1}
    assert nodes.narrowing.choices(number, 0) == ()
    assert len(nodes.narrowing.choices(number, 1)) == 1


# ---- in the engine


def engine(nodes: int = 1) -> Cluster:
    made = Cluster(profile("least-allocated"), np.random.default_rng(1), EngineSettings())
    for i in range(nodes):
        made.node_seen(Node(f"n{i}", SIZE, Labels.of({HOSTNAME: f"n{i}"})))
    return made


def pod(name: str, *needs: VolumeNeed, priority: int = 0, on: str = "") -> ObservedPod:
    value = Pod(name, requests=Amounts.of({"cpu": 10}), priority=priority)
    phase = PodPhase.RUNNING if on else PodPhase.PENDING
    return ObservedPod(value, f"uid-{name}", "cotenant", 0.0, node=on, phase=phase, volumes=needs)


def test_a_refused_pod_wakes_when_the_limit_rises_and_stays_refused_otherwise() -> None:
    c = engine()
    c.node_storage_seen(limited(1))
    for name in ("a", "b"):
        c.pod_seen(pod(name, csi(name, name)), 0.0)
    given = c.decide(0.0)
    assert [type(instruction) for instruction in given] == [Bind, Unschedulable]
    refused = next(instruction for instruction in given if isinstance(instruction, Unschedulable))
    assert refused.message.startswith("0/1 nodes are available: 1 node(s) exceed max volume count.")
    c.rebuild(1.0)
    assert c.decide(20.0) == ()
    c.node_storage_seen(limited(2))
    assert [type(instruction) for instruction in c.decide(40.0)] == [Bind]
    c.validate()


def test_preemption_frees_volumes_and_disks() -> None:
    c = engine()
    c.node_storage_seen(limited(1))
    c.pod_seen(pod("low", csi("a", "h1"), on="n0"), 0.0)
    c.pod_seen(pod("unrelated", on="n0"), 0.0)
    c.pod_seen(pod("high", csi("b", "h2"), priority=10), 0.0)
    preempt = next(instruction for instruction in c.decide(0.0) if isinstance(instruction, Preempt))
    assert [victim.key for victim in preempt.victims] == ["default/low"]
    c = engine()
    c.pod_seen(pod("low", disk("gcePersistentDisk pd"), on="n0"), 0.0)
    c.pod_seen(pod("high", disk("gcePersistentDisk pd"), priority=10), 0.0)
    preempt = next(instruction for instruction in c.decide(0.0) if isinstance(instruction, Preempt))
    assert [victim.key for victim in preempt.victims] == ["default/low"]


def test_evicting_a_pod_does_not_free_a_volume_that_stays_attached() -> None:
    c = engine()
    c.node_storage_seen(limited(1, "h1"))
    c.pod_seen(pod("low", csi("a", "h1"), on="n0"), 0.0)
    c.pod_seen(pod("high", csi("b", "h2"), priority=10), 0.0)
    assert not [instruction for instruction in c.decide(0.0) if isinstance(instruction, Preempt)]
