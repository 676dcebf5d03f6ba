"""CPUs, devices, reservations and gang in a pod's annotations: what it asks for, and what it was given.

These annotations are JSON and numbers in text, written by people and by schedulers, and one that cannot be read must
neither count as absent nor stop the others. Each is read by the value that it becomes (model/), and what is wrong
becomes a sentence about that annotation.

Source: Koordinator, apis/extension/{coscheduling,resource,numa_aware,device_share}.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.drivers.kube.kinds.attempting import AttemptText
from cotenant.drivers.kube.kinds.pod.gang import read_gang
from cotenant.drivers.kube.kinds.pod.reservation_affinity import read_affinity
from cotenant.drivers.kube.kinds.pod.schema import PodAnnotations
from cotenant.model.cluster.demands import GPU_SHARE, NO_DEMANDS, NO_HOLDINGS, Demands, Holdings
from cotenant.model.cluster.seal import SEAL
from cotenant.model.cpus.spec import RESOURCE_STATUS, NumaTopologySpec, ResourceSpec, ResourceStatus
from cotenant.model.devices.allocation import DEVICE_ALLOCATED, format_allocations, parse_allocations
from cotenant.model.devices.card_need import NO_NEED, parse_card_need
from cotenant.model.devices.hints import parse_hints, parse_joint, parse_partition_spec
from cotenant.model.groups import gang
from cotenant.model.groups.reservation_notes import (
    ALLOCATED,
    AllocatedReservation,
    parse_exact_match,
    parse_pre_allocatable_priority,
)


def read_demands(written: PodAnnotations, wrong: list[str]) -> Demands:
    """What the pod asks for; sentences about what cannot be read are added to `wrong`."""
    attempt = AttemptText(wrong)
    found = Demands(
        gang=_gang(written),
        cpus=attempt(ResourceSpec.parse, written.resource_spec),
        numa=attempt(NumaTopologySpec.parse, written.numa_topology_spec),
        device_hints=attempt(parse_hints, written.device_allocate_hint) or (),
        joint_devices=attempt(parse_joint, written.device_joint_allocate),
        partition=attempt(parse_partition_spec, written.gpu_partition_spec),
        reservation_affinity=attempt(read_affinity, written.reservation_affinity),
        pre_allocatable_priority=attempt(parse_pre_allocatable_priority, written.pre_allocatable_priority or None) or 0,
        exact_match=attempt(parse_exact_match, written.exact_match_reservation or None) or (),
        card_need=attempt(parse_card_need, written.gpu_need or None) or NO_NEED,
    )
    return found if found != NO_DEMANDS else NO_DEMANDS


def read_holdings(written: PodAnnotations, wrong: list[str]) -> Holdings:
    """What the pod was given; sentences about what cannot be read are added to `wrong`."""
    attempt = AttemptText(wrong)
    found = Holdings(
        cpus=attempt(ResourceStatus.parse, written.resource_status or None),
        devices=attempt(parse_allocations, written.device_allocated or None) or (),
        reservation=attempt(AllocatedReservation.parse, written.reservation_allocated or None),
        gpu_share=(written.gpu_share or "") if written.device_allocated else "",
    )
    return found if found != NO_HOLDINGS else NO_HOLDINGS


def texts_of_holdings(written: PodAnnotations) -> dict[str, str]:
    """The annotations about what the pod holds, its seal among them, as they are written; without empty ones."""
    texts = {
        RESOURCE_STATUS: written.resource_status,
        DEVICE_ALLOCATED: written.device_allocated,
        ALLOCATED: written.reservation_allocated,
        GPU_SHARE: written.gpu_share,
        SEAL: written.seal,
    }
    return {name: text for name, text in texts.items() if text}


def written_holdings(holds: Holdings, written: Iterable[str] = ()) -> dict[str, str]:
    """The annotations with what a pod was given; none for nothing.

    Of those that are `written` on it already, the others are emptied: a bind can overwrite an annotation, and not
    remove it.
    """
    annotations = dict.fromkeys(written, "")
    if holds.cpus is not None:
        annotations[RESOURCE_STATUS] = holds.cpus.format()
    if holds.devices:
        annotations[DEVICE_ALLOCATED] = format_allocations(holds.devices)
    if holds.reservation is not None:
        annotations[ALLOCATED] = holds.reservation.format()
    if holds.gpu_share:
        annotations[GPU_SHARE] = holds.gpu_share
    return annotations


def _gang(written: PodAnnotations) -> gang.GangNotes | None:
    fields = (
        written.gang_name,
        written.gang_min_available,
        written.gang_total_number,
        written.gang_waiting_time,
        written.gang_mode,
        written.gang_groups,
        written.gang_match_policy,
        written.gang_topology,
        written.gang_network_topology,
    )
    if all(field is None for field in fields):
        return None
    return read_gang(written)
