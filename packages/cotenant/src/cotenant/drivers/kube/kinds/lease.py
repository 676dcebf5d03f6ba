"""Lease of coordination.k8s.io: its holder, duration and times."""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Kind, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta


class LeaseSpec(ApiStruct, frozen=True):
    """The holder of a lease. Times are MicroTime text: they are written, shown, and never compared with this
    machine's clock.
    """

    holder_identity: Text = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: Text = None
    renew_time: Text = None
    lease_transitions: Int32 | None = None


class Lease(ApiStruct, frozen=True):
    """coordination.k8s.io/v1 Lease."""

    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec | None = None


LEASES = Kind("Lease", "coordination.k8s.io", "v1", "leases", True, Lease)
