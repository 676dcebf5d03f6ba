"""Random small clusters in which many features meet, for questions about pods that wait; and a second engine that
is built from what the API server would show.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Instruction, Preempt
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.plugins.reservations.instructions import ReserveNode
from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm, PodTerm
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import (
    HOSTNAME,
    NO_LABELS,
    ZONE,
    Labels,
    LabelSelector,
    Requirement,
    SelectorOperator,
)
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Match, Taint, Toleration
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.groups.gang import GangMode, GangNotes
from cotenant.model.groups.quota import NAME, Quota, QuotaObject
from cotenant.model.groups.reservation import Reservation, ReservationOwner
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, Amounts
from cotenant.policy.placement.profiles import profile

Rng = np.random.Generator
WHOLE = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 16 << 30})
APPS = ("web", "db")


@dataclass
class Stored:
    """What an API server has."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, ObservedPod] = field(default_factory=dict)
    devices: list[NodeDevices] = field(default_factory=list)
    quotas: list[QuotaObject] = field(default_factory=list)
    reservations: dict[str, Reservation] = field(default_factory=dict)

    def copy(self) -> Stored:
        return Stored(dict(self.nodes), dict(self.pods), list(self.devices), list(self.quotas), dict(self.reservations))


class Run:
    """An engine over stored objects; every bind and eviction succeeds at once."""

    def __init__(self, stored: Stored, seed: int, now_s: float = 0.0) -> None:
        self.stored = stored
        self.cluster = Cluster(profile("least-allocated"), np.random.default_rng(seed), EngineSettings())
        self.now_s = now_s
        self.bound: dict[str, str] = {}  # uid -> node
        self.evicted: dict[
            str, tuple[str, frozenset[str]]
        ] = {}  # key -> UID of the pod that it went for (empty for a quota), and those that were bound by then
        members = self.cluster.plugins
        for node in stored.nodes.values():
            self.cluster.node_seen(node)
        for devices in stored.devices:
            members.devices.seen(devices)
        for quota in stored.quotas:
            members.quotas.quota_seen(quota, now_s)
        for reservation in stored.reservations.values():
            members.reservations.seen(reservation, now_s)
        for pod in stored.pods.values():
            self.cluster.pod_seen(pod, now_s)

    def settle(self, within_s: float) -> None:
        """Decide until nothing is left to do for so long."""
        end_s = self.now_s + within_s
        for _ in range(300):
            given = self.cluster.decide(self.now_s)
            for instruction in given:
                self._carry_out(instruction)
            if not given:
                next_s = self.cluster.next_s()
                if next_s > end_s:
                    break
                self.now_s = max(self.now_s, next_s)

    def _carry_out(self, instruction: Instruction) -> None:
        c, stored = self.cluster, self.stored
        if isinstance(instruction, Bind) and c.sending(instruction.uid, self.now_s):
            self.bound[instruction.uid] = instruction.node
            stored.pods[instruction.uid] = replace(
                stored.pods[instruction.uid], node=instruction.node, holds=instruction.holds, nominated_node=""
            )
            c.pod_seen(stored.pods[instruction.uid], self.now_s)
        elif isinstance(instruction, ReserveNode) and c.sending(instruction.uid, self.now_s):
            status = instruction.status
            stored.reservations[instruction.uid] = replace(
                stored.reservations[instruction.uid],
                holds=instruction.holds,
                phase=status.phase,
                node=status.node,
                allocatable=status.allocatable,
                allocated=status.allocated,
                current=status.owners,
                conditions=status.conditions,
            )
            c.plugins.reservations.seen(stored.reservations[instruction.uid], self.now_s)
            c.bound(instruction.uid, self.now_s)
        elif isinstance(instruction, Preempt):
            for victim in instruction.victims:
                self._evict(victim.uid, instruction.uid)
        elif isinstance(instruction, Evict):
            self._evict(instruction.victim.uid, "")

    def _evict(self, uid: str, by: str) -> None:
        if uid in self.stored.pods:
            self.evicted[self.stored.pods.pop(uid).pod.key] = (by, frozenset(self.bound))
            self.cluster.pod_gone(uid, self.now_s)

    def node_seen(self, name: str, node: Node) -> None:
        self.stored.nodes[name] = node
        self.cluster.node_seen(node)

    def pod_seen(self, pod: ObservedPod) -> None:
        self.stored.pods[pod.uid] = pod
        self.cluster.pod_seen(pod, self.now_s)

    def waiting(self) -> list[ObservedPod]:
        return [pod for pod in self.stored.pods.values() if not pod.node]


def pick(rng: Rng, *items: object) -> object:
    return items[int(rng.integers(len(items)))]


def a_node(rng: Rng, i: int) -> Node:
    name = f"n{i}"
    labels = {HOSTNAME: name}
    if rng.random() < 0.7:
        labels[ZONE] = str(pick(rng, "a", "b"))
    if rng.random() < 0.5:
        labels["disk"] = str(pick(rng, "ssd", "hdd"))
    taints = [Taint("team", "red")] if rng.random() < 0.2 else []
    taints += [Taint("old")] if rng.random() < 0.1 else []
    size = {"cpu": int(rng.choice([2000, 4000, 6000])), "memory": int(rng.choice([4, 64])) << 30, "pods": 8}
    if rng.random() < 0.3:
        size[NVIDIA_GPU] = int(rng.choice([1, 2, 4]))
    return Node(
        name,
        Amounts.of(size),
        Labels.of(labels),
        tuple(taints),
        unschedulable=bool(rng.random() < 0.2),
        ready=bool(rng.random() < 0.9),
    )


def a_pod(rng: Rng, name: str, **more: object) -> Pod:
    size = {"cpu": int(rng.choice([500, 1000, 1500, 3000, 5000])), "memory": int(rng.choice([1, 2, 6])) << 30}
    dice = rng.random()
    if dice < 0.15:
        size[NVIDIA_GPU] = int(rng.choice([1, 2, 3]))
    elif dice < 0.2:
        size[GPU] = int(rng.choice([50, 100, 200]))
    labels = {"app": str(pick(rng, *APPS))}
    if rng.random() < 0.4:
        labels[NAME] = str(pick(rng, "q1", "q2"))
    selector: dict[str, str] = {}
    if rng.random() < 0.2:
        selector["disk"] = str(pick(rng, "ssd", "hdd"))
    if rng.random() < 0.07:
        selector[HOSTNAME] = f"n{int(rng.integers(4))}"
    if rng.random() < 0.07:
        selector[ZONE] = str(pick(rng, "a", "b"))
    affinity = None
    if rng.random() < 0.12:
        term = pick(
            rng,
            Requirement("disk", SelectorOperator.NOT_IN, ("hdd",)),
            Requirement("disk", SelectorOperator.EXISTS),
            Requirement("rack", SelectorOperator.GT, ("3",)),
            Requirement("old", SelectorOperator.IN, ("x", "y")),
        )
        affinity = NodeAffinity(NodeSelector((NodeSelectorTerm((term,)),)))  # type: ignore[arg-type]
    apart = PodTerm(HOSTNAME, LabelSelector.of({"app": str(pick(rng, *APPS))}))
    near = PodTerm(ZONE, LabelSelector.of({"app": str(pick(rng, *APPS))}))
    return Pod(
        name,
        requests=Amounts.of(size),
        priority=int(rng.choice([0, 0, 5, 9])),
        labels=Labels.of(labels),
        node_selector=Labels.of(selector) if selector else NO_LABELS,
        node_affinity=affinity,
        tolerations=(Toleration("team", Match.EXISTS),) if rng.random() < 0.2 else (),
        anti_affinity=(apart,) if rng.random() < 0.1 else (),
        affinity=(near,) if rng.random() < 0.07 else (),
        **more,  # type: ignore[arg-type]
    )


def a_world(rng: Rng) -> Stored:
    stored = Stored()
    for i in range(int(rng.integers(2, 6))):
        node = a_node(rng, i)
        stored.nodes[node.name] = node
        if rng.random() < 0.25:
            cards = [Device(DeviceType.GPU, minor, WHOLE, id=f"{node.name}-{minor}") for minor in range(2)]
            stored.devices.append(NodeDevices(node.name, tuple(cards)))
    if rng.random() < 0.5:
        for name in ("q1", "q2"):
            most = Amounts.of({"cpu": int(rng.choice([2000, 4000, 8000]))})
            least = Amounts.of({"cpu": int(rng.choice([0, 1000, 2000]))})
            stored.quotas.append(QuotaObject(f"default/{name}", f"uid-{name}", Quota(name, most, least)))
    if rng.random() < 0.4:
        template = Pod("held", requests=Amounts.of({"cpu": int(rng.choice([1000, 3000])), "memory": 1 << 30}))
        owner = ReservationOwner(selector=LabelSelector.of({"app": "db"}))
        once = bool(rng.random() < 0.5)
        stored.reservations["uid-r"] = Reservation("r", "uid-r", template, (owner,), allocate_once=once, ttl_s=0)
    names = sorted(stored.nodes)
    for i in range(int(rng.integers(3, 9))):
        pod = a_pod(rng, f"p{i}")
        on = str(pick(rng, *names)) if rng.random() < 0.25 and not pod.requests.get(GPU) else ""
        see(stored, pod, on, float(i), preempts=bool(rng.random() < 0.9))
    for g in range(int(rng.integers(0, 3))):
        count = int(rng.integers(2, 5))
        like = a_pod(rng, "like")
        needed = int(rng.integers(2, count + 1))
        mode = GangMode.STRICT if rng.random() < 0.8 else GangMode.NON_STRICT
        for i in range(count):
            demands = Demands(gang=GangNotes(name=f"g{g}", min_available=needed, mode=mode))
            see(stored, replace(like, name=f"g{g}-{i}"), "", 100.0 * g + i, demands=demands)
    return stored


def see(stored: Stored, pod: Pod, on: str, created_s: float, **more: object) -> None:
    seen = ObservedPod(pod, f"uid-{pod.name}", "cotenant", created_s, node=on, **more)  # type: ignore[arg-type]
    stored.pods[seen.uid] = seen
