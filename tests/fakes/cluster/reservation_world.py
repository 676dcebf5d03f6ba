"""An API server's worth of pods and reservations around a cluster's engine: it accepts binds and statuses, and
tells of them as the test says.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.plugins.reservations.instructions import DeleteReservation, ReservationStatus, ReserveNode
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cpus.reported import NodeTopology
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.groups.reservation import Reservation, ReservationOwner, ReservationPhase
from cotenant.model.groups.reservation_notes import AllocatedReservation
from cotenant.model.resources import GPU_MEMORY_RATIO, NOTHING, Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.policy.placement.reservations.holding import ReservedAmounts, kept_after

WEB = Labels.of({"app": "web"})
OWNERS = (ReservationOwner(selector=LabelSelector.of({"app": "web"})),)


def size(cpu: int) -> Amounts:
    return Amounts.of({"cpu": cpu, "memory": cpu << 20})


def node(name: str, cpu: int = 4000, pods: int = 110) -> Node:
    return Node(name, size(cpu) + Amounts.of({"pods": pods}), Labels.of({HOSTNAME: name}))


def pod(name: str, cpu: int = 1000, on: str = "", also: Amounts = NOTHING, **more: object) -> ObservedPod:
    outer = {k: more.pop(k) for k in ("demands", "holds", "owned_by", "created_s", "preempts") if k in more}
    value = Pod(name, requests=size(cpu) + also, **more)  # type: ignore[arg-type]
    return ObservedPod(value, f"uid-{name}", "cotenant", float(outer.pop("created_s", 0.0)), node=on, **outer)  # type: ignore[arg-type]


def web(name: str, cpu: int = 1000, **more: object) -> ObservedPod:
    return pod(name, cpu, labels=WEB, **more)


def reservation(name: str = "r", cpu: int = 3000, also: Amounts = NOTHING, **more: object) -> Reservation:
    template = Pod(name, requests=size(cpu) + also, labels=more.pop("pod_labels", WEB))  # type: ignore[arg-type]
    return replace(Reservation(name, f"uid-{name}", template, OWNERS), **more)  # type: ignore[arg-type]


class World:
    """An engine, and an API server that holds what it is told."""

    def __init__(self, *nodes: Node, **settings: object) -> None:
        self.cluster = Cluster(profile("least-allocated"), np.random.default_rng(1), EngineSettings(**settings))  # type: ignore[arg-type]
        self.reservations = self.cluster.plugins.reservations
        self.held: dict[str, Reservation] = {}
        self.pods: dict[str, ObservedPod] = {}
        self.said: list[Instruction] = []
        self.told: dict[str, NodeDevices | NodeTopology] = {}
        self.now_s = 0.0
        for node in nodes:
            self.cluster.node_seen(node)

    def devices(self, told: NodeDevices) -> None:
        """A node tells its devices."""
        self.told[f"devices {told.node}"] = told
        self.cluster.plugins.devices.seen(told, self.now_s)

    def cpus(self, told: NodeTopology) -> None:
        """A node tells its CPUs."""
        self.told[f"cpus {told.name}"] = told
        self.cluster.plugins.cpus.topology_seen(told, self.now_s)

    def see(self, *objects: ObservedPod | Reservation) -> None:
        for observed_pod in objects:
            if isinstance(observed_pod, Reservation):
                self.held[observed_pod.uid] = observed_pod
                self.reservations.seen(observed_pod, self.now_s)
            else:
                self.pods[observed_pod.uid] = observed_pod
                self.cluster.pod_seen(observed_pod, self.now_s)

    def go(self, after_s: float = 0.0, answer: bool = True) -> tuple[Instruction, ...]:
        """Judge, carry out, and tell the engine what came of it."""
        self.now_s += after_s
        given: list[Instruction] = []
        while self.cluster.next_s() <= self.now_s:
            told = self.cluster.decide(self.now_s)
            for instruction in told:
                self.carry_out(instruction, answer)
            given += told
            self.cluster.validate()
            assert self.cluster.over_capacity() == ()
            if not answer:
                break
        self.said += given
        return tuple(given)

    def carry_out(self, instruction: Instruction, answer: bool) -> None:
        c = self.cluster
        if isinstance(instruction, (Bind, ReserveNode)) and answer:
            assert c.sending(instruction.uid, self.now_s)
            if isinstance(instruction, ReserveNode):
                self.annotate(instruction)
                self.written(instruction.status, holds=instruction.holds)
            else:
                seen = self.pods[instruction.uid]
                self.see(replace(seen, node=instruction.node, holds=instruction.holds))
            c.bound(instruction.uid, self.now_s)
        elif isinstance(instruction, ReservationStatus):
            self.written(instruction)
        elif isinstance(instruction, DeleteReservation):
            del self.held[instruction.uid]
            self.reservations.gone(instruction.key, self.now_s)

    def annotate(self, reserve: ReserveNode) -> None:
        """The reservation's name on the running pods that it takes."""
        for taken in reserve.takes:
            if taken.uid not in self.pods:
                continue  # gone since the decision: the write would find no pod
            seen = self.pods[taken.uid]
            assert (seen.node, seen.pod.namespace, seen.pod.name) == (reserve.node, taken.namespace, taken.name)
            self.see(
                replace(seen, holds=replace(seen.holds, reservation=AllocatedReservation(reserve.key, reserve.uid)))
            )

    def written(self, status: ReservationStatus, **more: object) -> None:
        self.see(
            replace(
                self.held[status.uid],
                **more,  # type: ignore[arg-type]
                phase=status.phase,
                node=status.node,
                allocatable=status.allocatable,
                allocated=status.allocated,
                current=status.owners,
                conditions=status.conditions,
            )
        )

    def delete(self, name: str) -> None:
        self.pods.pop(f"uid-{name}")
        self.cluster.pod_gone(f"uid-{name}", self.now_s)

    def on(self, name: str) -> str:
        return self.cluster.assigned().get(f"uid-{name}", "")

    def again(self) -> World:
        """A scheduler that starts anew over the same API server."""
        fresh = World()
        fresh.now_s = self.now_s
        for node in self.cluster._nodes.values():
            fresh.cluster.node_seen(node)
        for told in self.told.values():
            (fresh.devices if isinstance(told, NodeDevices) else fresh.cpus)(told)  # type: ignore[operator]
        for seen in self.pods.values():
            fresh.see(seen)
        for held in self.held.values():
            fresh.see(held)
        return fresh

    def living(self, name: str) -> list[Reservation]:
        """Reservations that hold room on a node, by the server's word."""
        return [
            reservation
            for reservation in self.held.values()
            if reservation.node == name
            and reservation.phase is ReservationPhase.AVAILABLE
            and reservation.ends_s > self.now_s
        ]

    def drew_from(self, held: Reservation) -> list[ObservedPod]:
        """Pods that are bound and have drawn from it, by the server's word."""
        on_it = (p for p in self.pods.values() if p.node and p.node == held.node)
        return [p for p in on_it if p.holds.reservation is not None and p.holds.reservation.uid == held.uid]

    def left(self, held: Reservation) -> Amounts:
        """What owners have not drawn, by the server's word."""
        return self.kept(held).amounts

    def kept(self, held: Reservation) -> ReservedAmounts:
        """The same, with devices and CPUs by number."""
        return kept_after(
            ReservedAmounts(held.allocatable, held.holds),
            [ReservedAmounts(p.pod.requests, p.holds) for p in self.drew_from(held)],
        )

    def cpus_taken(self, name: str) -> list[int]:
        """CPUs of their own that pods and living reservations have on a node, by the server's word; one that is
        held twice is there twice.
        """
        holders = [p.holds for p in self.pods.values() if p.node == name]
        kept = [self.kept(reservation).holds for reservation in self.living(name)]
        return [cpu for holds in [*holders, *kept] if holds.cpus is not None for cpu in holds.cpus.cpus]

    def percent_taken(self, name: str) -> dict[int, int]:
        """Minor -> percent of each GPU's memory that pods and living reservations have, by the server's word."""
        holders = [p.holds for p in self.pods.values() if p.node == name]
        taken: dict[int, int] = {}
        for holds in [*holders, *(self.kept(reservation).holds for reservation in self.living(name))]:
            for part in holds.devices:
                taken[part.minor] = taken.get(part.minor, 0) + part.amounts.get(GPU_MEMORY_RATIO)
        return taken

    def room_taken(self, name: str) -> int:
        """CPU of a node that pods and living reservations have, by the server's word."""
        pods = sum(p.pod.requests.get("cpu") for p in self.pods.values() if p.node == name)
        return pods + sum(self.left(reservation).get("cpu") for reservation in self.living(name))

    def places_taken(self, name: str) -> int:
        """Places for pods that are taken on a node, by the server's word."""
        pods = sum(p.node == name for p in self.pods.values())
        return pods + sum(bool(self.left(reservation)) for reservation in self.living(name))
