"""PodMigrationJob objects (scheduling.koordinator.sh/v1alpha1): read as the model's value, and what is written of them.

Users and other controllers create jobs too, and an error in one must be visible on it. Whatever cannot be read becomes
a sentence in `wrong`, and the job fails with it; only an object without a name or UID is refused. The status is written
whole.
Limits: `reservationOptions.template` and `preemptionOptions` are not read; durations are written in seconds.
Source: Koordinator, apis/scheduling/v1alpha1/pod_migration_job_types.go.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite, nan

import msgspec
from msgspec import field

from cotenant.drivers.kube.kinds.attempting import ReadAttempt
from cotenant.drivers.kube.kinds.durations import duration_s
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Strings, Text, Time
from cotenant.drivers.kube.kinds.parts import DatedCondition, ObjectReference
from cotenant.drivers.kube.kinds.selectors import one_of
from cotenant.model.cluster.annotations import FORCED_EVICTION
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.migration import (
    ALLOWED_BY,
    COMPONENT,
    CREATED_BY,
    EVICT_POLICY,
    EVICT_REASON,
    EVICT_TRIGGER,
    KIND,
    MOVE,
    OR_PODS,
    REQUIRED,
    SUGGESTED,
    TRUE,
    WHAT_IF,
    EvictPolicy,
    JobCondition,
    JobMode,
    JobPhase,
    MigrationJob,
    MoveNote,
    PodRef,
)
from cotenant.model.json_object import JsonObject

_POLICIES = {evict_policy.value: evict_policy for evict_policy in EvictPolicy}


class JobAnnotations(ApiStruct, frozen=True):
    """The annotations that are read."""

    reason: Text = field(default=None, name=EVICT_REASON)
    trigger: Text = field(default=None, name=EVICT_TRIGGER)
    forced: Text = field(default=None, name=FORCED_EVICTION)
    move: Text = field(default=None, name=MOVE)
    what_if: Text = field(default=None, name=WHAT_IF)
    or_pods: Text = field(default=None, name=OR_PODS)
    suggested: Text = field(default=None, name=SUGGESTED)
    allowed_by: Text = field(default=None, name=ALLOWED_BY)


class JobMeta(ApiStruct, frozen=True):
    """ObjectMeta."""

    name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    creation_timestamp: Time | None = None
    labels: Strings = None
    annotations: JobAnnotations | None = None


class _ReservationOptions(ApiStruct, frozen=True):
    reservation_ref: ObjectReference | None = None


class _DeleteOptions(ApiStruct, frozen=True):
    grace_period_seconds: int | None = None


class MigrationJobSpec(ApiStruct, frozen=True):
    """Its spec."""

    paused: bool | None = None
    ttl: Text = None
    mode: Text = None
    pod_ref: ObjectReference | None = None
    reservation_options: _ReservationOptions | None = None
    delete_options: _DeleteOptions | None = None


class MigrationJobStatus(ApiStruct, frozen=True):
    """Its status."""

    phase: Text = None
    status: Text = None
    reason: Text = None
    message: Text = None
    node_name: Text = None
    pod_ref: ObjectReference | None = None
    conditions: tuple[DatedCondition, ...] | None = None


class MigrationJobObject(ApiStruct, frozen=True):
    """A PodMigrationJob."""

    metadata: JobMeta = JobMeta()
    spec: MigrationJobSpec | None = None
    status: MigrationJobStatus | None = None


MIGRATION_JOBS = Kind(KIND, "scheduling.koordinator.sh", "v1alpha1", "podmigrationjobs", False, MigrationJobObject)


def read_migration_job(obj: MigrationJobObject) -> MigrationJob:
    """Raises `InvalidInput` for one without a name or UID; any other error is a sentence in `wrong`."""
    meta, spec, status = obj.metadata, obj.spec or MigrationJobSpec(), obj.status or MigrationJobStatus()
    if not (meta.name and meta.uid):
        raise InvalidInput(KIND, meta.name or "", "an object with a name and a UID")
    wrong: list[str] = []
    attempt = ReadAttempt(wrong)
    notes, labels = meta.annotations or JobAnnotations(), meta.labels or {}
    options = spec.reservation_options
    reference = options.reservation_ref if options is not None else None
    return MigrationJob(
        name=meta.name,
        uid=meta.uid,
        pod=_pod(spec.pod_ref),
        created_s=meta.creation_timestamp.timestamp() if meta.creation_timestamp is not None else 0.0,
        version=meta.resource_version or "",
        paused=bool(spec.paused),
        ttl_s=attempt(0.0, lambda: _ttl(spec.ttl)),
        mode=attempt(
            JobMode.RESERVATION_FIRST, lambda: one_of(JobMode, spec.mode or JobMode.RESERVATION_FIRST, "spec.mode")
        ),
        reservation=(reference.name or "") if reference is not None else "",
        policy=_POLICIES.get(labels.get(EVICT_POLICY, "")),
        grace_s=spec.delete_options.grace_period_seconds if spec.delete_options is not None else None,
        forced=notes.forced is not None,
        is_ours=labels.get(CREATED_BY) == COMPONENT,
        reason=notes.reason or "",
        trigger=notes.trigger or "",
        note=_note(notes.move),
        what_if=notes.what_if == REQUIRED,
        alternatives=tuple(key for name in (notes.or_pods or "").split(",") if (key := name.strip())),
        created_by=labels.get(CREATED_BY, ""),
        suggested=notes.suggested == TRUE,
        allowed_by=notes.allowed_by or "",
        phase=attempt(JobPhase.FAILED, lambda: one_of(JobPhase, status.phase or JobPhase.PENDING, "status.phase")),
        status=status.status or "",
        status_reason=status.reason or "",
        message=status.message or "",
        node=status.node_name or "",
        new_pod=_pod(status.pod_ref) if status.pod_ref is not None else None,
        conditions=tuple(_condition(condition) for condition in status.conditions or ()),
        wrong=tuple(wrong),  # after everything that may add to it
    )


def written_job_status(job: MigrationJob) -> dict[str, object]:
    """The whole status."""
    found: JsonObject = {
        "phase": job.phase.value,
        "status": job.status,
        "reason": job.status_reason,
        "message": job.message,
        "nodeName": job.node,
        "conditions": [_written(condition) for condition in job.conditions],
    }
    if job.new_pod is not None:
        found["podRef"] = written_pod_ref(job.new_pod)
    return {name: value for name, value in found.items() if value}


def job_manifest(job: MigrationJob) -> dict[str, object]:
    """A job to create: its name, spec, labels and annotations."""
    annotations = {EVICT_REASON: job.reason, EVICT_TRIGGER: job.trigger}
    if job.note is not None:
        annotations[MOVE] = msgspec.json.encode(job.note).decode()
    if job.what_if:
        annotations[WHAT_IF] = REQUIRED
    if job.alternatives:
        annotations[OR_PODS] = ",".join(job.alternatives)
    if job.suggested:
        annotations[SUGGESTED] = TRUE
    if job.allowed_by:
        annotations[ALLOWED_BY] = job.allowed_by
    created_by = COMPONENT if job.is_ours else job.created_by
    labels = {CREATED_BY: created_by} if created_by else {}
    if job.policy is not None:
        labels[EVICT_POLICY] = job.policy.value
    spec: JsonObject = {"podRef": written_pod_ref(job.pod), "mode": job.mode.value, "ttl": f"{job.ttl_s:.0f}s"}
    if job.paused:
        spec["paused"] = True
    if job.grace_s is not None:
        spec["deleteOptions"] = {"gracePeriodSeconds": job.grace_s}
    return {
        "apiVersion": MIGRATION_JOBS.api_version,
        "kind": KIND,
        "metadata": {"name": job.name, "labels": labels, "annotations": annotations},
        "spec": spec,
    }


def written_pod_ref(pod: PodRef) -> dict[str, str]:
    """A reference to a pod."""
    found = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return {name: value for name, value in found.items() if value}


def _pod(ref: ObjectReference | None) -> PodRef:
    return PodRef(ref.namespace or "", ref.name or "", ref.uid or "") if ref is not None else PodRef()


def _ttl(text: str | None) -> float:
    return 0.0 if text in (None, "0") else duration_s(text, "spec.ttl")


def _note(text: str | None) -> MoveNote | None:
    """None where the annotation is absent or was changed into something else: it is information only."""
    if text is None:
        return None
    try:
        return msgspec.convert(json.loads(text), MoveNote)
    except (ValueError, msgspec.ValidationError, RecursionError):
        return None


def _condition(given: DatedCondition) -> JobCondition:
    since_s = nan
    with suppress(ValueError):
        since_s = datetime.fromisoformat(given.last_transition_time or "").timestamp()
    return JobCondition(given.type, given.status, given.reason or "", given.message or "", since_s)


def _written(condition: JobCondition) -> JsonObject:
    found = {"type": condition.type, "status": condition.status}
    if condition.reason:
        found["reason"] = condition.reason
    if condition.message:
        found["message"] = condition.message
    if isfinite(condition.since_s):
        at = datetime.fromtimestamp(condition.since_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        found |= {"lastProbeTime": at, "lastTransitionTime": at}
    return found
