"""A plan of moves as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.model.groups.migration import MoveAim


@dataclass(frozen=True, slots=True)
class PredictedEffect:
    """What a move is predicted to do to objectives, by learned or declared interference. 1 = the pod uses all of
    the slowdown that it tolerates, more = a violation; None = not predicted.
    """

    pod_before: float | None  # the moved pod on its node, and on the target
    pod_after: float | None
    source_before: float | None  # the worst of the pods that stay on the node
    source_after: float | None
    target_before: float | None  # the worst of the new neighbours
    target_after: float | None
    neighbour: str  # namespace/name of that one after the move; empty = none is predicted
    violation_before: float  # of all pods of both nodes: total by which they exceed what they tolerate
    violation_after: float
    basis: str  # of the moved pod's profile: learned, declared, or prior


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """One move. Percentages are of raw allocatable by resource: use of both nodes before and after this move, with
    the earlier moves of the plan.
    """

    pod: str  # namespace/name
    uid: str
    owner: str  # kind/name of its controller; empty = none
    node: str
    target: str
    pool: str
    scope: str  # "node" or "prod": whose use was too high; empty for other kinds of moves
    reason: str
    over: tuple[str, ...]  # the resources above their threshold, the one that is furthest above first
    used: Mapping[str, int]  # CPU in milli-CPU, memory in bytes
    node_before: Mapping[str, float]
    node_after: Mapping[str, float]
    target_before: Mapping[str, float]
    target_after: Mapping[str, float]
    trigger: str = "LowNodeLoad"  # the kind of move
    about: str = ""  # for other kinds: the pod that waits or misses its objective, or the node
    effect: PredictedEffect | None = None
    aim: MoveAim | None = None


@dataclass(frozen=True, slots=True)
class KeptPod:
    """A pod that was considered and is not moved."""

    pod: str
    node: str
    reason: str
    trigger: str = "LowNodeLoad"


@dataclass(frozen=True, slots=True)
class KindPlan:
    """What one kind of moves other than LowNodeLoad found."""

    trigger: str
    considered: int  # pods that violate, wait or miss; nodes that are underused
    solved: int  # of these, by the moves of this plan
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedRoom:
    """Where a pod that waits was placed in the simulation, once the moves made room; `pods` are the UIDs of those
    that leave that node for it.
    """

    pod: str  # namespace/name
    uid: str
    node: str
    about: str  # `PlannedMove.about` of the moves: the first pod of a gang, for all of its members
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """What was found in a pool of nodes. `note` says why nothing was examined."""

    name: str
    nodes: int
    overloaded: tuple[str, ...]
    still_overloaded: tuple[str, ...]  # after the moves
    underused: int
    note: str


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The moves of one round, and what was not moved and why."""

    moves: tuple[PlannedMove, ...]
    kept: tuple[KeptPod, ...]
    pools: tuple[PoolPlan, ...]
    nodes: int
    pods: int
    unmeasured: tuple[str, ...]  # nodes without a current measurement: neither sources nor targets
    placed_first: int  # pods that waited and were placed in the simulation before the first move
    notes: tuple[str, ...]
    kinds: tuple[KindPlan, ...] = ()
    rooms: tuple[PlannedRoom, ...] = ()
