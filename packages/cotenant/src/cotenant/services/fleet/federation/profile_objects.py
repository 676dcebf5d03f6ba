"""A joined cluster's WorkloadProfiles: listed each period, and `status.shared` written."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, Forbidden, NotFound
from cotenant.drivers.kube.kinds.custom.workload_profile import (
    WORKLOAD_PROFILES,
    overall_fields,
    read_workload_profile,
)
from cotenant.engine.federation.sharing import WriteShared
from cotenant.model.cluster.workload_profile import WorkloadProfile


async def read_profiles(client: Client) -> tuple[WorkloadProfile, ...]:
    """All of them; none where the kind is not installed or may not be listed. Raises `CotenantError`."""
    try:
        return tuple(read_workload_profile(found) for found in await client.all_of(WORKLOAD_PROFILES))
    except (NotFound, Forbidden):
        return ()


async def write_shared(client: Client, wanted: Sequence[WriteShared]) -> int:
    """How many were written; one that changed or went meanwhile is left for the next period. Raises `CotenantError`."""
    written = 0
    for write in wanted:
        namespace, _, name = write.key.partition("/")
        shared = {"clusters": write.clusters, "overall": overall_fields(write.overall)} if write.clusters else {}
        try:
            await client.set_status(WORKLOAD_PROFILES, namespace, name, write.uid, {"shared": shared}, keeps=True)
            written += 1
        except (Conflict, NotFound):
            continue
    return written
