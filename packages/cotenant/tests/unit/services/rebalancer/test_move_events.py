"""What a pod's owner reads about a move, for each thing that may have been written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.drivers.kube.kinds.custom.migration_job import MIGRATION_JOBS
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.migration.instructions import (
    CreateJob,
    EvictJobPod,
    Instruction,
    RequestEviction,
    WithdrawEviction,
    WriteStatus,
)
from cotenant.model.cluster.eviction_request import EvictionRequest
from cotenant.model.groups.migration import (
    EvictPolicy,
    JobCondition,
    JobPhase,
    JobStep,
    MigrationJob,
    PodRef,
    WaitReason,
)
from cotenant.services.rebalancer.move_events import event_of

OLD, NEW = PodRef("shop", "web-1", "uid-1"), PodRef("shop", "web-2", "uid-2")
JOB = MigrationJob("job", "uid-job", OLD, node="n1", reason="n1 is hot")
ENDED = replace(JOB, phase=JobPhase.SUCCEEDED, new_pod=NEW)
FAILED = replace(JOB, phase=JobPhase.FAILED, status_reason="Timeout", message="not within 5 minutes", new_pod=NEW)
REQUEST = EvictionRequest("shop", "request", "uid-r", "us", "uid-1", "web-1")


def helped(status: str) -> tuple[JobCondition, ...]:
    return (JobCondition(JobStep.WAITING, "False"), JobCondition(JobStep.HELPED, status, message="p99 fell"))


def waits(status: str, reason: WaitReason) -> WriteStatus:
    condition = JobCondition(JobStep.WAITING, status, reason, "2 of 3 shards are moved")
    return WriteStatus(replace(JOB, phase=JobPhase.RUNNING, conditions=(condition,)))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (EvictJobPod(JOB, EvictPolicy.DELETE), (OLD, "Descheduled", "evicted from n1: n1 is hot")),
        (EvictJobPod(replace(JOB, reason=""), EvictPolicy.DELETE), (OLD, "Descheduled", "evicted from n1: job job")),
        (RequestEviction(JOB), (OLD, "EvictionRequested", "its eviction from n1 is requested: n1 is hot")),
        (
            RequestEviction(replace(JOB, reason="")),
            (OLD, "EvictionRequested", "its eviction from n1 is requested: job job"),
        ),
        (WithdrawEviction(REQUEST), (OLD, "EvictionWithdrawn", "its eviction is not wanted any more")),
        (waits("True", WaitReason.RESPONDER), (OLD, "EvictionProgress", "2 of 3 shards are moved")),
        (WriteStatus(ENDED), (NEW, "Moved", "replaces shop/web-1, moved from n1: n1 is hot")),
        (WriteStatus(replace(ENDED, conditions=helped("True"))), (NEW, "MoveHelped", "p99 fell")),
        (WriteStatus(replace(ENDED, conditions=helped("False"))), (NEW, "MoveDidNotHelp", "p99 fell")),
        (WriteStatus(replace(ENDED, conditions=helped("Unknown"))), (NEW, "MoveDidNotHelp", "p99 fell")),
    ],
)
def test_the_pod_that_it_concerns_is_told(what: Instruction, said: tuple[PodRef, str, str]) -> None:
    pod, reason, message = said
    assert event_of(what) == (PODS, pod.key, pod.uid, "Normal", reason, message)


@pytest.mark.parametrize("phase", [JobPhase.FAILED, JobPhase.ABORTED])
def test_a_move_that_failed_is_a_warning_of_its_job(phase: JobPhase) -> None:
    said = event_of(WriteStatus(replace(FAILED, phase=phase)))
    assert said == (MIGRATION_JOBS, "job", "uid-job", "Warning", "Timeout", "not within 5 minutes")


@pytest.mark.parametrize(
    "what",
    [
        CreateJob(JOB),
        WithdrawEviction(replace(REQUEST, evicted=True)),
        waits("False", WaitReason.RESPONDER),
        waits("True", WaitReason.BUDGET),
        WriteStatus(replace(JOB, phase=JobPhase.RUNNING)),
        WriteStatus(replace(ENDED, new_pod=None)),
        WriteStatus(replace(ENDED, new_pod=None, conditions=helped("True"))),
    ],
)
def test_of_the_rest_nobody_is_told(what: Instruction) -> None:
    assert event_of(what) is None
