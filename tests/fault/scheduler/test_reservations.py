"""Reservations against everything that may happen in any order: lost answers, late words, deletions, time, nodes that
go, and a scheduler that starts anew.

The truth is what the API server holds. Whatever happens: a node's pods and what is left of its living reservations
never exceed it, no device is anybody's twice, and the engine adds up.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.fakes.cluster.reservation_world import World, node, pod, reservation, web

from cotenant.engine.framework.instructions import Bind, Instruction
from cotenant.engine.plugins.reservations.instructions import DeleteReservation, ReservationStatus, ReserveNode
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.groups.reservation import AllocatePolicy, Reservation
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NOTHING, NVIDIA_GPU, Amounts

NODES = ("a", "b")
CPU, PLACES, CARDS = 4000, 4, 3
ASKS = (NOTHING, NOTHING, Amounts.of({NVIDIA_GPU: 1}), Amounts.of({NVIDIA_GPU: 2}), Amounts.of({GPU: 50}))


def cards(name: str) -> NodeDevices:
    whole = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 1000})
    return NodeDevices(name, tuple(Device(DeviceType.GPU, i, whole, id=f"{name}{i}") for i in range(CARDS)))


class Reserved(RuleBasedStateMachine):
    """Random events in random order."""

    @initialize()
    def start(self) -> None:
        self.world = World(*(node(name, CPU, pods=PLACES) for name in NODES))
        for name in NODES:
            self.world.devices(cards(name))
        self.sent: list[Bind | ReserveNode] = []
        self.owed: list[ObservedPod | Reservation | str] = []  # what the watch has not told yet; a name = deleted
        self.born = 0
        self.create_reservation(3000, False, 0.0, AllocatePolicy.DEFAULT, Amounts.of({NVIDIA_GPU: 2}))
        self.go_on(0.0, True)

    # ---- people

    @rule(
        owner=st.booleans(), cpu=st.sampled_from([500, 1000, 2500]), many=st.integers(1, 3), also=st.sampled_from(ASKS)
    )
    def create_pods(self, owner: bool, cpu: int, many: int, also: Amounts) -> None:
        for _ in range(many):
            self.born += 1
            self.hold((web if owner else pod)(f"p{self.born}", cpu, also=also, created_s=float(self.born)))

    @rule(
        cpu=st.sampled_from([1000, 3000]),
        once=st.booleans(),
        ttl_s=st.sampled_from([0.0, 20.0]),
        policy=st.sampled_from(list(AllocatePolicy)),
        also=st.sampled_from(ASKS),
    )
    def create_reservation(self, cpu: int, once: bool, ttl_s: float, policy: AllocatePolicy, also: Amounts) -> None:
        self.born += 1
        made = reservation(f"r{self.born}", cpu, also, allocate_once=once, ttl_s=ttl_s, policy=policy)
        self.hold(replace(made, created_s=self.world.now_s))

    @precondition(lambda self: self.world.pods)
    @rule(i=st.integers(0, 50), ends=st.booleans())
    def end_pod(self, i: int, ends: bool) -> None:
        uid = sorted(self.world.pods)[i % len(self.world.pods)]
        seen = self.world.pods[uid]
        if ends and seen.node:
            self.hold(replace(seen, phase=PodPhase.SUCCEEDED))
        else:
            del self.world.pods[uid]
            self.owed.append(uid)

    @precondition(lambda self: self.world.held)
    @rule(i=st.integers(0, 50))
    def delete_reservation(self, i: int) -> None:
        uid = sorted(self.world.held)[i % len(self.world.held)]
        self.owed.append("reservation " + self.world.held.pop(uid).name)

    @rule(name=st.sampled_from(NODES))
    def lose_node(self, name: str) -> None:
        if name in self.world.cluster._nodes:
            self.world.cluster.node_gone(name, self.world.now_s)
        else:
            self.world.cluster.node_seen(node(name, CPU, pods=PLACES))

    # ---- the scheduler and its server

    @rule(after_s=st.sampled_from([0.0, 1.0, 12.0]), answered=st.booleans())
    def go_on(self, after_s: float, answered: bool) -> None:
        """What happens most of the time: all is told, judged, and mostly answered."""
        for _ in range(2):
            while self.owed:
                self.deliver()
            self.decide(after_s)
            while answered and self.sent:
                self.answer("well")

    @rule(after_s=st.sampled_from([0.0, 1.0, 12.0]))
    def decide(self, after_s: float) -> None:
        self.world.now_s += after_s
        for instruction in self.world.cluster.decide(self.world.now_s):
            self.obey(instruction)

    def obey(self, instruction: Instruction) -> None:
        if isinstance(instruction, (Bind, ReserveNode)):
            self.sent.append(instruction)
        elif isinstance(instruction, ReservationStatus):
            self.write(instruction)
        elif isinstance(instruction, DeleteReservation) and instruction.uid in self.world.held:
            del self.world.held[instruction.uid]
            self.owed.append(f"reservation {instruction.key}")

    def write(self, status: ReservationStatus, **more: object) -> None:
        held = self.world.held.get(status.uid)
        if held is not None:
            self.hold(
                replace(
                    held,
                    **more,  # type: ignore[arg-type]
                    phase=status.phase,
                    node=status.node,
                    allocatable=status.allocatable,
                    allocated=status.allocated,
                    current=status.owners,
                    conditions=status.conditions,
                )
            )

    @precondition(lambda self: self.sent)
    @rule(how=st.sampled_from(["well", "well", "refused", "lost"]))
    def answer(self, how: str) -> None:
        entry = self.sent.pop(0)
        cluster, now_s = self.world.cluster, self.world.now_s
        if not cluster.sending(entry.uid, now_s):
            return
        there = entry.uid in (self.world.held if isinstance(entry, ReserveNode) else self.world.pods)
        if how == "refused" or not there:
            cluster.bind_failed(entry.uid, "refused", now_s, retry=there)
            return
        if isinstance(entry, ReserveNode):
            self.write(entry.status, holds=entry.holds)
        else:
            self.hold(replace(self.world.pods[entry.uid], node=entry.node, holds=entry.holds))
        if how == "lost":
            while self.owed:  # whoever reads the object learns how it stands before anybody says that it failed
                self.deliver()
        cluster.bound(entry.uid, now_s)

    def hold(self, made: ObservedPod | Reservation) -> None:
        if isinstance(made, Reservation):
            self.world.held[made.uid] = made
        elif made.phase.is_final:
            self.world.pods.pop(made.uid, None)
        else:
            self.world.pods[made.uid] = made
        self.owed.append(made)

    @precondition(lambda self: self.owed)
    @rule()
    def deliver(self) -> None:
        entry, world = self.owed.pop(0), self.world
        if isinstance(entry, Reservation):
            world.reservations.seen(entry, world.now_s)
        elif isinstance(entry, ObservedPod):
            world.cluster.pod_seen(entry, world.now_s)
        elif entry.startswith("reservation "):
            world.reservations.gone(entry.removeprefix("reservation "), world.now_s)
        else:
            world.cluster.pod_gone(entry, world.now_s)

    @rule()
    def rebuild(self) -> None:
        self.world.cluster.rebuild(self.world.now_s)

    @rule()
    def crash(self) -> None:
        self.sent.clear()
        self.owed.clear()
        self.world = self.world.again()

    # ---- what must hold

    @invariant()
    def adds_up(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.cluster.validate()
        for name in NODES:
            assert self.world.room_taken(name) <= CPU, name
            assert self.world.places_taken(name) <= PLACES, name
            assert all(percent <= 100 for percent in self.world.percent_taken(name).values()), name
        for held in self.world.held.values():
            owners = self.world.drew_from(held)
            assert not held.allocate_once or len(owners) <= 1
            kept = {part.minor for part in held.holds.devices}
            if kept and held.policy is AllocatePolicy.RESTRICTED:
                assert all(part.minor in kept for owner in owners for part in owner.holds.devices)

    def teardown(self) -> None:
        """Left alone, everything is told, ended and given back."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for _ in range(12):
            while self.owed:
                self.deliver()
            while self.sent:
                self.answer("well")
            self.decide(31.0)
        while self.owed:
            self.deliver()
        for uid in list(world.pods):
            world.pods.pop(uid)
            world.cluster.pod_gone(uid, world.now_s)
        for held in list(world.held.values()):
            if not held.phase.is_final and held.node and held.node in world.cluster._nodes:
                view = world.reservations.describe(held.name)
                assert view is not None
                assert (view.left, view.holds) == (world.left(held), world.kept(held).holds)
            world.reservations.gone(held.name, world.now_s)
            del world.held[held.uid]
        world.cluster.decide(world.now_s)
        world.cluster.validate()
        assert world.cluster.size()[1] == 0
        assert not world.cluster._components.assignments.ledger.nodes.requested.any()
        for summary in world.cluster.plugins.devices.summaries():
            assert all(not device.holders for device in summary.devices)


Reserved.TestCase.settings = settings(
    max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestReserved = pytest.mark.slow(Reserved.TestCase)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_busy_cluster(seed: int) -> None:
    """The same machine, driven towards what is interesting: most of the time things go well, and many pods draw."""
    random = Random(seed)
    machine = Reserved()
    machine.start()
    for _ in range(60):
        match random.choice(
            ["pods", "pods", "on", "on", "on", "end", "reserve", "node", "tell", "answer", "forget", "again"]
        ):
            case "pods":
                machine.create_pods(
                    random.random() < 0.7, random.choice([500, 1000, 2500]), random.randint(1, 3), random.choice(ASKS)
                )
            case "on":
                machine.go_on(random.choice([0.0, 1.0, 12.0]), random.random() < 0.7)
            case "end" if machine.world.pods:
                machine.end_pod(random.randint(0, 50), random.random() < 0.5)
            case "reserve":
                policy = random.choice(list(AllocatePolicy))
                machine.create_reservation(
                    random.choice([1000, 3000]),
                    random.random() < 0.5,
                    random.choice([0.0, 20.0]),
                    policy,
                    random.choice(ASKS),
                )
            case "node" if random.random() < 0.3:
                machine.lose_node(random.choice(NODES))
            case "tell" if machine.owed:
                machine.deliver()
            case "answer" if machine.sent:
                machine.answer(random.choice(["well", "refused", "lost"]))
            case "forget" if machine.world.held and random.random() < 0.3:
                machine.delete_reservation(random.randint(0, 9))
            case "again" if random.random() < 0.5:
                random.choice([machine.rebuild, machine.crash])()
            case _:
                pass
        machine.adds_up()
    machine.teardown()
