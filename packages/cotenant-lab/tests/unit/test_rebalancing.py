"""The lab's driver of a rebalancer with a few pods placed by hand: room for a pod that waits, an emptied node, and
what a failed node does to a reservation.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.rebalancer.settings import Defragmentation, MoveKinds, Packing, RebalancerSettings
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.migration import JobPhase
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant_lab.rebalancing import LabRebalancer, Shapes, Turn

GIB = 1 << 30
SMALL, LARGE = 0, 1  # shapes


def node(name: str) -> Node:
    return Node(name, Amounts.of({"cpu": 4000, "memory": 64 * GIB, "pods": 50}))


class Driven:
    """Nodes of four cores, and pods of a service of one core each."""

    def __init__(self, kinds: MoveKinds, placed: str) -> None:
        """`placed`: the node of each small pod."""
        settings = RebalancerSettings(pools=(), kinds=kinds)
        shapes = Shapes((True, False), (4, 2))
        self.lab = LabRebalancer(
            profile("kube-default"), EngineSettings(schedulers=("cotenant",)), settings, shapes, 0.0, 0.0
        )
        for name in sorted(set(placed)):
            self.lab.node_seen(node(name))
        for number, name in enumerate(placed):
            self.pod(f"p{number}", SMALL, 1000)
            self.lab.bound(f"p{number}", name, 0.0)

    def pod(self, name: str, shape: int, cpu_m: int, now_s: float = 0.0) -> ObservedPod:
        made = Pod(
            name, requests=Amounts.of({"cpu": cpu_m, "memory": GIB}), objective_p99_ms=100.0 if shape == SMALL else None
        )
        seen = ObservedPod(made, name, "cotenant", now_s)
        self.lab.pod_seen(seen, shape, now_s)
        return seen

    def replace(self, uid: str, now_s: float) -> str:
        """The pod is gone, and its controller creates another one; the node that is reserved for it."""
        self.lab.pod_gone(uid, now_s)
        seen = self.pod(f"{uid}-again", SMALL, 1000, now_s)
        room = self.lab.room_for(seen, SMALL)
        if room:
            self.lab.bound(seen.uid, room, now_s)
        return room

    def until(self, end_s: float, begin_s: float = 5.0) -> tuple[float, Turn]:
        """Steps until something is evicted."""
        now_s = begin_s
        while now_s <= end_s:
            turn = self.lab.step(now_s)
            if turn.evict or turn.rooms:
                return now_s, turn
            now_s += 5.0
        raise AssertionError("nothing moved")


def test_room_is_kept_for_the_pod_that_waits_before_the_pod_in_its_way_is_evicted() -> None:
    driven = Driven(MoveKinds(defragmentation=Defragmentation()), "aabb")
    driven.pod("large", LARGE, 3000)
    now_s, turn = driven.until(300.0)
    assert now_s >= 60.0, "not before it has waited"
    (evicted,) = turn.evict
    (room,) = turn.rooms
    assert room.uid == "large"
    assert room.expected_room is not None
    assert room.expected_room.pods == (evicted,)
    other = {"a": "b", "b": "a"}[room.expected_room.node]
    assert driven.replace(evicted, now_s) == other
    driven.lab.step(now_s + 5.0)
    (job,) = driven.lab.migrations.jobs.values()
    assert job.phase is JobPhase.SUCCEEDED
    assert len(driven.lab.cluster.pods_on(room.expected_room.node)) == 1


def test_a_node_is_emptied_one_pod_of_a_workload_at_a_time() -> None:
    driven = Driven(MoveKinds(packing=Packing({"cpu": 60.0})), "aabb")
    now_s, turn = driven.until(300.0)
    (first,) = turn.evict
    source = {"p0": "a", "p1": "a", "p2": "b", "p3": "b"}[first]
    assert driven.replace(first, now_s) != source
    later_s, turn = driven.until(1200.0, now_s + 5.0)
    (second,) = turn.evict
    assert later_s - now_s >= 150.0, "its workload rests: two of four replicas in five minutes"
    assert driven.replace(second, later_s) != source
    assert driven.lab.cluster.pods_on(source) == ()


def test_a_reservation_on_a_node_that_fails_is_not_taken() -> None:
    driven = Driven(MoveKinds(packing=Packing({"cpu": 60.0})), "aabb")
    now_s, turn = driven.until(300.0)
    (uid,) = turn.evict
    (target,) = {job.note.target for job in driven.lab.migrations.jobs.values() if job.note is not None}
    driven.lab.node_seen(replace(node(target), ready=False))
    assert driven.replace(uid, now_s) == ""
    driven.lab.step(now_s + 5.0)
    (job,) = driven.lab.migrations.jobs.values()
    assert job.phase is JobPhase.FAILED
