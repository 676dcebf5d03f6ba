"""What a pod requests beyond resource amounts, and what the scheduler allocated for it.

Gangs, quotas, CPUs, devices and reservations are requested in annotations, and the allocation has to survive a
scheduler restart. Two frozen values beside the pod: `Demands`, written by its owner, and `Holdings`, written by a
scheduler; equal demands are scheduled alike. What a pod's *labels* say (its quota, its PodGroup) stays in its labels.
Limits: what cannot be parsed becomes a message in `ObservedPod.unsupported`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.claims.needs import ClaimHolding, ClaimNeeds
from cotenant.model.cpus.spec import NumaTopologySpec, ResourceSpec, ResourceStatus
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.card_need import NO_NEED, CardNeed
from cotenant.model.devices.hints import DeviceHint, JointAllocation, PartitionSpec
from cotenant.model.groups.gang import GangNotes
from cotenant.model.groups.reservation_notes import AllocatedReservation, ReservationAffinity


@dataclass(frozen=True, slots=True)
class Demands:
    """Written by the pod's owner."""

    gang: GangNotes | None = None
    cpus: ResourceSpec | None = None
    numa: NumaTopologySpec | None = None
    device_hints: tuple[DeviceHint, ...] = ()
    joint_devices: JointAllocation | None = None
    partition: PartitionSpec | None = None
    reservation_affinity: ReservationAffinity | None = None
    pre_allocatable_priority: int = 0  # which running pods reservations take first (mode Cluster)
    beyond: tuple[str, ...] = ()  # extended resources that it requests and that only extenders look at
    exact_match: tuple[str, ...] = ()  # resources of which it only uses reservations of exactly its request
    claims: ClaimNeeds | None = None  # claims of devices
    card_need: CardNeed = NO_NEED  # what it takes of each of its GPUs beside what it requests
    lent_gpu_grace_s: int = 0  # how long it may take to end, where it asks for a part of a GPU that is lent


@dataclass(frozen=True, slots=True)
class Holdings:
    """Allocated by a scheduler; they belong to the pod while it is assigned to its node."""

    cpus: ResourceStatus | None = None
    devices: tuple[DeviceAllocation, ...] = ()
    reservation: AllocatedReservation | None = None  # from which it drew
    # what enforces its share of a GPU, or `UNENFORCED`; empty: it has none. No part of what is given
    gpu_share: str = field(default="", compare=False)
    claims: tuple[ClaimHolding, ...] = ()  # what is written into its claims before the bind; in no annotation


GPU_SHARE = "cotenant.io/gpu-share-enforced-by"  # annotation of a pod
UNENFORCED = "nothing"
NO_DEMANDS = Demands()
NO_HOLDINGS = Holdings()
