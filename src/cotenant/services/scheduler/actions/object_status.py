"""The write for each type of status of a custom object: PodGroups, quotas, reservations.

One line a type; the rate, the order and retries are those of `StatusWriter` (services/kube_process/statuses.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.drivers.kube.kinds.custom.pod_group import write_pod_group
from cotenant.engine.plugins.quotas.status import QuotaStatus
from cotenant.engine.plugins.reservations.instructions import DeleteReservation, ReservationStatus
from cotenant.model.groups.gang import PodGroupStatus
from cotenant.services.kube_process.statuses import Writer
from cotenant.services.scheduler.actions import reservations
from cotenant.services.scheduler.actions.quota_status import write_quota_status

WRITERS: Mapping[type, Writer] = {
    QuotaStatus: write_quota_status,
    ReservationStatus: reservations.write_status,
    DeleteReservation: reservations.delete,
    PodGroupStatus: write_pod_group,
}
