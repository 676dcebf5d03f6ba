"""What judgement finds, as values. `Applying` (engine/cycle/applying.py) makes them true; nothing else of the round
does."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.engine.cycle.placing import PodJudgement
from cotenant.engine.framework.instructions import Preempt
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import PlacementVerdict, QueuedGroup


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod found a node. `is_permitted` False: it keeps the node, and its bind waits."""

    entry: PodInfo
    group: QueuedGroup
    judgement: PodJudgement
    is_permitted: bool


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A pod that was admitted found no node. `is_evaluated`: nodes were."""

    entry: PodInfo
    is_evaluated: bool


@dataclass(frozen=True, slots=True)
class Nominated:
    """A pod waits for its victims."""

    entry: PodInfo
    preempt: Preempt
    waits_for: frozenset[str]  # UIDs of its victims, with those that end already
    verdict: PlacementVerdict


@dataclass(frozen=True, slots=True)
class Rejected:
    """No pod of a group is placed now; `first` is the pod that was judged."""

    group: QueuedGroup
    first: PodInfo
    verdict: PlacementVerdict


Outcome = Placed | Unplaced | Nominated | Rejected
