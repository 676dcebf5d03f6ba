"""The write for each type of status of a custom object: PodGroups, quotas, reservations, profiles of workloads.

One line a type; the rate, the order and retries are those of `StatusWriter` (services/kube_process/statuses.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.custom.pod_group import write_pod_group
from cotenant.drivers.kube.kinds.custom.workload_pod_group import write_workload_pod_group
from cotenant.drivers.kube.kinds.custom.workload_profile import (
    WORKLOAD_PROFILES,
    axes_fields,
    bound_fields,
    overall_fields,
)
from cotenant.engine.plugins.quotas.status import QuotaStatus
from cotenant.engine.plugins.reservations.instructions import DeleteReservation, ReservationStatus
from cotenant.engine.workloads.profiles import WorkloadProfileStatus
from cotenant.model.groups.gang import K8S_GROUP, PodGroupStatus
from cotenant.services.kube_process.statuses import Writer
from cotenant.services.scheduler.actions import reservations
from cotenant.services.scheduler.actions.quota_status import write_quota_status


async def write_gang_status(client: Client, status: PodGroupStatus) -> None:
    """Write the status of a PodGroup of any API group."""
    if status.api_group == K8S_GROUP:
        await write_workload_pod_group(client, status)
    else:
        await write_pod_group(client, status)


async def write_profile_status(client: Client, status: WorkloadProfileStatus) -> None:
    """Write what was learned of a workload; what `cotenant profile run` measured stays."""
    fields: dict[str, object] = {
        "observedGeneration": status.generation,
        "updatedAt": datetime.fromtimestamp(status.at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "pods": status.pods,
        "message": status.problem,
        "overall": overall_fields(status.overall),
        "axes": axes_fields(status.axes),
        "boundBy": bound_fields(status.bound),
    }
    namespace, _, name = status.key.partition("/")
    await client.set_status(WORKLOAD_PROFILES, namespace, name, status.uid, fields, keeps=True)


WRITERS: Mapping[type, Writer] = {
    QuotaStatus: write_quota_status,
    ReservationStatus: reservations.write_status,
    DeleteReservation: reservations.delete,
    PodGroupStatus: write_gang_status,
    WorkloadProfileStatus: write_profile_status,
}
