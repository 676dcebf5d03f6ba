"""One round of LowNodeLoad: which pods leave overloaded nodes, and where they land.

Moving pods of an overloaded node helps only if other nodes have room for their measured use, now and after the earlier
moves of the round. The most loaded node first, its pods in order (order.py); a pod moves if the limits admit it
(`MoveDecider.admit`) and it lands on a node whose use then stays within its thresholds (`MoveDecider.land`, the
scheduler's simulation; first fit in tests). Use is accounted only for pods that move. Moves begin where a node is
above a threshold by `min_relief_percent` and end where it is below: a band, so that a node at its threshold is not
moved about. A node is done when it is no longer above its thresholds, or no target has room. Node-level work
precedes production-level work; both share what is left of nodes that are low for both. Differences from upstream:
use is not reserved for candidates that do not move; a resource that no target has does not end the round.
Limits: use of a moved pod is taken to be the same on the new node; limits of disruption budgets are the caller's
(`MoveDecider.admit`).
Source: Koordinator, pkg/descheduler/framework/plugins/loadaware/low_node_load.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from cotenant.model.arrays import Int, Mask
from cotenant.model.counted import counted
from cotenant.model.resources import PODS_NAME
from cotenant.policy.rebalance.loads.detector import Detectors
from cotenant.policy.rebalance.loads.order import LoadPod, node_score, sorted_pods
from cotenant.policy.rebalance.loads.pools import NodeLoads, NodePool, members
from cotenant.policy.rebalance.loads.thresholds import (
    Excess,
    NodeClass,
    Thresholds,
    classify,
    excesses,
    thresholds,
)

_SOURCES = {"node": NodeClass.HIGH, "prod": NodeClass.PROD_HIGH}


class LoadScope(StrEnum):
    """Whether the use of all pods or that of production pods is too high."""

    NODE = "node"
    PROD = "prod"


@dataclass(frozen=True, slots=True)
class Landing:
    """Where a pod would be placed; no node = nowhere, with the reason."""

    node: str = ""
    reason: str = ""


class MoveDecider(Protocol):
    """What decides about a single candidate."""

    def admit(self, pod: LoadPod, node: str) -> str:
        """Why the pod may not move now; empty = it may."""
        ...

    def land(self, pod: LoadPod, node: str, targets: Sequence[str]) -> Landing:
        """Where the pod of `node` would be placed if only these nodes were offered. Where it lands, it counts there
        from then on.
        """
        ...


@dataclass(frozen=True, slots=True)
class LoadMove:
    """A pod that moves: `used` is its measured use, `excess` why its node is overloaded before the move."""

    pod: LoadPod
    node: str
    target: str
    pool: str
    scope: LoadScope
    excess: tuple[Excess, ...]
    used: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SparedPod:
    """A pod that was considered and stays, with the reason."""

    pod: LoadPod
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class PoolResult:
    """What was found in a pool. `note` says why nothing was examined; empty otherwise."""

    name: str
    considered: tuple[str, ...]
    classes: tuple[NodeClass, ...]  # of `considered`
    sources: tuple[str, ...]
    left_over: tuple[str, ...]  # overloaded nodes that are still above a threshold after the moves
    note: str = ""


@dataclass(frozen=True, slots=True)
class RoundResult:
    """One round over all pools. `usage` is the use of all nodes after the moves, `int64[N, R]`."""

    moves: tuple[LoadMove, ...]
    kept: tuple[SparedPod, ...]
    pools: tuple[PoolResult, ...]
    usage: Int


class LowNodeLoad:
    """The rounds of one configuration; remembers the detectors of each pool between rounds."""

    def __init__(
        self,
        pools: Sequence[NodePool],
        *,
        number_of_nodes: int = 0,
        node_fit: bool = True,
        min_relief_percent: float = 0.0,
    ) -> None:
        """`number_of_nodes`: act only where more nodes than that are underused. Without `node_fit`, targets are not
        limited to those with room for the pod. `min_relief_percent` of a node: an excess below it begins no moves,
        and a pod that would free less stays.
        """
        self._min_relief = min_relief_percent / 100.0
        self.pools = tuple(pools)
        self._number_of_nodes = number_of_nodes
        self._node_fit = node_fit
        self._detectors = [Detectors(pool.anomaly) for pool in self.pools]

    def round(
        self, nodes: NodeLoads, pods_of: Callable[[str], Sequence[LoadPod]], choice: MoveDecider, now_s: float
    ) -> RoundResult:
        """Choose the moves of one round. `pods_of` is called for overloaded nodes only."""
        usage, prod = nodes.usage.copy(), nodes.prod.copy()
        processed: set[str] = set()
        moves: list[LoadMove] = []
        kept: list[SparedPod] = []
        found = []
        for pool, detectors in zip(self.pools, self._detectors, strict=True):
            rows = members(pool.selector, nodes.names, nodes.labels, processed)
            now = NodeLoads(
                nodes.names, nodes.labels, nodes.resources, nodes.allocatable, usage, prod, nodes.unschedulable
            ).of(rows)
            result = self._pool(pool, detectors, now, pods_of, choice, now_s, moves, kept)
            usage[rows], prod[rows] = now.usage, now.prod
            processed.update(result.sources)
            found.append(result)
        return RoundResult(tuple(moves), tuple(kept), tuple(found), usage)

    def _pool(
        self,
        pool: NodePool,
        detectors: Detectors,
        nodes: NodeLoads,
        pods_of: Callable[[str], Sequence[LoadPod]],
        choice: MoveDecider,
        now_s: float,
        moves: list[LoadMove],
        kept: list[SparedPod],
    ) -> PoolResult:
        limits = thresholds(pool.percentages, nodes.resources, nodes.allocatable, nodes.usage, nodes.prod)
        classes = classify(limits, nodes.usage, nodes.prod, nodes.unschedulable)
        note = self._nothing_to_do(classes, bool(pool.percentages.prod_high))
        over = [row for row, node_class in enumerate(classes) if node_class in (NodeClass.HIGH, NodeClass.PROD_HIGH)]
        overloaded = set(over)
        for row, name in enumerate(nodes.names):
            if row not in overloaded:
                detectors.calm(name, now_s)
        if note:
            return PoolResult(pool.name, nodes.names, tuple(classes), (), tuple(nodes.names[row] for row in over), note)
        sources = [row for row in over if detectors.mark(nodes.names[row], now_s)]
        if not sources:
            note = "overloaded nodes have not been so for enough rounds"
        work = _Work(pool, nodes, limits, self._node_fit, self._min_relief, pods_of, choice, moves, kept)
        for scope in LoadScope:
            mine = [row for row in sources if classes[row] is _SOURCES[scope]]
            receiving = NodeClass.LOW if scope is LoadScope.NODE else NodeClass.PROD_LOW
            targets = [row for row, node_class in enumerate(classes) if node_class in (receiving, NodeClass.BOTH_LOW)]
            work.run(scope, mine, np.array(targets, dtype=np.int64))
        for row in sources:
            detectors.acted_on(nodes.names[row], now_s)
        left = [row for row in over if work.is_over(row, LoadScope.NODE) or work.is_over(row, LoadScope.PROD)]
        return PoolResult(
            pool.name,
            nodes.names,
            tuple(classes),
            tuple(nodes.names[row] for row in sources),
            tuple(nodes.names[row] for row in left),
            note,
        )

    def _nothing_to_do(self, classes: Sequence[NodeClass], has_prod: bool) -> str:
        receiving = [NodeClass.LOW, NodeClass.BOTH_LOW, NodeClass.PROD_LOW]
        low = sum(node_class in receiving for node_class in classes)
        high = sum(node_class in (NodeClass.HIGH, NodeClass.PROD_HIGH) for node_class in classes)
        if not classes:
            return "no measured node"
        if high == 0:
            return "no node is overloaded"
        if low == 0 or not (
            has_prod or any(node_class is not NodeClass.PROD_LOW for node_class in classes if node_class in receiving)
        ):
            return "no node is underused"
        if low <= self._number_of_nodes:
            return f"{counted(low, 'node is', 'nodes are')} underused, numberOfNodes is {self._number_of_nodes}"
        return ""


class _Work:
    """The moves of one pool; the use of its nodes is updated as pods move."""

    def __init__(
        self,
        pool: NodePool,
        nodes: NodeLoads,
        limits: Thresholds,
        node_fit: bool,
        min_relief: float,
        pods_of: Callable[[str], Sequence[LoadPod]],
        choice: MoveDecider,
        moves: list[LoadMove],
        kept: list[SparedPod],
    ) -> None:
        self._pool, self._nodes, self._limits = pool, nodes, limits
        self._node_fit = node_fit
        self._least_amounts = nodes.allocatable * min_relief  # float64[N, R]
        self._pods_of, self._choice = pods_of, choice
        self._moves, self._kept = moves, kept
        self._weights = pool.weights_of(nodes.resources)
        self._row = {name: row for row, name in enumerate(nodes.names)}
        # What node-level work has sent to a node counts there for production-level work too, but not as production use
        # (as upstream).

    def is_over(self, row: int, scope: LoadScope) -> bool:
        """Whether the node is above a threshold now."""
        usage, high = self._view(scope)
        return bool((usage[row] > high[row]).any())

    def run(self, scope: LoadScope, sources: Sequence[int], targets: Int) -> None:
        """Move pods of these nodes to these targets."""
        usage, _ = self._view(scope)

        def score(row: int) -> int:
            return node_score(self._named(usage[row]), self._named(self._nodes.allocatable[row]), self._weights)

        room = _Room(self._nodes, self._limits, scope, targets)
        for row in sorted(sources, key=score, reverse=True):
            self._relieve(scope, row, room)

    def _relieve(self, scope: LoadScope, row: int, room: _Room) -> None:
        usage, high = self._view(scope)
        if not self.is_over(row, scope) or room.is_spent():
            return
        name = self._nodes.names[row]
        excess = np.maximum(usage[row] - high[row], 0)
        if not self._is_worth(row, excess):
            return
        pods = [pod for pod in self._pods_of(name) if scope is LoadScope.NODE or pod.is_prod]
        for pod in sorted_pods(pods, self._named(excess), self._weights):
            reason = self._try(scope, row, pod, room)
            if reason:
                self._kept.append(SparedPod(pod, name, reason))
            elif not self.is_over(row, scope) or room.is_spent():
                return

    def _try(self, scope: LoadScope, row: int, pod: LoadPod, room: _Room) -> str:
        """Move the pod; returns why it stays."""
        name = self._nodes.names[row]
        if pod.refused:
            return pod.refused
        if pod.usage is None:
            return "its use is not measured"
        reason = self._choice.admit(pod, name)
        if reason:
            return reason
        used = self._vector(pod.usage)
        usage, high = self._view(scope)
        if not self._is_worth(row, np.where(usage[row] > high[row], used, 0)):
            return "it would free next to nothing"
        targets = room.names(used if self._node_fit else None)
        if not targets:
            return "no underused node has room for its use within the thresholds"
        landing = self._choice.land(pod, name, targets)
        if not landing.node:
            return landing.reason or "the scheduler finds no node for it"
        usage, high = self._view(scope)
        why = excesses(self._nodes.resources, self._nodes.allocatable[row], usage[row], high[row])
        at = self._row[landing.node]
        self._nodes.usage[row] -= used
        self._nodes.usage[at] += used
        if pod.is_prod:
            self._nodes.prod[row] -= used
        if scope is LoadScope.PROD:
            self._nodes.prod[at] += used
        room.changed(at)
        self._moves.append(LoadMove(pod, name, landing.node, self._pool.name, scope, why, dict(pod.usage)))
        return ""

    def _is_worth(self, row: int, amounts: Int) -> bool:
        """Whether one of these amounts of a node is worth a pod's restart."""
        return bool(((amounts > 0) & (amounts >= self._least_amounts[row])).any())

    def _view(self, scope: LoadScope) -> tuple[Int, Int]:
        """Use and thresholds of this scope."""
        if scope is LoadScope.NODE:
            return self._nodes.usage, self._limits.high
        return self._nodes.prod, self._limits.prod_high

    def _vector(self, usage: Mapping[str, int]) -> Int:
        return np.array(
            [1 if name == PODS_NAME else usage.get(name, 0) for name in self._nodes.resources], dtype=np.int64
        )

    def _named(self, values: Int) -> dict[str, int]:
        return dict(zip(self._nodes.resources, values.tolist(), strict=True))


class _Room:
    """What the targets of one scope may still take: for each the room to its thresholds, and for all together the
    sum; the room of a target is read again when a pod lands there.
    """

    def __init__(self, nodes: NodeLoads, limits: Thresholds, scope: LoadScope, targets: Int) -> None:
        self._nodes, self._limits, self._scope = nodes, limits, scope
        self._names = np.array(nodes.names, dtype=np.object_)[targets]
        self._place = {row: at for at, row in enumerate(targets.tolist())}  # of a node's row among the targets
        self._left = self._of(targets)  # int64[T, R]
        self._sum = self._left.sum(axis=0)
        self._has = nodes.allocatable[targets].any(axis=0)  # resources that targets have
        self._shown: tuple[str, ...] = tuple(self._names)
        self._mask: Mask = np.ones(len(targets), dtype=np.bool_)  # of those that are shown

    def is_spent(self) -> bool:
        """Whether there is no target, or a resource that targets have is used up on all of them together."""
        return not self._place or bool((self._sum[self._has] <= 0).any())

    def names(self, used: Int | None) -> tuple[str, ...]:
        """The targets with room for this use; None = all. The same object as before where they are the same: with
        thousands of targets, what is made of it is worth keeping.
        """
        mask: Mask = np.ones_like(self._mask)
        if used is not None:
            for column, amount in enumerate(used.tolist()):
                mask &= self._left[:, column] >= amount
        if not np.array_equal(mask, self._mask):
            self._shown, self._mask = tuple(self._names[mask].tolist()), mask
        return self._shown

    def changed(self, row: int) -> None:
        """The use of this node has changed."""
        at = self._place.get(row)
        if at is None:
            return
        now = self._of(np.array([row]))[0]
        self._sum += now - self._left[at]
        self._left[at] = now

    def _of(self, rows: Int) -> Int:
        """For production pods the smaller of both views."""
        left = self._limits.high[rows] - self._nodes.usage[rows]
        if self._scope is LoadScope.PROD:
            left = np.minimum(left, self._limits.prod_high[rows] - self._nodes.prod[rows])
        return np.asarray(left)
