"""Room that is made for a pod that waits is kept for it while pods are moved: single pods, gangs and GPUs, with
other pods arriving meanwhile.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.rebalancer.plan import MovePlan
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.settings import Defragmentation, MoveKinds, MoveLimits, RebalancerSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.devices.rules import DeviceRules
from cotenant.model.cluster.demands import NO_HOLDINGS, Demands
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ExpectedRoom, ObservedPod, OwnedBy, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.groups.gang import GangNotes
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.policy.rebalance.migration.evictable import EvictionFilter, EvictionGate

GIB = 1 << 30
GPU_BYTES = 80 * GIB
UNTIL = 2000.0


class Field:
    """A cluster as a scheduler has it, and a planner on an engine of its own that sees the same objects."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.scheduler, watched = (
            Cluster(
                profile("kube-default"),
                np.random.default_rng(0),
                EngineSettings(schedulers=("cotenant",)),
                PluginRegistry(devices=DeviceRules()),
            )
            for _ in range(2)
        )
        self.watched = watched
        settings = RebalancerSettings(
            (),
            filter=EvictionFilter(
                skip=frozenset({EvictionGate.MAX_UNAVAILABLE, EvictionGate.MAX_MOVING, EvictionGate.EXPECTED_REPLICAS})
            ),
            limits=MoveLimits(per_node=None),
            kinds=MoveKinds(defragmentation=Defragmentation()),
        )
        self.planner = Planner(watched, settings, lambda key: EvictionNotes(is_ready=True))
        self.planner.workload_seen("uid-w", 50)
        self.pods: dict[str, ObservedPod] = {}

    def node(self, name: str, cpu_m: int, gpus: int = 0) -> None:
        amounts = {"cpu": cpu_m, "memory": 512 * GIB, "pods": 50, **({NVIDIA_GPU: gpus} if gpus else {})}
        whole = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: GPU_BYTES})
        devices = tuple(
            Device(DeviceType.GPU, i, whole, True, numa=0, pcie=str(i), id=f"{name}-{i}") for i in range(gpus)
        )
        for cluster in (self.scheduler, self.watched):
            cluster.node_seen(Node(name, Amounts.of(amounts), Labels.of({HOSTNAME: name})))
            if gpus:
                cluster.plugins.devices.seen(NodeDevices(name, devices))

    def pod(self, name: str, on: str, cpu_m: int, gpu: int = 0, held: tuple[int, ...] = (), **more: object) -> None:
        """`gpu`: percent of GPUs; `held`: their numbers."""
        gang, priority = str(more.get("gang", "")), int(str(more.get("priority", 0)))
        size = int(str(more.get("size", 1)))
        asks = {GPU_CORE: gpu, GPU_MEMORY_RATIO: gpu} if gpu else {}
        value = Pod(name, requests=Amounts.of({"cpu": cpu_m, "memory": GIB, **asks}), priority=priority)
        share = gpu // max(1, len(held))
        amounts = Amounts.of({GPU_CORE: share, GPU_MEMORY_RATIO: share, GPU_MEMORY: GPU_BYTES * share // 100})
        holds = (
            replace(NO_HOLDINGS, devices=tuple(DeviceAllocation(DeviceType.GPU, number, amounts) for number in held))
            if held
            else NO_HOLDINGS
        )
        self.see(
            ObservedPod(
                value,
                f"u-{name}",
                "cotenant",
                0.0,
                on,
                PodPhase.RUNNING if on else PodPhase.PENDING,
                demands=Demands(gang=GangNotes(name=gang, min_available=size) if gang else None),
                holds=holds,
                owned_by=(OwnedBy("apps/v1", "ReplicaSet", "w", "uid-w", True),),
            )
        )

    def see(self, seen: ObservedPod) -> None:
        self.pods[seen.uid] = seen
        for cluster in (self.scheduler, self.watched):
            cluster.pod_seen(seen, self.now_s)

    def gone(self, uid: str) -> None:
        del self.pods[uid]
        for cluster in (self.scheduler, self.watched):
            cluster.pod_gone(uid, self.now_s)

    def step(self, seconds: float = 20.0) -> dict[str, str]:
        """Time passes, and the scheduler works: name -> node of what it bound."""
        self.now_s += seconds
        bound = {}
        for instruction in self.scheduler.decide(self.now_s):
            if isinstance(instruction, Bind):
                assert self.scheduler.sending(instruction.uid, self.now_s)
                self.scheduler.bound(instruction.uid, self.now_s)
                holds = instruction.holds if instruction.holds != NO_HOLDINGS else self.pods[instruction.uid].holds
                self.see(
                    replace(self.pods[instruction.uid], node=instruction.node, phase=PodPhase.RUNNING, holds=holds)
                )
                bound[instruction.key.partition("/")[2]] = instruction.node
        self.scheduler.validate()
        return bound

    def plan(self) -> MovePlan:
        """A plan, with the room on its targets taken by reservations."""
        plan = self.planner.plan_beside(self.now_s)
        for move in plan.moves:
            seen = self.pods[move.uid]
            value = replace(seen.pod, name=f"reserved-{seen.pod.name}")
            self.see(replace(seen, uid=f"reserved-{move.uid}", pod=value, node=move.target, holds=NO_HOLDINGS))
        return plan

    def keep(self, plan: MovePlan, until_s: float = UNTIL) -> None:
        """What the rebalancer writes before anything moves."""
        for room in plan.rooms:
            self.see(replace(self.pods[room.uid], expected_room=ExpectedRoom(room.node, until_s, room.pods)))

    def move(self, plan: MovePlan, at: int) -> None:
        """Carry one move out: the replacement takes the reservation on its target, and the pod leaves."""
        move = plan.moves[at]
        seen = self.pods[move.uid]
        self.gone(move.uid)
        self.gone(f"reserved-{move.uid}")
        self.see(
            replace(
                seen,
                uid=f"{move.uid}-new",
                pod=replace(seen.pod, name=f"{seen.pod.name}-new"),
                node=move.target,
                holds=NO_HOLDINGS,
            )
        )


def in_pieces() -> Field:
    """Node a has two pods of 3 cores that fit on b and c; a pod of 8 cores waits for a."""
    field = Field()
    for name, cpu_m in (("a", 8000), ("b", 4000), ("c", 4000)):
        field.node(name, cpu_m)
    field.pod("a1", "a", 3000)
    field.pod("a2", "a", 3000)
    field.pod("big", "", 8000)
    field.step()
    field.now_s += 100.0
    return field


@pytest.mark.parametrize("kept", [True, False])
def test_room_that_is_freed_piece_by_piece_is_kept_for_the_pod_that_waits(kept: bool) -> None:
    field = in_pieces()
    plan = field.plan()
    assert {move.pod for move in plan.moves} == {"default/a1", "default/a2"}
    (room,) = plan.rooms
    assert (room.pod, room.node, sorted(room.pods)) == ("default/big", "a", ["u-a1", "u-a2"])
    if kept:
        field.keep(plan)
    assert field.step() == {}
    field.move(plan, 0)
    field.pod("small", "", 3000)
    assert field.step() == ({} if kept else {"small": "a"})
    field.move(plan, 1)
    assert field.step().get("big") == ("a" if kept else None)
    assert not field.scheduler.reserved()


def test_a_more_important_pod_takes_the_room() -> None:
    field = in_pieces()
    plan = field.plan()
    field.keep(plan)
    field.move(plan, 0)
    field.pod("urgent", "", 3000, priority=7)
    assert field.step() == {"urgent": "a"}


def test_the_room_is_given_up_when_its_time_is_over_or_its_annotation_goes() -> None:
    for late in (True, False):
        field = in_pieces()
        plan = field.plan()
        field.keep(plan, field.now_s + 60.0)
        field.move(plan, 0)
        field.pod("small", "", 3000)
        assert field.step() == {}
        assert field.scheduler.reserved() == {"u-big": "a"}
        if late:
            assert field.scheduler.next_s() <= field.now_s + 60.0
            assert field.step(60.0) == {"small": "a"}
        else:
            field.see(replace(field.pods["u-big"], expected_room=None))
            assert field.step() == {"small": "a"}
        assert not field.scheduler.reserved()


def test_no_annotation_keeps_room_for_longer_than_half_an_hour() -> None:
    field = in_pieces()
    plan = field.plan()
    field.keep(plan, 1e12)
    field.move(plan, 0)
    field.pod("small", "", 3000)
    assert field.step(1700.0) == {}
    assert field.step(200.0) == {"small": "a"}


def test_a_scheduler_that_starts_anew_keeps_the_room() -> None:
    field = in_pieces()
    plan = field.plan()
    field.keep(plan)
    field.move(plan, 0)
    again = Field()
    for name, cpu_m in (("a", 8000), ("b", 4000), ("c", 4000)):
        again.node(name, cpu_m)
    again.now_s = field.now_s
    for seen in sorted(field.pods.values(), key=lambda pod: bool(pod.node)):  # those that wait are listed first
        again.see(seen)
    again.pod("small", "", 3000)
    assert again.step() == {}
    again.scheduler.rebuild(again.now_s)
    assert again.step() == {}
    again.move(plan, 1)
    assert again.step().get("big") == "a"


def test_an_update_of_the_pod_that_waits_does_not_lose_its_room() -> None:
    field = in_pieces()
    plan = field.plan()
    field.keep(plan)
    field.move(plan, 0)
    seen = field.pods["u-big"]
    field.see(replace(seen, pod=replace(seen.pod, labels=Labels.of({"team": "x"}))))
    field.pod("small", "", 3000)
    assert field.step() == {}


def test_another_preemptor_may_evict_a_pod_that_is_being_moved() -> None:
    field = in_pieces()
    plan = field.plan()
    field.keep(plan)
    field.step()
    field.pod("urgent", "", 6000, priority=7)
    found = field.scheduler.decide(field.now_s + 1.0)
    victims = {victim.key for instruction in found for victim in getattr(instruction, "victims", ())}
    assert victims
    assert victims <= {"default/a1", "default/a2"}


@pytest.mark.parametrize("kept", [True, False])
def test_room_for_a_whole_gang_is_kept_on_every_node(kept: bool) -> None:
    field = Field()
    for name, cpu_m in (("a", 8000), ("b", 8000), ("c", 3000), ("d", 3000)):
        field.node(name, cpu_m)
    field.pod("a1", "a", 3000)
    field.pod("b1", "b", 3000)
    for i in range(2):
        field.pod(f"g{i}", "", 8000, gang="g", size=2)
    field.step()
    field.now_s += 100.0
    plan = field.plan()
    assert {move.pod for move in plan.moves} == {"default/a1", "default/b1"}
    assert len({move.about for move in plan.moves}) == 1
    assert {(room.pod, room.node) for room in plan.rooms} in (
        {("default/g0", "a"), ("default/g1", "b")},
        {("default/g0", "b"), ("default/g1", "a")},
    )
    if kept:
        field.keep(plan)
    field.move(plan, 0)
    field.pod("small", "", 5000)
    assert field.step() == ({} if kept else {"small": plan.moves[0].node})
    field.move(plan, 1)
    bound = field.step()
    assert {"g0", "g1"} <= bound.keys() if kept else not {"g0", "g1"} & bound.keys()


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("kept", [True, False])
def test_room_for_a_group_of_gpus_is_kept_from_pods_and_whole_gangs(kept: bool, size: int) -> None:
    field = Field()
    for name in "ab":
        field.node(name, 64_000, gpus=4)
    for i in (0, 2):
        field.pod(f"a{i}", "a", 100, 100, (i,))
    for i in (0, 1, 2):
        field.pod(f"b{i}", "b", 100, 50, (i,))
    field.pod("whole", "", 100, 400)
    field.step()
    field.now_s += 100.0
    plan = field.plan()
    assert plan.rooms
    assert {move.node for move in plan.moves} == {plan.rooms[0].node}
    if kept:
        field.keep(plan)
    for at in range(len(plan.moves)):
        field.move(plan, at)
        for i in range(size):
            field.pod(f"small{at}-{i}", "", 100, 100 // size, gang=f"small{at}" if size > 1 else "", size=size)
        bound = field.step()
        taken = [node for name, node in bound.items() if name != "whole" and node == plan.rooms[0].node]
        assert not (kept and taken)
    assert (field.pods["u-whole"].node == plan.rooms[0].node) == kept


@pytest.mark.parametrize("seed", range(36))
def test_a_plan_that_is_carried_out_places_what_waited_whatever_arrives_meanwhile(seed: int) -> None:
    """Random nodes with residents of CPU and GPUs; a pod, a gang, or a pod of several GPUs waits, and others arrive
    after every move.
    """
    rng = np.random.default_rng(seed)
    field = Field()
    kind = ("single", "gang", "gpus")[seed % 3]
    names = [f"n{i}" for i in range(int(rng.integers(3, 6)))]
    for name in names:
        field.node(name, 10_000, 4 if kind == "gpus" else 0)
        free = list(range(4))
        for i in range(int(rng.integers(1, 4))):
            held = (free.pop(int(rng.integers(len(free)))),) if kind == "gpus" else ()
            field.pod(f"{name}-{i}", name, 1000 * int(rng.integers(1, 4)), 100 if held else 0, held)
    members = 1 if kind != "gang" else int(rng.integers(2, 4))
    for i in range(members):
        cpu_m = 100 if kind == "gpus" else 1000 * int(rng.integers(7, 10))
        gang = {"gang": "g", "size": members} if kind == "gang" else {}
        field.pod(f"waits-{i}", "", cpu_m, 100 * int(rng.integers(3, 5)) if kind == "gpus" else 0, **gang)
    field.step()
    if all(field.pods[f"u-waits-{i}"].node for i in range(members)):
        return
    field.now_s += 100.0
    plan = field.plan()
    if not plan.moves:
        assert not plan.rooms
        return
    assert {room.uid for room in plan.rooms} == {f"u-waits-{i}" for i in range(members)}
    assert {uid for room in plan.rooms for uid in room.pods} <= {move.uid for move in plan.moves}
    field.keep(plan)
    for at in range(len(plan.moves)):
        size = int(rng.integers(1, 3))
        for i in range(size):  # a pod, or a whole gang
            gang = {"gang": f"arrives-{at}", "size": size} if size > 1 else {}
            field.pod(f"arrives-{at}-{i}", "", 1000 * int(rng.integers(1, 5)), 100 if kind == "gpus" else 0, **gang)
        field.step()
        field.move(plan, at)
        field.step()
    field.step()
    for room in plan.rooms:
        assert field.pods[room.uid].node == room.node, kind
