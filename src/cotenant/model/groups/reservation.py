"""A reservation: room on a node that is kept for pods which may come later.

Problem: a rebalancer must know that there is room before it evicts, and a team wants room that others do not take meanwhile. Choice: Koordinator's
Reservation as a frozen value: the template as a `Pod`, who may draw from it, for how long, and how far it has come, as its status says. It is
identified by its UID. Limits: `preAllocation` (reserving room that is still taken) is refused; of the template, volumes are not read.

Source: Koordinator, apis/scheduling/v1alpha1/reservation_types.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf, nan

from cotenant.model.cluster.demands import NO_DEMANDS, NO_HOLDINGS, Demands, Holdings
from cotenant.model.cluster.labels import NO_LABELS, Labels, LabelSelector
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Taint
from cotenant.model.resources import NOTHING, Amounts

KIND = "Reservation"
TTL_S = 86_400.0  # where neither a lifetime nor an end is given
KEPT_S = 86_400.0  # an ended one is deleted after so long


class Phase(StrEnum):
    """`status.phase`. Upstream's Waiting (for room that is still taken) never comes about here."""

    PENDING = "Pending"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"  # its owner has the room
    FAILED = "Failed"  # its time is over, or its node is gone

    @property
    def is_final(self) -> bool:
        """Whether it holds nothing any more."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


class AllocatePolicy(StrEnum):
    """Where an owner's request comes from. Upstream treats the default as Aligned."""

    DEFAULT = ""
    ALIGNED = "Aligned"  # from the reservation first, the rest from the node
    RESTRICTED = "Restricted"  # what is reserved comes from the reservation alone


@dataclass(frozen=True, slots=True)
class ObjectOwner:
    """One object; empty fields say nothing."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ControllerOwner:
    """Pods that such an object made; empty fields say nothing, `controller` None neither."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    kind: str = ""
    api_version: str = ""
    controller: bool | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """Who may draw: whatever is given must hold, and something must be given."""

    object: ObjectOwner | None = None
    controller: ControllerOwner | None = None
    selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class CurrentOwner:
    """A pod that has drawn."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of the status."""

    type: str  # Scheduled or Ready
    status: bool
    reason: str
    message: str = ""
    since_s: float = field(default=nan, compare=False)  # Unix time


SCHEDULED, READY = "Scheduled", "Ready"


@dataclass(frozen=True, slots=True)
class Reservation:
    """One reservation as the API server has it."""

    name: str
    uid: str
    pod: Pod  # the template
    owners: tuple[Owner, ...] = ()
    created_s: float = 0.0  # Unix time
    scheduler: str = ""  # of the template; empty = whoever reads this
    ttl_s: float = TTL_S  # 0 = for ever
    expires_s: float = nan  # Unix time; wins over `ttl_s`
    allocate_once: bool = True
    policy: AllocatePolicy = AllocatePolicy.DEFAULT
    restricted: tuple[str, ...] = ()  # resources that `RESTRICTED` is about; none = all that are reserved
    unschedulable: bool = False  # nobody may draw for now
    taints: tuple[Taint, ...] = ()
    labels: Labels = NO_LABELS
    order: int = 0
    demands: Demands = NO_DEMANDS
    holds: Holdings = NO_HOLDINGS
    wrong: tuple[str, ...] = ()  # what of it cannot be used, in sentences
    # --- as its status has it
    phase: Phase = Phase.PENDING
    node: str = ""
    allocatable: Amounts = NOTHING
    allocated: Amounts = NOTHING
    current: tuple[CurrentOwner, ...] = ()
    conditions: tuple[Condition, ...] = ()

    @property
    def ends_s(self) -> float:
        """When its time is over, Unix time; inf for never."""
        if self.expires_s == self.expires_s:
            return self.expires_s
        return self.created_s + self.ttl_s if self.ttl_s > 0 else inf

    @property
    def changed_s(self) -> float:
        """When it became ready or ended, Unix time; NaN where its status does not say."""
        return next((each.since_s for each in self.conditions if each.type == READY), nan)

    @property
    def reserved(self) -> Amounts:
        """What is kept: what was granted with the node, until then what is asked."""
        return self.allocatable if self.node and self.allocatable else self.pod.requests
