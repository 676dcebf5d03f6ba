"""What the kinds of moves other than LowNodeLoad share: the cluster, the choice, filters, and found moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rebalancer.choosing import RoundChoice
from cotenant.engine.rebalancer.landing import is_copy
from cotenant.engine.rebalancer.plan import KeptPod, KindPlan, PlannedRoom
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.node import Node
from cotenant.model.groups.migration import MoveAim
from cotenant.policy.rebalance.loads.low_node_load import Landing
from cotenant.policy.rebalance.loads.order import LoadPod


@dataclass(frozen=True, slots=True)
class FoundMove:
    """A move of one of these kinds, before the use of nodes is added."""

    pod: LoadPod
    node: str
    target: str
    trigger: str
    reason: str
    about: str = ""  # moves of one kind about the same are backed off together
    aim: MoveAim | None = None


@dataclass(slots=True)
class KindContext:
    """One round. `never`: why a pod may never move. Moves are in the order in which they were simulated."""

    choice: RoundChoice
    never: Callable[[PodInfo, EvictionNotes], str]
    notes_of: Callable[[str], EvictionNotes]
    takes_part: Callable[[Node], bool]
    now_s: float
    moves: list[FoundMove] = field(default_factory=list)
    kept: list[KeptPod] = field(default_factory=list)
    kinds: list[KindPlan] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)  # UIDs
    rooms: list[PlannedRoom] = field(default_factory=list)

    @property
    def cluster(self) -> Cluster:
        """The engine in which the round is simulated."""
        return self.choice.cluster

    def nodes(self) -> Mapping[str, Node]:
        """The nodes of the profile's selector, by name."""
        return {node.name: node for node in self.choice.simulator.nodes() if self.takes_part(node)}

    def load_pod(self, entry: PodInfo) -> LoadPod:
        """A pod with what orders it, and why it may not move."""
        seen = entry.seen
        notes = self.notes_of(seen.pod.key)
        self.choice.entries[seen.uid] = entry
        return LoadPod(
            seen.pod.key,
            seen.uid,
            None,
            seen.pod.effective_class,
            seen.pod.priority,
            notes.kubernetes_qos,
            seen.pod.qos,
            notes.deletion_cost,
            notes.eviction_cost,
            seen.created_s,
            self.never(entry, notes),
        )

    def residents(self, node: str) -> list[PodInfo]:
        """The pods of a node that are neither reservations nor moved in this round, by name."""
        found = [
            pod_info
            for pod_info in self.cluster.pods_on(node)
            if not (pod_info.seen.reservation or is_copy(pod_info.seen.uid))
        ]
        return sorted(found, key=lambda pod_info: pod_info.seen.pod.key)

    def admit(self, pod: LoadPod, node: str) -> str:
        """See `MoveDecider`; a pod moves once."""
        if pod.uid in self.moved:
            return "it moves already"
        return pod.refused or self.choice.admit(pod, node)

    def land(self, pod: LoadPod, node: str, targets: Sequence[str], *, unharmed: bool = False) -> Landing:
        """See `RoundChoice`."""
        found = self.choice.land(pod, node, targets, unharmed=unharmed)
        if found.node:
            self.moved.add(pod.uid)
        return found
