"""What a job does next in each situation, one fact at a time: the write, or what it waits for, as a person reads it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.migration.instructions import (
    CreateReservation,
    EvictJobPod,
    PodFacts,
    RequestEviction,
    SetLanding,
    SetPodUid,
    StartSurge,
    WriteStatus,
)
from cotenant.engine.migration.steps import JobFacts, Next, SimulatedMove, is_scavenged, next_step
from cotenant.model.cluster.eviction_request import INVALID, EvictionProgress, EvictionRequest
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.migration import (
    EvictPolicy,
    JobMode,
    JobPhase,
    JobReason,
    JobStep,
    MigrationJob,
    MoveNote,
    PodRef,
    WaitReason,
)
from cotenant.model.groups.reservation import CurrentOwner, Reservation, ReservationCondition, ReservationPhase
from cotenant.policy.rebalance.migration.arbitration import BUDGET, ArbitrationVerdict

NOW_S = 1000.0
REF = PodRef("shop", "web-0", "old")
NEW = MigrationJob("job", "job-uid", REF, created_s=NOW_S - 100.0)
THERE = PodFacts(REF, "n1", ready=True)
PLACED = Reservation("job-uid", "r", Pod("r"), phase=ReservationPhase.AVAILABLE, node="n2")


def at(*steps: JobStep, job: MigrationJob = NEW) -> MigrationJob:
    """A running job that has come past these steps."""
    made = replace(job, phase=JobPhase.RUNNING, node="n1")
    for step in steps:
        made = made.with_condition(step, "True", NOW_S - 50.0)
    return made


RESERVED = at(JobStep.RESERVATION_CREATED, JobStep.RESERVATION_SCHEDULED)
EVICTING = RESERVED.with_condition(JobStep.EVICTION, "False", NOW_S - 50.0)
EVICTED = RESERVED.with_condition(JobStep.EVICTION, "True", NOW_S - 50.0)
BOUND = EVICTED.with_condition(JobStep.POD_BOUND, "True", NOW_S - 50.0)


def said(found: Next) -> tuple[object, ...]:
    """In short: a failure, a success, a step, the kind of another write, or what it waits for."""
    match found.write:
        case None:
            return ("waits", found.waits, found.reason)
        case WriteStatus(job=job) if job.phase is JobPhase.FAILED:
            return ("fails", job.status_reason, job.message)
        case WriteStatus(job=job) if job.phase is JobPhase.SUCCEEDED:
            return ("succeeds",)
        case WriteStatus(job=job) if job.status:
            condition = job.condition(job.status)
            assert condition is not None
            return (job.status, condition.status, condition.reason, condition.message)
        case write:
            return (type(write),)


def after(job: MigrationJob, **facts: object) -> tuple[object, ...]:
    return said(next_step(job, JobFacts(**facts), NOW_S))  # type: ignore[arg-type]


def refused(
    reason: str, scheduled: bool = False, phase: ReservationPhase = ReservationPhase.PENDING, ready: str = ""
) -> Reservation:
    conditions = [ReservationCondition("Scheduled", scheduled, "Unschedulable", reason)]
    if ready:
        conditions.append(ReservationCondition("Ready", False, ready))
    return Reservation("job-uid", "r", Pod("r"), phase=phase, conditions=tuple(conditions))


def test_an_ended_job_does_nothing() -> None:
    assert next_step(replace(NEW, phase=JobPhase.FAILED, paused=True), JobFacts(), NOW_S) == Next(None)
    assert next_step(replace(NEW, phase=JobPhase.SUCCEEDED, ttl_s=1.0), JobFacts(), NOW_S) == Next(None)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (replace(NEW, paused=True), ("waits", "it is paused", WaitReason.PAUSED)),
        (
            replace(NEW, paused=True, suggested=True),
            ("waits", "cotenant receipts approve job", WaitReason.PAUSED),
        ),
        (
            replace(NEW, paused=True, suggested=True, created_s=NOW_S - 1800.0),
            ("fails", JobReason.NOT_APPROVED, "nobody approved it within 30 minutes"),
        ),
        (replace(NEW, paused=True, created_s=NOW_S - 1800.0), ("waits", "it is paused", WaitReason.PAUSED)),
        (replace(NEW, ttl_s=100.0), ("fails", JobReason.TIMEOUT, "not complete within 100 s")),
        (replace(NEW, ttl_s=100.0, paused=True), ("waits", "it is paused", WaitReason.PAUSED)),
    ],
)
def test_a_pause_comes_before_the_time_limit_and_suggestions_end(job: MigrationJob, expected: object) -> None:
    assert after(job, pod=THERE, verdict=ArbitrationVerdict.PASSED) == expected


def test_a_job_that_ran_out_of_time_says_what_it_waited_for() -> None:
    waited = replace(at(), ttl_s=50.0).waits(WaitReason.POD, "the pod is terminating", NOW_S)
    found = after(waited)
    assert found == ("fails", JobReason.TIMEOUT, "not complete within 50 s: the pod is terminating")
    went_on = waited.waits(WaitReason.NONE, "", NOW_S)
    assert after(went_on) == ("fails", JobReason.TIMEOUT, "not complete within 50 s")
    assert after(replace(at(), ttl_s=101.0), pod=THERE)[0] is CreateReservation  # it has a second left


@pytest.mark.parametrize(
    ("job", "facts", "expected"),
    [
        (
            replace(NEW, pod=PodRef("shop", "")),
            {},
            ("fails", JobReason.INVALID_POD_REF, "spec.podRef needs namespace and name"),
        ),
        (
            replace(NEW, pod=PodRef("", "web")),
            {},
            ("fails", JobReason.INVALID_POD_REF, "spec.podRef needs namespace and name"),
        ),
        (replace(NEW, wrong=("a", "b")), {}, ("fails", JobReason.INVALID_POD_REF, "a; b")),
        (replace(NEW, created_s=NOW_S - 9.0), {}, ("waits", "pod shop/web-0 is not known yet", WaitReason.POD)),
        (NEW, {}, ("fails", JobReason.MISSING_POD, "pod shop/web-0 does not exist")),
        (
            NEW,
            {"pod": replace(THERE, ref=PodRef("shop", "web-0", "new"))},
            ("fails", JobReason.MISSING_POD, "pod shop/web-0 does not exist"),
        ),
        (NEW, {"pod": THERE, "verdict": ArbitrationVerdict.FAILED, "why": "no"}, ("fails", JobReason.FORBIDDEN, "no")),
        (NEW, {"pod": THERE, "why": "one at a time"}, ("waits", "one at a time", WaitReason.LIMIT)),
        (NEW, {"pod": THERE, "why": f"{BUDGET} web"}, ("waits", f"{BUDGET} web", WaitReason.BUDGET)),
        (replace(NEW, pod=PodRef("shop", "web-0")), {"pod": THERE, "verdict": ArbitrationVerdict.PASSED}, (SetPodUid,)),
    ],
)
def test_a_job_begins_with_a_pod_that_is_there_and_may_move(
    job: MigrationJob, facts: dict[str, object], expected: object
) -> None:
    assert after(job, **facts) == expected


@pytest.mark.parametrize("is_surge", [False, True])
def test_a_job_that_begins_keeps_its_pods_node(is_surge: bool) -> None:
    verdict = ArbitrationVerdict.SURGE if is_surge else ArbitrationVerdict.PASSED
    found = next_step(NEW, JobFacts(THERE, verdict=verdict, why="its only replica"), NOW_S).write
    assert isinstance(found, WriteStatus)
    assert (found.job.phase, found.job.node, found.job.has(JobStep.SURGE)) == (JobPhase.RUNNING, "n1", is_surge)


def test_a_requested_move_is_simulated_before_anything_else() -> None:
    asked = replace(NEW, what_if=True)
    assert after(asked, pod=THERE) == ("waits", "its landing is not simulated yet", WaitReason.SIMULATION)
    assert after(asked, simulated=SimulatedMove(why="full")) == ("waits", "full", WaitReason.SIMULATION)
    found = after(asked, simulated=SimulatedMove(why="nowhere", final=True))
    assert found == ("fails", JobReason.NO_BETTER_PLACE, "nowhere")
    note = MoveNote("n1", "n2", "why")
    assert after(asked, simulated=SimulatedMove(REF, note)) == (SetLanding,)


@pytest.mark.parametrize(
    ("job", "facts", "expected"),
    [
        (at(), {"pod": THERE}, (CreateReservation,)),
        (at(), {}, ("fails", JobReason.MISSING_POD, "pod shop/web-0 is gone")),
        (
            at(),
            {"pod": replace(THERE, ref=PodRef("shop", "web-0", "new"))},
            ("fails", JobReason.MISSING_POD, "pod shop/web-0 is gone"),
        ),
        (at(), {"pod": THERE, "cannot_reserve": "refused"}, ("fails", JobReason.FAILED_CREATE, "refused")),
        (at(), {"pod": THERE, "holds_reservation": "rolls out"}, ("waits", "rolls out", WaitReason.WORKLOAD)),
        (at(), {"pod": THERE, "holds_back": "too many"}, ("waits", "too many", WaitReason.LIMIT)),
        (
            replace(at(), reservation="own"),
            {"pod": THERE},
            ("fails", JobReason.MISSING_RESERVATION, "reservation own does not exist"),
        ),
        (at(), {"pod": THERE, "reservation": PLACED}, (JobStep.RESERVATION_CREATED, "True", "", "reservation job-uid")),
        (
            at(JobStep.RESERVATION_CREATED),
            {"pod": THERE},
            ("fails", JobReason.MISSING_RESERVATION, "reservation job-uid was deleted"),
        ),
        (
            at(JobStep.RESERVATION_CREATED),
            {"pod": THERE, "reservation": refused("")},
            ("waits", "reservation job-uid has no node yet", WaitReason.RESERVATION),
        ),
        (
            at(JobStep.RESERVATION_CREATED),
            {"pod": THERE, "reservation": refused("no room")},
            (JobStep.RESERVATION_SCHEDULED, "False", JobReason.UNSCHEDULABLE, "no room"),
        ),
        (
            at(JobStep.RESERVATION_CREATED),
            {"pod": THERE, "reservation": refused("old news", scheduled=True)},
            ("waits", "reservation job-uid has no node yet", WaitReason.RESERVATION),
        ),
        (
            at(JobStep.RESERVATION_CREATED),
            {"pod": THERE, "reservation": refused("no room", phase=ReservationPhase.FAILED)},
            ("fails", JobReason.UNSCHEDULABLE, "no room"),
        ),
        (
            at(JobStep.RESERVATION_CREATED),
            {"pod": THERE, "reservation": refused("", phase=ReservationPhase.FAILED)},
            ("fails", JobReason.UNSCHEDULABLE, "reservation job-uid has no node"),
        ),
        (
            at(JobStep.RESERVATION_CREATED),
            {"pod": THERE, "reservation": refused("no room", phase=ReservationPhase.FAILED, ready="Expired")},
            ("fails", JobReason.EXPIRED, "reservation job-uid expired without a node"),
        ),
        (
            at(JobStep.RESERVATION_CREATED),
            {"pod": THERE, "reservation": PLACED},
            (JobStep.RESERVATION_SCHEDULED, "True", "", "on n2"),
        ),
        (
            at(JobStep.RESERVATION_CREATED),
            {"pod": THERE, "reservation": replace(PLACED, node="n1")},
            ("fails", JobReason.FORBIDDEN, "reservation job-uid is on the pod's own node n1"),
        ),
        (
            RESERVED,
            {"pod": THERE, "reservation": replace(PLACED, phase=ReservationPhase.FAILED)},
            ("fails", JobReason.EXPIRED, "reservation job-uid ended before the pod was replaced"),
        ),
    ],
)
def test_room_is_reserved_before_a_pod_goes(job: MigrationJob, facts: dict[str, object], expected: object) -> None:
    assert after(job, **facts) == expected


def test_why_a_reservation_has_no_node_is_written_once_for_each_reason() -> None:
    job, facts = at(JobStep.RESERVATION_CREATED), {"pod": THERE, "reservation": refused("no room")}
    first = next_step(job, JobFacts(THERE, refused("no room")), NOW_S).write
    assert isinstance(first, WriteStatus)
    assert after(first.job, **facts) == ("waits", "no room", WaitReason.RESERVATION)
    again = after(first.job, pod=THERE, reservation=refused("a taint"))
    assert again == (JobStep.RESERVATION_SCHEDULED, "False", JobReason.UNSCHEDULABLE, "a taint")


@pytest.mark.parametrize(
    ("job", "facts", "expected"),
    [
        (RESERVED, {"pod": THERE}, (JobStep.EVICTION, "False", JobReason.EVICTING, "")),
        (RESERVED, {"pod": THERE, "holds_back": "too many"}, ("waits", "too many", WaitReason.LIMIT)),
        (EVICTING, {"pod": THERE, "holds_back": "too many"}, (EvictJobPod,)),  # it has begun
        (RESERVED, {}, ("fails", JobReason.MISSING_POD, "pod shop/web-0 was gone before it was evicted")),
        (EVICTING, {}, (JobStep.EVICTION, "True", JobReason.EVICT_COMPLETE, "")),
        (
            EVICTING,
            {"pod": replace(THERE, ref=PodRef("shop", "web-0", "new"))},
            (JobStep.EVICTION, "True", JobReason.EVICT_COMPLETE, ""),
        ),
        (EVICTING, {"pod": replace(THERE, terminating=True)}, ("waits", "the pod is terminating", WaitReason.POD)),
        (RESERVED, {"pod": replace(THERE, terminating=True)}, (JobStep.EVICTION, "False", JobReason.EVICTING, "")),
        (EVICTING, {"pod": THERE, "cannot_evict": "a budget of 0"}, ("fails", JobReason.FAILED_EVICT, "a budget of 0")),
        (EVICTING, {"pod": replace(THERE, policy=EvictPolicy.SOFT)}, (EvictJobPod,)),
        (
            EVICTING,
            {"pod": replace(THERE, policy=EvictPolicy.SOFT, softly_evicted=True)},
            ("waits", "another controller is to delete the pod", WaitReason.POD),
        ),
        (EVICTING, {"pod": replace(THERE, softly_evicted=True)}, (EvictJobPod,)),
        (EVICTING, {"pod": replace(THERE, takes_requests=True)}, (RequestEviction,)),
        (EVICTING, {"pod": replace(THERE, takes_requests=True, policy=EvictPolicy.DELETE)}, (EvictJobPod,)),
        (
            at(JobStep.SURGE, JobStep.RESERVATION_CREATED, JobStep.RESERVATION_SCHEDULED),
            {"pod": THERE},
            (JobStep.EVICTION, "False", JobReason.SURGING, ""),
        ),
        (EVICTING.with_condition(JobStep.SURGE, "True", NOW_S), {"pod": THERE}, (StartSurge,)),
    ],
)
def test_an_eviction_is_written_before_it_begins_and_confirmed_when_the_pod_is_gone(
    job: MigrationJob, facts: dict[str, object], expected: object
) -> None:
    assert after(job, reservation=PLACED, **facts) == expected


def test_the_pods_policy_comes_before_the_jobs_and_that_before_the_configured_one() -> None:
    def policy(pod: EvictPolicy | None, job: EvictPolicy | None) -> EvictPolicy:
        facts = JobFacts(replace(THERE, policy=pod), PLACED, policy=EvictPolicy.EVICTION)
        found = next_step(replace(EVICTING, policy=job), facts, NOW_S).write
        assert isinstance(found, EvictJobPod)
        return found.policy

    assert policy(None, None) is EvictPolicy.EVICTION
    assert policy(None, EvictPolicy.DELETE) is EvictPolicy.DELETE
    assert policy(EvictPolicy.SOFT, EvictPolicy.DELETE) is EvictPolicy.SOFT


def test_a_reservation_that_another_pod_took_stops_the_eviction() -> None:
    taken = replace(PLACED, current=(CurrentOwner("shop", "thief", "t"),))
    why = ("fails", JobReason.FORBIDDEN, "pod shop/thief took the reservation first")
    assert after(RESERVED, pod=THERE, reservation=taken) == why
    assert after(EVICTING, pod=THERE, reservation=taken) == why
    surge = EVICTING.with_condition(JobStep.SURGE, "True", NOW_S)
    found = next_step(surge, JobFacts(THERE, taken), NOW_S)  # there the replacement has it first
    assert (found.waits, found.reason) == ("thief is to become ready first", WaitReason.REPLACEMENT)
    found = next_step(surge, JobFacts(THERE, PLACED), NOW_S)
    assert found.waits == "its replacement is rolled out first"


def request(failed: str = "") -> EvictionRequest:
    return EvictionRequest("shop", "r", "u", "me", "old", failed=failed, message="because")


@pytest.mark.parametrize(
    ("found", "progress", "expected"),
    [
        (request(), None, ("waits", "EvictionRequest shop/r: no Eviction has begun yet", WaitReason.RESPONDER)),
        (
            request(),
            EvictionProgress("shop/e", "old"),
            ("waits", "EvictionRequest shop/r: no responder has begun yet", WaitReason.RESPONDER),
        ),
        (request(INVALID), None, (EvictJobPod,)),
        (request("Denied"), None, ("fails", JobReason.FAILED_EVICT, "EvictionRequest shop/r: Denied: because")),
    ],
)
def test_a_requested_eviction_is_followed(
    found: EvictionRequest, progress: EvictionProgress | None, expected: object
) -> None:
    pod = replace(THERE, takes_requests=True)
    assert after(EVICTING, pod=pod, reservation=PLACED, request=found, progress=progress) == expected


@pytest.mark.parametrize(
    ("job", "facts", "expected"),
    [
        (EVICTED, {}, (JobStep.POD_BOUND, "False", JobReason.WAIT_BOUND, "")),
        (
            EVICTED.with_condition(JobStep.POD_BOUND, "False", NOW_S),
            {},
            ("waits", "its replacement is not placed yet", WaitReason.REPLACEMENT),
        ),
        (
            EVICTED,
            {"reservation": replace(PLACED, current=(CurrentOwner("shop", "web-1", "new"),))},
            (JobStep.POD_BOUND, "True", "", "shop/web-1"),
        ),
        (BOUND.with_condition(JobStep.POD_BOUND, "True", NOW_S), {}, ("succeeds",)),
        (BOUND, {}, ("succeeds",)),
        (
            BOUND,
            {"new_pod": PodFacts(PodRef("shop", "web-1", "new"), "n2")},
            (JobStep.POD_READY, "False", JobReason.WAIT_READY, ""),
        ),
        (
            BOUND.with_condition(JobStep.POD_READY, "False", NOW_S),
            {"new_pod": PodFacts(PodRef("shop", "web-1", "new"), "n2")},
            ("waits", "its replacement is not ready yet", WaitReason.REPLACEMENT),
        ),
        (BOUND, {"new_pod": PodFacts(PodRef("shop", "web-1", "new"), "n2", ready=True)}, ("succeeds",)),
    ],
)
def test_a_replacement_is_followed_until_it_is_ready(
    job: MigrationJob, facts: dict[str, object], expected: object
) -> None:
    assert after(job, **{"reservation": PLACED, **facts}) == expected


def test_a_replacement_that_was_bound_just_now_may_not_be_known_yet() -> None:
    fresh = EVICTED.with_condition(JobStep.POD_BOUND, "True", NOW_S - 9.9)
    assert after(fresh, reservation=PLACED) == ("waits", "its replacement is not known yet", WaitReason.REPLACEMENT)
    settled = EVICTED.with_condition(JobStep.POD_BOUND, "True", NOW_S - 10.0)
    found = next_step(settled, JobFacts(reservation=PLACED), NOW_S).write
    assert isinstance(found, WriteStatus)
    ready = found.job.condition(JobStep.POD_READY)
    assert ready is not None
    assert (ready.status, ready.message) == ("True", "the replacement is gone")


def test_the_replacements_name_is_kept() -> None:
    current = (CurrentOwner("shop", "web-1", "new"),)
    found = next_step(EVICTED, JobFacts(reservation=replace(PLACED, current=current)), NOW_S).write
    assert isinstance(found, WriteStatus)
    assert found.job.new_pod == PodRef("shop", "web-1", "new")


def test_a_pod_that_never_had_a_node_draws_from_its_reservation() -> None:
    job = replace(RESERVED, node="")
    waiting = replace(THERE, node="")
    found = after(job, pod=waiting, reservation=PLACED)
    assert found == (JobStep.POD_SCHEDULED, "False", JobReason.UNSCHEDULABLE, "")
    marked = job.with_condition(JobStep.POD_SCHEDULED, "False", NOW_S)
    assert after(marked, pod=waiting, reservation=PLACED) == ("waits", "the pod is not placed yet", WaitReason.POD)
    assert after(marked, reservation=PLACED) == ("fails", JobReason.MISSING_POD, "pod shop/web-0 is gone")
    own = replace(PLACED, current=(CurrentOwner("shop", "web-0", "old"),))
    assert after(marked, pod=waiting, reservation=own)[0] == "waits"
    assert after(marked, pod=replace(waiting, node="n2"), reservation=own) == ("succeeds",)


def test_without_a_reservation_a_pod_is_evicted_and_that_is_all() -> None:
    job = replace(at(), mode=JobMode.EVICT_DIRECTLY)
    assert after(job, pod=THERE) == (JobStep.EVICTION, "False", JobReason.EVICTING, "")
    assert after(job.with_condition(JobStep.EVICTION, "True", NOW_S)) == ("succeeds",)


@pytest.mark.parametrize(
    ("phase", "age_s", "ttl_s", "expected"),
    [
        (JobPhase.RUNNING, 399.0, 100.0, False),
        (JobPhase.RUNNING, 400.0, 100.0, True),
        (JobPhase.FAILED, 399.0, 100.0, False),
        (JobPhase.RUNNING, 1e9, 0.0, False),
        (JobPhase.SUCCEEDED, 1799.0, 0.0, False),
        (JobPhase.SUCCEEDED, 1800.0, 0.0, True),
    ],
)
def test_old_jobs_are_deleted(phase: JobPhase, age_s: float, ttl_s: float, expected: bool) -> None:
    assert is_scavenged(phase, age_s, ttl_s) is expected
    assert is_scavenged(JobPhase.FAILED, 1501.0, 0.0, kept_s=1.0)
