"""The API call of each instruction about migrations.

The rebalancer may be killed between a call and its answer, or may have lost its lease, and another may have acted.
Every call is conditional: statuses on the resourceVersion that was read, evictions and deletions on the UID, and what
is created has a name that belongs to one job, so repeating a call changes nothing.
Limits: a server that ignores preconditions would break this; kube-apiserver does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import msgspec

from cotenant.drivers.kube.client.client import JSON_PATCH, MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import AlreadyExists, Conflict, Invalid, NotFound
from cotenant.drivers.kube.kinds.custom.migration_job import (
    MIGRATION_JOBS,
    MigrationJobObject,
    job_manifest,
    written_job_status,
    written_pod_ref,
)
from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS, ReservationObject
from cotenant.drivers.kube.kinds.custom.reservation_template import migration_manifest
from cotenant.drivers.kube.kinds.eviction_requests import EVICTION_REQUESTS, EvictionRequestObject, request_manifest
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.migration.instructions import (
    CreateJob,
    CreateReservation,
    DeleteJob,
    DeleteJobReservation,
    EvictJobPod,
    Instruction,
    RequestEviction,
    SetLanding,
    SetPodUid,
    StartSurge,
    UndoSurge,
    WithdrawEviction,
    WriteStatus,
)
from cotenant.engine.migration.migrations import request_key
from cotenant.engine.rebalancer.plan import PlannedRoom
from cotenant.model.cluster.annotations import EXPECTED_ROOM
from cotenant.model.cluster.eviction_request import REBALANCER
from cotenant.model.cluster.observed import ExpectedRoom
from cotenant.model.groups.migration import COMPONENT, CREATED_BY, MOVE, SOFT_EVICTION, EvictPolicy, MigrationJob
from cotenant.model.json_object import JsonObject
from cotenant.services.rebalancer.surging import start_surge, undo_surge

Stored = MigrationJobObject | ReservationObject | EvictionRequestObject | None


async def carry_out(client: Client, what: Instruction, now_s: float) -> Stored:
    """Make the call; returns the object as stored, where there is one. Raises `CotenantError`; what is done already
    is no error.
    """
    match what:
        case CreateJob(job=job):
            try:
                return await client.create(MIGRATION_JOBS, "", job_manifest(job))
            except AlreadyExists:
                return None
        case SetPodUid(job=job, uid=uid):
            patch = _over(job, "/spec/podRef/uid", uid)
            with _lost_as_conflict():
                return await client.patch(MIGRATION_JOBS, "", job.name, patch, content_type=JSON_PATCH)
        case SetLanding(job=job, pod=pod, note=note):
            move = f"/metadata/annotations/{MOVE.replace('/', '~1')}"
            landing = {"/spec/podRef": written_pod_ref(pod), move: msgspec.json.encode(note).decode()}
            with _lost_as_conflict():
                return await client.patch(
                    MIGRATION_JOBS, "", job.name, _over_all(job, landing), content_type=JSON_PATCH
                )
        case WriteStatus(job=job):
            patch = _over(job, "/status", written_job_status(job))
            with _lost_as_conflict():
                return await client.patch(
                    MIGRATION_JOBS, "", job.name, patch, content_type=JSON_PATCH, subresource="status"
                )
        case CreateReservation():
            return await _reserve(client, what, now_s)
        case EvictJobPod():
            await _evict(client, what, now_s)
        case StartSurge(job=job):
            await start_surge(client, job)
        case UndoSurge(job=job):
            await undo_surge(client, job)
        case RequestEviction(job=job):
            namespace, _, name = request_key(job).partition("/")
            labels = {CREATED_BY: COMPONENT}
            made = request_manifest(name, namespace, job.pod.name, job.pod.uid, REBALANCER, labels)
            try:
                return await client.create(EVICTION_REQUESTS, namespace, made)
            except AlreadyExists:
                return await client.get(EVICTION_REQUESTS, namespace, name)
        case WithdrawEviction(request=request):
            with suppress(NotFound, Conflict):
                await client.delete(EVICTION_REQUESTS, request.namespace, request.name, uid=request.uid)
        case DeleteJobReservation(name=name, uid=uid):
            with suppress(NotFound, Conflict):
                await client.delete(RESERVATIONS, "", name, uid=uid)
        case DeleteJob(job=job):
            with suppress(NotFound, Conflict):
                await client.delete(MIGRATION_JOBS, "", job.name, uid=job.uid)
    return None


def _over(job: MigrationJob, path: str, value: object) -> bytes:
    """A patch of one part of the job that was read."""
    return _over_all(job, {path: value})


def _over_all(job: MigrationJob, values: Mapping[str, object]) -> bytes:
    """A patch of several parts, by path."""
    patch: list[JsonObject] = [
        {"op": "test", "path": "/metadata/uid", "value": job.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": job.version},
        *({"op": "add", "path": path, "value": value} for path, value in values.items()),
    ]
    return msgspec.json.encode(patch)


@contextmanager
def _lost_as_conflict() -> Iterator[None]:
    """`Conflict` where a test of a patch failed: the object has changed since it was read."""
    try:
        yield
    except Invalid as error:
        if error.code != 422 or any(cause.field for cause in error.causes):
            raise
        raise Conflict(str(error), error.code, error.reason) from None


async def _reserve(client: Client, what: CreateReservation, now_s: float) -> ReservationObject | None:
    job = what.job
    pod = json.loads(await client.request("GET", PODS.path(what.pod.namespace, what.pod.name)))
    if pod.get("metadata", {}).get("uid") != what.pod.uid:
        raise NotFound(f"pod {what.pod.key} was replaced")
    made = migration_manifest(
        pod,
        job.reservation_name,
        job.ttl_s,
        what.node,
        now_s=now_s,
        target=what.target,
        job=(job.name, job.uid),
        surge=what.by_label,
    )
    try:
        return await client.create(RESERVATIONS, "", made)
    except AlreadyExists:
        return await client.get(RESERVATIONS, "", job.reservation_name)


async def keep_room(client: Client, room: PlannedRoom, until_s: float) -> None:
    """Let schedulers keep the room that is made for a waiting pod, until this Unix time. Raises `CotenantError`,
    also where the pod was replaced.
    """
    namespace, _, name = room.pod.partition("/")
    written = msgspec.json.encode(ExpectedRoom(room.node, round(until_s, 3), room.pods)).decode()
    body = {"metadata": {"uid": room.uid, "annotations": {EXPECTED_ROOM: written}}}
    await client.patch(PODS, namespace, name, body, content_type=MERGE_PATCH)


async def _evict(client: Client, what: EvictJobPod, now_s: float) -> None:
    pod, grace_s = what.job.pod, what.job.grace_s
    try:
        if what.policy is EvictPolicy.DELETE:
            await client.delete(PODS, pod.namespace, pod.name, uid=pod.uid, grace_s=grace_s)
        elif what.policy is EvictPolicy.SOFT:
            at = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            note: dict[str, object] = {"timestamp": at, "initiator": COMPONENT}
            if grace_s is not None:
                note["deleteOptions"] = {"gracePeriodSeconds": grace_s}
            body = {"metadata": {"uid": pod.uid, "annotations": {SOFT_EVICTION: json.dumps(note)}}}
            await client.patch(PODS, pod.namespace, pod.name, body, content_type=MERGE_PATCH)
        else:
            await client.evict(pod.namespace, pod.name, pod.uid, grace_s=grace_s)
    except (NotFound, Conflict):
        return  # gone, or another pod has its name: the watch reports it
