"""What a pod asks beyond the amounts in its requests, and what it was given of it.

Problem: gangs, quotas, CPUs, devices and reservations are asked for in annotations, and what was given has to outlive the scheduler that gave it.
Choice: two frozen values beside the pod: `Demands` as its owner wrote them, `Holdings` as a scheduler did; equal demands are judged alike. What a
pod's *labels* say (its quota, its PodGroup) stays among its labels. Limits: what cannot be read is a sentence in `ObservedPod.unsupported`.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cpus.spec import NumaTopologySpec, ResourceSpec, ResourceStatus
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.hints import DeviceHint, JointAllocation, PartitionWish
from cotenant.model.groups.gang import GangNotes
from cotenant.model.groups.reservation_notes import Allocated, ReservationAffinity


@dataclass(frozen=True, slots=True)
class Demands:
    """As the pod's owner wrote them."""

    gang: GangNotes | None = None
    cpus: ResourceSpec | None = None
    numa: NumaTopologySpec | None = None
    device_hints: tuple[DeviceHint, ...] = ()
    joint_devices: JointAllocation | None = None
    partition: PartitionWish | None = None
    reservation_affinity: ReservationAffinity | None = None


@dataclass(frozen=True, slots=True)
class Holdings:
    """As a scheduler gave them; they are the pod's while it sits on its node."""

    cpus: ResourceStatus | None = None
    devices: tuple[DeviceAllocation, ...] = ()
    reservation: Allocated | None = None  # from which it drew


NO_DEMANDS = Demands()
NO_HOLDINGS = Holdings()
