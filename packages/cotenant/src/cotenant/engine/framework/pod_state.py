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


class State(IntEnum):
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


LEGAL: dict[tuple[State, State], str] = {
    (State.NEW, State.GATED): "seen, gated",
    (State.NEW, State.BLOCKED): "seen, cannot be judged",
    (State.NEW, State.QUEUED): "seen",
    (State.NEW, State.BOUND): "found on a node",
    (State.GATED, State.BLOCKED): "gates opened, cannot be judged",
    (State.GATED, State.QUEUED): "gates opened",
    (State.GATED, State.GATED): "changed",
    (State.BLOCKED, State.BLOCKED): "changed, still cannot be judged",
    (State.BLOCKED, State.QUEUED): "can be judged now",
    (State.BLOCKED, State.GATED): "changed",
    (State.QUEUED, State.QUEUED): "changed",
    (State.QUEUED, State.BLOCKED): "changed, cannot be judged",
    (State.QUEUED, State.GATED): "changed",
    (State.QUEUED, State.ASSUMED): "decided",
    (State.QUEUED, State.HELD): "its preemption failed",
    (State.HELD, State.QUEUED): "rested",
    (State.HELD, State.BLOCKED): "rested, cannot be judged",
    (State.HELD, State.GATED): "changed",
    (State.ASSUMED, State.BINDING): "bind sent",
    (State.ASSUMED, State.HELD): "bind withheld",
    (State.ASSUMED, State.QUEUED): "its node is gone, bind withheld",
    (State.ASSUMED, State.BLOCKED): "its node is gone, cannot be judged",
    (State.ASSUMED, State.GATED): "its node is gone, gated",
    (State.ASSUMED, State.BOUND): "found on a node",
    (State.BINDING, State.BOUND): "bound",
    (State.BINDING, State.HELD): "bind failed",
    (State.QUEUED, State.WAITING): "found a node, waits for its gang",
    (State.WAITING, State.ASSUMED): "its gang is there",
    (State.WAITING, State.QUEUED): "gave its node back",
    (State.WAITING, State.BLOCKED): "gave its node back, cannot be judged",
    (State.WAITING, State.GATED): "gave its node back, gated",
    (State.WAITING, State.BOUND): "found on a node",
    (State.GATED, State.BOUND): "bound by another",
    (State.BLOCKED, State.BOUND): "bound by another",
    (State.QUEUED, State.BOUND): "bound by another, or by a bind whose answer was lost",
    (State.HELD, State.BOUND): "bound by another, or by a bind whose answer was lost",
} | {(state, State.GONE): "deleted or ended" for state in State if state is not State.GONE}

DECIDED = frozenset({State.ASSUMED, State.BINDING, State.BOUND})
ASSIGNED = DECIDED | {State.WAITING}


@dataclass(slots=True, eq=False)
class PodInfo:
    """One pod that this scheduler acts on or counts."""

    seen: ObservedPod
    state: State = State.NEW
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
    holds: Holdings = NO_HOLDINGS  # what was chosen for it with its node, until the API server says the same
    story: tuple[tuple[float, State], ...] = ()  # replaced with every change of the state
    calls: Calls = field(
        init=False, repr=False
    )  # of the plugins that it needs; set when it is added to the assignments

    @property
    def is_found(self) -> bool:
        """Whether the pod was on a node already when this scheduler first saw it: another one placed it, or an
        earlier process of this one.
        """
        return len(self.story) == 1 and self.story[0][1] is State.BOUND

    def move(self, after: State, now_s: float) -> None:
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
        told, before = [], State.NEW
        for at_s, after in self.story:
            told.append(
                f"{at_s:.3f} s: {after.name.lower()} ({LEGAL.get((before, after), 'earlier changes forgotten')})"
            )
            before = after
        return tuple(told)
