"""The states of a pod in the scheduler, as a table of legal transitions, and what is kept per pod.

A pod that is queued and assigned at the same time is bound twice without notice. One state per pod, changed along
`LEGAL` only, each transition with its reason; an illegal change raises with the pod's history.
Limits: the history keeps the last `REMEMBERED` changes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.errors import Permanent

if TYPE_CHECKING:
    from cotenant.engine.framework.roster import Calls

REMEMBERED = 12


class SchedulingState(IntEnum):
    """The state of a pod."""

    NEW = 0
    GATED = 1  # its scheduling gates hold it
    BLOCKED = 2  # cannot be scheduled: an unsupported feature, or a claim that is not ready
    QUEUED = 3  # waits in the queue: active, backing off, or unschedulable
    HELD = 4  # its bind or its preemption failed, or it gave up a node; in back-off before it is queued again
    ASSUMED = 5  # decided and counted; its bind has not been sent
    BINDING = 6  # its bind was sent
    BOUND = 7  # the API server has confirmed its node
    GONE = 8
    WAITING = 9  # has a node and is counted there; its bind waits for the rest of its gang


LEGAL: dict[tuple[SchedulingState, SchedulingState], str] = {
    (SchedulingState.NEW, SchedulingState.GATED): "seen, gated",
    (SchedulingState.NEW, SchedulingState.BLOCKED): "seen, cannot be judged",
    (SchedulingState.NEW, SchedulingState.QUEUED): "seen",
    (SchedulingState.NEW, SchedulingState.BOUND): "found on a node",
    (SchedulingState.GATED, SchedulingState.BLOCKED): "gates opened, cannot be judged",
    (SchedulingState.GATED, SchedulingState.QUEUED): "gates opened",
    (SchedulingState.GATED, SchedulingState.GATED): "changed",
    (SchedulingState.BLOCKED, SchedulingState.BLOCKED): "changed, still cannot be judged",
    (SchedulingState.BLOCKED, SchedulingState.QUEUED): "can be judged now",
    (SchedulingState.BLOCKED, SchedulingState.GATED): "changed",
    (SchedulingState.QUEUED, SchedulingState.QUEUED): "changed",
    (SchedulingState.QUEUED, SchedulingState.BLOCKED): "changed, cannot be judged",
    (SchedulingState.QUEUED, SchedulingState.GATED): "changed",
    (SchedulingState.QUEUED, SchedulingState.ASSUMED): "decided",
    (SchedulingState.QUEUED, SchedulingState.HELD): "its preemption failed",
    (SchedulingState.HELD, SchedulingState.QUEUED): "rested",
    (SchedulingState.HELD, SchedulingState.BLOCKED): "rested, cannot be judged",
    (SchedulingState.HELD, SchedulingState.GATED): "changed",
    (SchedulingState.ASSUMED, SchedulingState.BINDING): "bind sent",
    (SchedulingState.ASSUMED, SchedulingState.HELD): "bind withheld",
    (SchedulingState.ASSUMED, SchedulingState.QUEUED): "gave up its node, bind withheld",
    (SchedulingState.ASSUMED, SchedulingState.BLOCKED): "gave up its node, cannot be judged",
    (SchedulingState.ASSUMED, SchedulingState.GATED): "gave up its node, gated",
    (SchedulingState.ASSUMED, SchedulingState.BOUND): "found on a node",
    (SchedulingState.BINDING, SchedulingState.BOUND): "bound",
    (SchedulingState.BINDING, SchedulingState.HELD): "bind failed",
    (SchedulingState.QUEUED, SchedulingState.WAITING): "found a node, waits for its gang",
    (SchedulingState.WAITING, SchedulingState.ASSUMED): "its gang is there",
    (SchedulingState.WAITING, SchedulingState.QUEUED): "gave its node back",
    (SchedulingState.WAITING, SchedulingState.BLOCKED): "gave its node back, cannot be judged",
    (SchedulingState.WAITING, SchedulingState.GATED): "gave its node back, gated",
    (SchedulingState.WAITING, SchedulingState.BOUND): "found on a node",
    (SchedulingState.GATED, SchedulingState.BOUND): "bound by another",
    (SchedulingState.BLOCKED, SchedulingState.BOUND): "bound by another",
    (SchedulingState.QUEUED, SchedulingState.BOUND): "bound by another, or by a bind whose answer was lost",
    (SchedulingState.HELD, SchedulingState.BOUND): "bound by another, or by a bind whose answer was lost",
} | {
    (state, SchedulingState.GONE): "deleted or ended" for state in SchedulingState if state is not SchedulingState.GONE
}

DECIDED = frozenset({SchedulingState.ASSUMED, SchedulingState.BINDING, SchedulingState.BOUND})
ASSIGNED = DECIDED | {SchedulingState.WAITING}


@dataclass(slots=True, eq=False)
class PodInfo:
    """One pod that this scheduler acts on or counts."""

    seen: ObservedPod
    state: SchedulingState = SchedulingState.NEW
    number: int = -1  # in the ledger
    shape: int = -1
    node: str = ""  # where it is counted
    kind: Hashable = None  # what rules between pods distinguish (engine/state/pod_counts.py)
    row: int = -1  # of the ledger, as last written
    wanted: int = -1  # row that it should have at the next write
    violation_surcharge: float = 0.0  # of the founding score, by credit (`Plugin.pre_score`)
    advance_s: float = 0.0  # it counts in the queue as having arrived so much earlier (`Plugin.queue_sort`)
    failures: int = 0  # binds in a row that failed
    attempts: int = 0
    queued_s: float = 0.0  # when it could first be judged
    since_s: float = 0.0  # of its state
    last_message: str = ""  # what its owner was last told
    bind: int = 0  # the number of its last bind
    holds: Holdings = NO_HOLDINGS  # what was chosen for it with its node, until the API server says the same
    story: tuple[tuple[float, SchedulingState], ...] = ()  # replaced with every change of the state
    calls: Calls = field(
        init=False, repr=False
    )  # of the plugins that it needs; set when it is added to the assignments

    @property
    def is_found(self) -> bool:
        """Whether the pod was on a node already when this scheduler first saw it: another one placed it, or an
        earlier process of this one.
        """
        return len(self.story) == 1 and self.story[0][1] is SchedulingState.BOUND

    def move(self, after: SchedulingState, now_s: float) -> None:
        """Change the state. Raises `Permanent` with the story where `LEGAL` has no such edge."""
        if (self.state, after) not in LEGAL:
            raise Permanent(
                f"pod {self.seen.pod.key} ({self.seen.uid}) cannot go from {self.state.name.lower()} to "
                f"{after.name.lower()}; "
                f"its story: {'; '.join(self.lines()) or 'none'}"
            )
        self.state = after
        self.since_s = now_s
        self.story = (*self.story[-REMEMBERED + 1 :], (now_s, after))

    def lines(self) -> tuple[str, ...]:
        """What happened to it, oldest first."""
        told, before = [], SchedulingState.NEW
        for at_s, after in self.story:
            told.append(
                f"{at_s:.3f} s: {after.name.lower()} ({LEGAL.get((before, after), 'earlier changes forgotten')})"
            )
            before = after
        return tuple(told)
