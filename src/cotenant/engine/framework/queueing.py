"""What waits in the scheduling queue: groups of pods, the verdict that one judgement gives to all of a group, and the runs in which pods are judged.

Problem: the queue, the scheduling cycle and the plugins hand these to one another. Choice: values and one small record, without the queue itself
(engine/cycle/queue.py). Limits: a group is mutable; only the queue changes where it stands.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.arrays import Mask
from cotenant.model.decisions.record import DecisionRecord

Rank = tuple[float, ...]  # ascending: who goes first


class Standing(StrEnum):
    """Where a group stands; the values are kube-scheduler's names of its queues."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why no pod of a group found a node."""

    record: DecisionRecord
    message: str
    filters: frozenset[str]  # plugins that turned nodes down
    missing: str = ""  # how much of a resource the nodes lack that came nearest


@dataclass(frozen=True, slots=True)
class Whole:
    """The key of a group whose pods are judged as one, all together or not at all."""

    of: Hashable
    plugin: str  # the name of the one that judges the group


@dataclass(slots=True, eq=False)
class Group:
    """Pods that placement cannot tell apart, or that are judged as one (`Whole`)."""

    key: Hashable
    priority: int
    shape: int
    pods: dict[str, Rank] = field(default_factory=dict)  # uid -> rank inside equal priority, in order of arrival
    standing: Standing = Standing.ACTIVE
    refusals: int = 0  # in a row
    until_s: float = 0.0  # rests at least until
    since_s: float = 0.0  # unschedulable since
    verdict: Verdict | None = None
    stamp: int = -1  # of its live entry in a heap
    shapes: tuple[int, ...] = ()  # of a whole group that was refused: room for any of them may help

    def rank(self) -> tuple[float, ...]:
        """Of its first pod: lower goes first."""
        return (-self.priority, *next(iter(self.pods.values())))

    @property
    def whole(self) -> bool:
        """Whether its pods are judged as one."""
        return isinstance(self.key, Whole)


class Segment(NamedTuple):
    """Pods to be judged in one run."""

    pods: list[tuple[PodInfo, Group]]
    only: Mask  # rows that all of them are narrowed to, empty = every row
    last: bool  # whether a pod that finds no node here is refused
