"""Values of the scheduling queue: groups of pods, the verdict of a whole group, and the runs in which pods are placed.

The queue, the scheduling cycle and the plugins share these. Values and one small record, separate from the queue
(engine/cycle/queue.py).
Limits: a group is mutable; only the queue changes its standing.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.arrays import Mask
from cotenant.model.decisions.record import DecisionRecord

Rank = tuple[float, ...]  # ascending


class QueueStanding(StrEnum):
    """The queue of a group; the values are kube-scheduler's names of its queues."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"


@dataclass(frozen=True, slots=True)
class PlacementVerdict:
    """Why no pod of a group found a node."""

    record: DecisionRecord
    message: str
    filters: frozenset[str]  # plugins that rejected nodes
    missing: str = ""  # the missing amount of a resource on the nearest nodes
    subject: str = ""  # the group that is refused as a whole, in words
    is_told: bool = True  # to the pods' owners
    is_held: bool = False  # something other than nodes holds it: more nodes would not help


@dataclass(frozen=True, slots=True)
class WholeGroup:
    """The key of a group whose pods are placed all together or not at all."""

    of: Hashable
    plugin: str  # the name of the plugin that places the group


@dataclass(slots=True, eq=False)
class QueuedGroup:
    """Pods that placement cannot tell apart, or that are judged as one (`WholeGroup`)."""

    key: Hashable
    priority: int
    shape: int
    whole: bool = False  # its pods are judged as one: the key is a `WholeGroup`
    pods: dict[str, Rank] = field(default_factory=dict)  # uid -> rank inside equal priority, in order of arrival
    standing: QueueStanding = QueueStanding.ACTIVE
    refusals: int = 0  # in a row
    until_s: float = 0.0  # in back-off at least until
    since_s: float = 0.0  # unschedulable since
    verdict: PlacementVerdict | None = None
    stamp: int = -1  # of its live entry in a heap
    is_large: bool = False  # judged apart, within a limit of CPU time (engine/framework/budget.py)
    overruns: int = 0  # of that limit, in a row
    shapes: tuple[int, ...] = ()  # of a refused whole group: free resources for any of them may help


class Segment(NamedTuple):
    """Pods to be placed in one run."""

    pods: list[tuple[PodInfo, QueuedGroup]]
    only: Mask  # rows that all of them are narrowed to, empty = every row
    last: bool  # whether a pod that finds no node here is refused


class AlikePods(NamedTuple):
    """Pods in the queue that are alike, or that are placed together."""

    first: PodInfo
    pods: int
    together: tuple[PodInfo, ...]  # all of them, where they are placed together; else none
    refused_by: frozenset[str]  # plugins that do, until something happens that may help; none while they may be tried
