"""What-if placement: where would the scheduler place a pod if it left its node?

A node with room by measured use may still not fit the pod: requests, taints, affinity, spread, devices, volumes, quotas
and gangs decide. The move is carried out in the scheduling engine itself: the pod leaves, a pod with the same spec
arrives, and the ordinary cycle decides. Nodes that are not offered are cordoned. A pod that lands stays there, so later
moves of a plan see it; one that does not is put back. A placement that would evict other pods is refused. The engine is
the planner's own, fed by the same watches as a scheduler's.
Limits: pods that wait are placed first, as a scheduler would; pods evicted by preemption of others while they are
placed are not created again; a pod that tolerates cordoned nodes may land on one that was not offered, which is
refused; the source node's freed room may be taken by waiting pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from math import nan

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Instruction, Preempt, Unschedulable
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.cluster.disruption import node_mark
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.policy.rebalance.loads.low_node_load import Landing

_MAX_ROUNDS = 64
_SETTLE_S = 15.0  # longer than the longest back-off
_PREFIX = "what-if/"


class LandingSimulator:
    """Moves pods in an engine that serves no other purpose; `place_waiting` first."""

    def __init__(self, cluster: Cluster, now_s: float) -> None:
        self._cluster = cluster
        self._now_s = now_s
        self._nodes: dict[str, Node] = {node.name: node for node in cluster.nodes()}
        self._removed = frozenset(node.name for node in self._nodes.values() if node_mark(node.taints) is not None)
        self._open = frozenset(self._nodes)  # those that are not cordoned for the simulation
        self._given: tuple[str, ...] | None = None  # what `_offered` was made of
        self._offered: frozenset[str] = frozenset()
        self._tried = 0
        self._copy = ""  # UID of the last pod that arrived for a moved one
        self._copies: dict[str, str] = {}  # of pods that landed, by their own UID

    def nodes(self) -> Collection[Node]:
        """The nodes as they are; in the engine those that are not offered are cordoned."""
        return self._nodes.values()

    def place_waiting(self) -> int:
        """Place the pods that wait now, as the scheduler is about to; returns how many were placed."""
        placed = 0
        until_s = self._now_s + _SETTLE_S
        for _ in range(_MAX_ROUNDS):
            given = self._cluster.decide(self._now_s)
            for instruction in given:
                if isinstance(instruction, Bind):
                    placed += self._carry_out(instruction)
                elif isinstance(instruction, Preempt):
                    for victim in instruction.victims:
                        self._cluster.pod_gone(victim.uid, self._now_s)
                elif isinstance(instruction, Evict):
                    self._cluster.pod_gone(instruction.victim.uid, self._now_s)
            if not given:
                next_s = self._cluster.next_s()
                if next_s > until_s:
                    break
                self._now_s = max(self._now_s, next_s)
        return placed

    def land(self, pod: PodInfo, targets: Collection[str], refuses: Callable[[str], str] | None = None) -> Landing:
        """Where the pod would be placed if only `targets` were offered; it counts there from then on, if anywhere.
        `refuses`: why it may not stay on a node, asked while it counts there; empty = it may.
        """
        seen = pod.seen
        if seen.scheduler not in self._cluster.settings.schedulers:
            return Landing("", f"its scheduler {seen.scheduler} is not simulated")
        if targets is not self._given:
            self._given, self._offered = (
                targets if isinstance(targets, tuple) else None,
                frozenset(targets) - self._removed,
            )
        offered = self._offered
        self._offer(offered)
        self._cluster.pod_gone(seen.uid, self._now_s)
        found = self._try(seen)
        if found.node and found.node not in offered:
            found = Landing("", f"the scheduler prefers {found.node}, which has no room for its measured use")
        refused = refuses(found.node) if found.node and refuses is not None else ""
        if refused:
            found = Landing("", refused)
        self._copies[seen.uid] = self._copy
        if not found.node:
            self.take_back(seen)
        return found

    def take_back(self, seen: ObservedPod) -> None:
        """The pod is where it was again."""
        self._cluster.pod_gone(self._copies.pop(seen.uid), self._now_s)
        self._cluster.pod_seen(seen, self._now_s)

    def reopen(self) -> None:
        """Offer every node again."""
        self._offer(frozenset(self._nodes))

    def _offer(self, targets: frozenset[str]) -> None:
        if targets is self._open:
            return
        differ = self._open ^ targets
        closing, opening = differ - targets, differ & targets
        for name in sorted(closing):
            self._cluster.node_seen(replace(self._nodes[name], unschedulable=True))
        unknown = {name for name in opening if name not in self._nodes}
        for name in sorted(opening - unknown):
            self._cluster.node_seen(self._nodes[name])
        if closing or opening:
            self._open = targets - unknown if unknown else targets

    def _try(self, seen: ObservedPod) -> Landing:
        """Let a pod like this arrive and be placed. Each time it has a UID of its own, as the engine takes no pod
        twice that was on a node.
        """
        self._tried += 1
        self._copy = f"{_PREFIX}{self._tried}/{seen.uid}"
        copy = replace(
            seen,
            uid=self._copy,
            node="",
            phase=PodPhase.PENDING,
            nominated_node="",
            started_s=nan,
            created_s=self._now_s,
            holds=NO_HOLDINGS,
        )
        self._cluster.pod_seen(copy, self._now_s)
        message = ""
        for _ in range(_MAX_ROUNDS):
            given = self._cluster.decide(self._now_s)
            node = ""
            for instruction in given:
                if isinstance(instruction, Bind):
                    self._carry_out(instruction)
                    node = instruction.node if instruction.uid == copy.uid else node
                elif _is_about(instruction, copy.uid):
                    if isinstance(instruction, Preempt):
                        keys = ", ".join(victim.key for victim in instruction.victims[:3])
                        message = f"the scheduler would evict {keys} for it on {instruction.node}"
                        self._cluster.preempt_failed(copy.uid, self._now_s)  # nobody evicts them
                    elif isinstance(instruction, Unschedulable):
                        message = f"the scheduler finds no node: {instruction.message}"
                elif isinstance(instruction, Evict):
                    message = f"the scheduler would evict {instruction.victim.key}"
            if node and not message:
                return Landing(node)
            if message or not given:
                break
        if message:
            return Landing("", message)
        state = self._cluster.state_of(copy.uid)
        return Landing("", f"the scheduler does not place it ({state.name.lower()})")

    def _carry_out(self, bind: Bind) -> bool:
        if self._cluster.sending(bind.uid, self._now_s):
            self._cluster.bound(bind.uid, self._now_s)
            return True
        return False


def is_copy(uid: str) -> bool:
    """Whether this is the UID of such a pod."""
    return uid.startswith(_PREFIX)


def _is_about(instruction: Instruction, uid: str) -> bool:
    """Whether an instruction is about this pod."""
    return getattr(instruction, "uid", "") == uid
