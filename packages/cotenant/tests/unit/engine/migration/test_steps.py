"""Single steps of a job where the cluster changed under it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.migration.instructions import EvictJobPod, PodFacts, WriteStatus
from cotenant.engine.migration.steps import SUGGESTED_S, JobFacts, next_step
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.migration import JobCondition, JobPhase, JobReason, JobStep, MigrationJob, PodRef, WaitReason
from cotenant.model.groups.reservation import CurrentOwner, Reservation, ReservationPhase

REF = PodRef("default", "web-0", "old")
MADE = tuple(JobCondition(step, "True") for step in (JobStep.RESERVATION_CREATED, JobStep.RESERVATION_SCHEDULED))
JOB = MigrationJob(
    "job",
    "job-uid",
    REF,
    phase=JobPhase.RUNNING,
    node="n1",
    conditions=MADE,
    status=JobStep.RESERVATION_SCHEDULED,
    reservation="r",
)
RUNNING = PodFacts(REF, "n1", ready=True)


def _end(job: MigrationJob, facts: JobFacts) -> MigrationJob:
    """The job when it has ended; fails if the pod is to be evicted or the job waits."""
    for _ in range(10):
        found = next_step(job, facts, 0.0)
        assert not isinstance(found.write, EvictJobPod), "the pod would be evicted"
        assert isinstance(found.write, WriteStatus), found.waits
        job = found.write.job
        if job.phase.is_final:
            return job
    raise AssertionError("the job does not end")


@pytest.mark.parametrize("owner", ["web-0", "another"])
def test_a_pod_is_not_evicted_for_a_reservation_that_is_used_up(owner: str) -> None:
    current = (CurrentOwner("default", owner, "new"),)
    used = Reservation("r", "r-uid", Pod("r"), phase=ReservationPhase.SUCCEEDED, node="n2", current=current)
    job = _end(JOB, JobFacts(RUNNING, used))
    assert (job.phase, job.status_reason) == (JobPhase.FAILED, JobReason.FORBIDDEN)
    assert job.status == JobStep.RESERVATION_SCHEDULED, "the step that it reached"
    assert job.condition(JobStep.EVICTION) is None


def test_a_pod_that_was_placed_meanwhile_is_not_evicted() -> None:
    pending = replace(JOB, node="")
    there = Reservation("r", "r-uid", Pod("r"), phase=ReservationPhase.AVAILABLE, node="n2")
    job = _end(pending, JobFacts(replace(RUNNING, node="n3"), there))
    assert job.phase is JobPhase.SUCCEEDED
    assert job.condition(JobStep.POD_SCHEDULED) is not None
    assert job.condition(JobStep.EVICTION) is None


def test_a_pending_pod_does_not_wait_for_a_reservation_that_another_took() -> None:
    pending = replace(JOB, node="")
    current = (CurrentOwner("default", "another", "new"),)
    taken = Reservation("r", "r-uid", Pod("r"), phase=ReservationPhase.SUCCEEDED, node="n2", current=current)
    job = _end(pending, JobFacts(PodFacts(REF), taken))
    assert (job.phase, job.status_reason) == (JobPhase.FAILED, JobReason.FORBIDDEN)


@pytest.mark.parametrize("is_bound", [False, True])
def test_the_wait_for_a_replacement_is_a_condition_that_is_written_once(is_bound: bool) -> None:
    """Clients that watch jobs read the step and its reason, as upstream writes them."""
    step, reason = JobStep.POD_BOUND, JobReason.WAIT_BOUND
    there = Reservation("r", "r-uid", Pod("r"), phase=ReservationPhase.AVAILABLE, node="n2")
    job, facts = replace(JOB, conditions=(*MADE, JobCondition(JobStep.EVICTION, "True"))), JobFacts(None, there)
    if is_bound:
        step, reason = JobStep.POD_READY, JobReason.WAIT_READY
        job = job.with_condition(JobStep.POD_BOUND, "True", 0.0)
        facts = replace(facts, new_pod=PodFacts(PodRef("default", "web-1", "new"), "n2", ready=False))
    found = next_step(job, facts, 60.0)
    assert isinstance(found.write, WriteStatus)
    waiting = found.write.job
    said = waiting.condition(step)
    assert said is not None
    assert (said.status, said.reason, waiting.status) == ("False", reason, step)
    again = next_step(waiting, facts, 61.0)
    assert again.write is None
    assert again.waits.startswith("its replacement is not")
    if is_bound:
        assert facts.new_pod is not None
        assert _end(waiting, replace(facts, new_pod=replace(facts.new_pod, ready=True))).has(JobStep.POD_READY)
    else:
        current = (CurrentOwner("default", "web-1", "new"),)
        bound = next_step(waiting, replace(facts, reservation=replace(there, current=current)), 62.0)
        assert isinstance(bound.write, WriteStatus)
        made = bound.write.job.condition(JobStep.POD_BOUND)
        assert made is not None
        assert (made.status, made.reason, made.since_s) == ("True", "", 62.0)


def test_a_suggestion_waits_for_its_approval_and_then_has_its_whole_time() -> None:
    job = replace(JOB, phase=JobPhase.PENDING, conditions=(), ttl_s=300.0, paused=True, suggested=True)
    waits = next_step(job, JobFacts(RUNNING), SUGGESTED_S - 1.0)
    assert (waits.write, waits.waits) == (None, "cotenant receipts approve job")
    expired = next_step(job, JobFacts(RUNNING), SUGGESTED_S).write
    assert isinstance(expired, WriteStatus)
    assert (expired.job.phase, expired.job.status_reason) == (JobPhase.FAILED, JobReason.NOT_APPROVED)
    said = job.waits(waits.reason, waits.waits, 10.0)
    approved = replace(said, paused=False)
    assert not isinstance(next_step(approved, JobFacts(RUNNING), 1500.0).write, WriteStatus)
    begun = approved.waits(WaitReason.NONE, "", 1500.0)
    late = next_step(begun, JobFacts(RUNNING), 1799.0).write
    assert not isinstance(late, WriteStatus)
    timed_out = next_step(begun, JobFacts(RUNNING), 1800.0).write
    assert isinstance(timed_out, WriteStatus)
    assert timed_out.job.status_reason == JobReason.TIMEOUT
    mine = replace(job, suggested=False)
    assert next_step(mine, JobFacts(RUNNING), 1e6).waits == "it is paused"
