"""PodGroup of scheduling.sigs.k8s.io/v1alpha1 and of scheduling.x-k8s.io/v1alpha1: read as a gang's definition; its
status is written.

A PodGroup has a gang's size in its spec and everything else in Koordinator's annotations, and other controllers read
its status. Only the fields that count are read; phase and counts are written to the status of the object of that UID,
without `scheduled` in scheduling.x-k8s.io, which does not have it.
Limits: occupiedBy and scheduleStartTime are left as they are; a minResources that cannot be parsed is reported and not
used.

Source: scheduler-plugins, apis/scheduling/v1alpha1/types.go, of both groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from msgspec import field

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Kind, Quantities, Text, Time
from cotenant.drivers.kube.kinds.pod.gang import GangAnnotations, read_gang
from cotenant.model.errors import InvalidInput
from cotenant.model.groups import gang
from cotenant.model.groups.gang import GangPhase, PodGroup, PodGroupStatus
from cotenant.model.resources import Amounts, parse_amount


class PodGroupAnnotations(GangAnnotations, frozen=True):
    """Those of a pod, and another name for the match policy."""

    light_match_policy: Text = field(default=None, name=gang.LIGHT_MATCH_POLICY)


class PodGroupMeta(ApiStruct, frozen=True):
    """ObjectMeta with the annotations of a gang."""

    name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    creation_timestamp: Time | None = None
    annotations: PodGroupAnnotations | None = None


class PodGroupSpec(ApiStruct, frozen=True):
    """The size of the gang."""

    min_member: Int32 | None = None
    min_resources: Quantities = None
    schedule_timeout_seconds: Int32 | None = None


class PodGroupObjectStatus(ApiStruct, frozen=True):
    """The status."""

    phase: str = ""
    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroupObject(ApiStruct, frozen=True):
    """A PodGroup."""

    metadata: PodGroupMeta
    spec: PodGroupSpec | None = None
    status: PodGroupObjectStatus | None = None


POD_GROUPS = Kind("PodGroup", gang.SIGS_GROUP, "v1alpha1", "podgroups", True, PodGroupObject)
X_POD_GROUPS = Kind("PodGroup", gang.X_GROUP, "v1alpha1", "podgroups", True, PodGroupObject)


def read_pod_group(obj: PodGroupObject, api_group: str = gang.SIGS_GROUP) -> PodGroup:
    """A gang's definition, of one of the API groups. Raises `InvalidInput` for one without a name."""
    meta, spec, status = obj.metadata, obj.spec or PodGroupSpec(), obj.status or PodGroupObjectStatus()
    if not meta.name or not meta.uid:
        raise InvalidInput("PodGroup", f"{meta.namespace}/{meta.name}", "a name and a UID")
    key = f"{meta.namespace or 'default'}/{meta.name}"
    written = meta.annotations or PodGroupAnnotations()
    if written.gang_match_policy is None and written.light_match_policy is not None:
        written = PodGroupAnnotations(
            **{
                name: getattr(written, name)
                for name in GangAnnotations.__struct_fields__
                if name != "gang_match_policy"
            },
            gang_match_policy=written.light_match_policy,
        )
    phase = GangPhase(status.phase) if status.phase in GangPhase.__members__.values() else GangPhase.UNKNOWN
    timeout_s = spec.schedule_timeout_seconds
    notes = read_gang(written)
    min_resources, wrong = _min_resources(spec.min_resources or {})
    return PodGroup(
        key=key,
        uid=meta.uid,
        created_s=meta.creation_timestamp.timestamp() if meta.creation_timestamp is not None else 0.0,
        min_member=spec.min_member,
        wait_s=float(timeout_s) if timeout_s is not None else None,
        notes=replace(notes, wrong=(*notes.wrong, *wrong)) if wrong else notes,
        status=PodGroupStatus(
            key, meta.uid, phase, status.scheduled, status.running, status.succeeded, status.failed, api_group
        ),
        min_resources=min_resources,
        api_group=api_group,
    )


def _min_resources(written: Mapping[str, str | int | float]) -> tuple[Amounts, tuple[str, ...]]:
    found, wrong = {}, []
    for name, text in written.items():
        try:
            found[name] = parse_amount(name, text, f"spec.minResources.{name}")
        except InvalidInput as error:
            wrong.append(str(error))
    return Amounts.of(found), tuple(wrong)


async def write_pod_group(client: Client, status: PodGroupStatus) -> None:
    """Write a PodGroup's status, unless another object has its name by now."""
    namespace, _, name = status.key.partition("/")
    written = {
        "phase": status.phase.value,
        "scheduled": status.scheduled,
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
    }
    if status.api_group == gang.X_GROUP:
        del written["scheduled"]
    kind = X_POD_GROUPS if status.api_group == gang.X_GROUP else POD_GROUPS
    await client.set_status(kind, namespace, name, status.uid, written, keeps=True)
