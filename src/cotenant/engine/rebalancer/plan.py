"""A plan of moves as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """One move. Percentages are of raw allocatable by resource: use of both nodes before and after this move, with the earlier moves of the plan."""

    pod: str  # namespace/name
    uid: str
    owner: str  # kind/name of its controller; empty = none
    node: str
    target: str
    pool: str
    scope: str  # "node" or "prod": whose use was too high
    reason: str
    over: tuple[str, ...]  # the resources above their threshold, the one that is furthest above first
    used: Mapping[str, int]  # CPU in milli-CPU, memory in bytes
    node_before: Mapping[str, float]
    node_after: Mapping[str, float]
    target_before: Mapping[str, float]
    target_after: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class KeptPod:
    """A pod of an overloaded node that was considered and is not moved."""

    pod: str
    node: str
    reason: str


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
class Plan:
    """The moves of one round, and what was not moved and why."""

    moves: tuple[PlannedMove, ...]
    kept: tuple[KeptPod, ...]
    pools: tuple[PoolPlan, ...]
    nodes: int
    pods: int
    unmeasured: tuple[str, ...]  # nodes without a current measurement: neither sources nor targets
    placed_first: int  # pods that waited and were placed in the simulation before the first move
    notes: tuple[str, ...]
