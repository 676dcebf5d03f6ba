"""A RightSizing: what an owner allows for one workload's sizes, and how far it is.

Everything that must survive a restart is in the status, so a change that was begun is continued or undone by whoever
leads next: what the pods had, which of them were touched, and since when they are watched. Sizes are of the one main
container of each pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.sizes.container import ContainerSize

MAX_HOURS = 14 * 24  # of use that are kept
MAX_RECEIPTS = 20


class SizingMode(StrEnum):
    """What may be done."""

    OFF = "off"
    SUGGEST = "suggest"
    APPROVE = "approve"  # act on a suggestion whose id is in the spec
    ACT = "act"
    EARNED = "earned"  # as far as the changes of the namespace have held; begins as `approve`


class SizingPhase(StrEnum):
    """Where a change is."""

    FIRST = "first"  # one replica is resized
    PROOF = "proof"  # and watched
    REST = "rest"  # the others follow, one at a time
    WHOLE = "whole"  # all are watched
    UNDOING = "undoing"  # all get back what they had


class SizingOutcome(StrEnum):
    """How a change ended."""

    DONE = "done"
    UNDONE = "undone"
    GIVEN_UP = "givenUp"  # no kubelet took it
    YIELDED = "yielded"  # somebody else resizes the same pods
    STOPPED = "stopped"  # the owner took the permission back


@dataclass(frozen=True, slots=True)
class HourlyUse:
    """The highest use of any replica in each hour, oldest first; -1 = not known. `first_hour`: hours since 1970."""

    first_hour: int = 0
    cpu_m: tuple[int, ...] = ()
    memory_mib: tuple[int, ...] = ()
    since_s: float = 0.0  # Unix time of the first measurement; 0 = none


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What would be set. The id changes with the amounts."""

    id: str
    before: ContainerSize
    after: ContainerSize
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Touched:
    """A pod that a change resizes, and what it was like before."""

    uid: str
    pod: str  # name
    restarts: int = 0
    wait_per_cpu: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A change that goes on. `after` is of its present step; `goal` of all steps."""

    id: str
    phase: SizingPhase
    since_s: float  # of the phase
    before: ContainerSize
    after: ContainerSize
    goal: ContainerSize
    allowed_by: str
    touched: tuple[Touched, ...] = ()
    measured: int = 0  # reports of the watched pods in this phase
    bad: int = 0  # of the last ones, in a row, that showed harm
    why: str = ""  # of an undoing
    ending: SizingOutcome = SizingOutcome.DONE  # of the receipt
    broke_objective: bool = False


@dataclass(frozen=True, slots=True)
class SizingReceipt:
    """What was done, and what came of it."""

    id: str
    at: str  # RFC 3339
    outcome: SizingOutcome
    before: ContainerSize
    after: ContainerSize
    why: str
    allowed_by: str
    pods: int
    broke_objective: bool = False


@dataclass(frozen=True, slots=True)
class SizingStatus:
    """What is stored."""

    state: str = ""
    message: str = ""
    observed_generation: int = 0
    suggestion: Suggestion | None = None
    change: SizeChange | None = None
    applied: Suggestion | None = None  # the last change that was kept; pods that are made anew get it too
    template: ContainerSize | None = None  # what pods are made with, as the first kept change found them
    receipts: tuple[SizingReceipt, ...] = ()  # the newest first
    history: HourlyUse = HourlyUse()
    quiet_until_s: float = 0.0  # nothing is begun before
    proven: tuple[Touched, ...] = ()  # replicas of what is applied, as they were before
    probation_until_s: float = 0.0  # harm until then takes back what is applied
    refused: tuple[str, ...] = ()  # ids of suggestions that hurt or were not taken


@dataclass(frozen=True, slots=True)
class RightSizing:
    """An object. `wrong`: sentences on its spec; with any it is not acted upon."""

    key: str
    uid: str
    generation: int
    workload_kind: str
    workload_name: str
    mode: SizingMode = SizingMode.SUGGEST
    objective: str = ""  # name of a ServiceObjective of the namespace; "" = none
    risk: float = 0.01
    min_history_s: float = 86_400.0
    proof_s: float = 600.0
    patience_s: float = 600.0  # for a resize that a kubelet defers
    approved: str = ""
    approved_by: str = ""
    undo: str = ""
    wrong: tuple[str, ...] = ()
    status: SizingStatus = SizingStatus()

    @property
    def namespace(self) -> str:
        """Of the object and its workload."""
        return self.key.partition("/")[0]
