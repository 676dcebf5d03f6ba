"""What people read at a pod or a job about a move, from what was written."""

from __future__ import annotations

from typing import Any, NamedTuple

from cotenant.drivers.kube.kinds.custom.migration_job import MIGRATION_JOBS
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.migration.instructions import (
    EvictJobPod,
    Instruction,
    RequestEviction,
    WithdrawEviction,
    WriteStatus,
)
from cotenant.model.groups.migration import JobPhase, JobStep, MigrationJob, PodRef, WaitReason
from cotenant.services.kube_process.events import NORMAL, WARNING


class MoveEvent(NamedTuple):
    """An event, in the order of `EventRecorder.record`."""

    about: Kind[Any]
    key: str
    uid: str
    sort: str
    reason: str
    message: str


def event_of(what: Instruction) -> MoveEvent | None:
    """The event of an instruction that was carried out; None where there is nothing to say."""
    match what:
        case EvictJobPod(job=job):
            return _of_pod(job.pod, "Descheduled", f"evicted from {job.node}: {job.reason or f'job {job.name}'}")
        case RequestEviction(job=job):
            why = f"its eviction from {job.node} is requested: {job.reason or f'job {job.name}'}"
            return _of_pod(job.pod, "EvictionRequested", why)
        case WithdrawEviction(request=request) if not request.evicted:
            key = f"{request.namespace}/{request.pod_name}"
            why = "its eviction is not wanted any more"
            return MoveEvent(PODS, key, request.pod_uid, NORMAL, "EvictionWithdrawn", why)
        case WriteStatus(job=job):
            return _of_end(job) if job.phase.is_final else _of_wait(job)
        case _:
            return None


def _of_wait(job: MigrationJob) -> MoveEvent | None:
    waits = job.condition(JobStep.WAITING)
    if waits is None or waits.status != "True" or waits.reason != WaitReason.RESPONDER:
        return None
    return _of_pod(job.pod, "EvictionProgress", waits.message)


def _of_end(job: MigrationJob) -> MoveEvent | None:
    """The judgement of a move, else how it ended."""
    helped = job.condition(JobStep.HELPED)
    if helped is not None:
        reason = "MoveHelped" if helped.status == "True" else "MoveDidNotHelp"
        return _of_pod(job.new_pod, reason, helped.message) if job.new_pod is not None else None
    if job.phase is not JobPhase.SUCCEEDED:
        return MoveEvent(MIGRATION_JOBS, job.name, job.uid, WARNING, job.status_reason, job.message)
    why = f"replaces {job.pod.key}, moved from {job.node}: {job.reason}"
    return _of_pod(job.new_pod, "Moved", why) if job.new_pod is not None else None


def _of_pod(pod: PodRef, reason: str, message: str) -> MoveEvent:
    return MoveEvent(PODS, pod.key, pod.uid, NORMAL, reason, message)
