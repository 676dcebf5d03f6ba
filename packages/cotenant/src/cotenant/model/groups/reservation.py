"""Reservations: resources of a node that are held for pods to come.

A rebalancer must know that there is capacity before it evicts, and a team wants to hold capacity that others do not use
meanwhile. Koordinator's Reservation as a frozen value: the template as a `Pod`, its owners, its lifetime, and its
progress from its status. It is identified by its UID.
Limits: volumes of the template are not read.

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
from cotenant.model.identical_fields import identical
from cotenant.model.resources import NOTHING, Amounts

KIND = "Reservation"
TTL_S = 86_400.0  # default where neither a lifetime nor an expiry time is given
KEPT_S = 86_400.0  # an ended one is deleted after this time


class ReservationPhase(StrEnum):
    """`status.phase`. Upstream's Waiting (for resources that are still in use) does not occur here."""

    PENDING = "Pending"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"  # its owner has drawn from it
    FAILED = "Failed"  # it expired, or its node is gone

    @property
    def is_final(self) -> bool:
        """Whether it no longer holds resources."""
        return self in (ReservationPhase.SUCCEEDED, ReservationPhase.FAILED)


class AllocatePolicy(StrEnum):
    """Where an owner's resources are taken from. Upstream treats the default as Aligned."""

    DEFAULT = ""
    ALIGNED = "Aligned"  # from the reservation first, the remainder from the node
    RESTRICTED = "Restricted"  # reserved resources are taken from the reservation only


@dataclass(frozen=True, slots=True)
class PreAllocation:
    """The reservation may be placed where running pods have the room: they become its first owners (since
    Koordinator 1.8).
    """

    multiple: bool = False  # several pods of a node; otherwise one
    cluster: bool = False  # pods with the label `is-pre-allocatable`; otherwise pods that its owners select
    required: bool = False  # at least one pod, also where the node has room without


@dataclass(frozen=True, slots=True)
class ObjectOwner:
    """Reference to one object; empty fields match anything."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ControllerOwner:
    """Pods created by this controller; empty fields match anything, as does `controller` None."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    kind: str = ""
    api_version: str = ""
    controller: bool | None = None


@dataclass(frozen=True, slots=True)
class ReservationOwner:
    """Pods that may draw from the reservation: every given criterion must match, and at least one must be given."""

    object: ObjectOwner | None = None
    controller: ControllerOwner | None = None
    selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class CurrentOwner:
    """A pod that has drawn from the reservation."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ReservationCondition:
    """A condition of the status."""

    type: str  # Scheduled or Ready
    status: bool
    reason: str
    message: str = ""
    since_s: float = field(default=nan, compare=False)  # Unix time


SCHEDULED, READY = "Scheduled", "Ready"


@dataclass(frozen=True, slots=True)
class Reservation:
    """One reservation as stored in the API server."""

    name: str
    uid: str
    pod: Pod  # the template
    owners: tuple[ReservationOwner, ...] = ()
    created_s: float = 0.0  # Unix time
    scheduler: str = ""  # of the template; empty = any
    ttl_s: float = TTL_S  # 0 = no expiry
    expires_s: float = nan  # Unix time; overrides `ttl_s`
    pre_allocation: PreAllocation | None = None
    allocate_once: bool = True
    policy: AllocatePolicy = AllocatePolicy.DEFAULT
    restricted: tuple[str, ...] = ()  # resources that `RESTRICTED` applies to; none = all that are reserved
    unschedulable: bool = False  # no pod may draw from it for now
    taints: tuple[Taint, ...] = ()
    labels: Labels = NO_LABELS
    order: int = 0
    demands: Demands = NO_DEMANDS
    holds: Holdings = NO_HOLDINGS
    wrong: tuple[str, ...] = ()  # messages about what cannot be used
    # --- from its status
    phase: ReservationPhase = ReservationPhase.PENDING
    node: str = ""
    allocatable: Amounts = NOTHING
    allocated: Amounts = NOTHING
    current: tuple[CurrentOwner, ...] = ()
    conditions: tuple[ReservationCondition, ...] = ()

    @property
    def ends_s(self) -> float:
        """When it expires, Unix time; inf for never."""
        if self.expires_s == self.expires_s:
            return self.expires_s
        return self.created_s + self.ttl_s if self.ttl_s > 0 else inf

    @property
    def changed_s(self) -> float:
        """When it became ready or ended, Unix time; NaN where its status does not say."""
        return next((condition.since_s for condition in self.conditions if condition.type == READY), nan)

    @property
    def reserved(self) -> Amounts:
        """The amounts held: those granted with the node, before that those requested."""
        return self.allocatable if self.node and self.allocatable else self.pod.requests

    def __eq__(self, other: object) -> bool:
        """Field by field; an expiry that is not given (NaN) is equal."""
        return identical(self, other)
