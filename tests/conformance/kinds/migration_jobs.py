"""Kinds of migration_arbitration.json about the steps of a job, its end, and the reservation that it creates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.conformance.reading import Unreadable, one_of, plain, recorded, switches

from cotenant.drivers.kube.kinds.custom.reservation_template import migration_manifest
from cotenant.engine.migration.instructions import EvictJobPod, PodFacts, WriteStatus
from cotenant.engine.migration.steps import JobFacts, Next, is_scavenged, next_step
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.migration import (
    CREATED_BY,
    JobCondition,
    JobMode,
    JobPhase,
    JobStep,
    MigrationJob,
    PodRef,
)
from cotenant.model.groups.reservation import (
    SCHEDULED,
    CurrentOwner,
    Reservation,
    ReservationCondition,
    ReservationPhase,
)
from cotenant.model.groups.reservation_notes import ORDER

NODE = "test-node-1"  # of a reservation or a pod whose node the case does not name
OLD_NODE = "old-node"
REF = PodRef("default", "test-pod", "u")
RUNNING = MigrationJob("job", "job-uid", REF, phase=JobPhase.RUNNING, node=OLD_NODE)
MAX_STEPS = 20


def _reservation(given: Mapping[str, Any] | None) -> Reservation | None:
    if given is None:
        return None
    owner, scheduled, phase = (
        given["current_owner"],
        given["scheduled"],
        ReservationPhase(given.get("phase", "Available")),
    )
    node = given.get("node", NODE if owner or ("current_owner" in given and scheduled is not False) else "")
    why = given["scheduled_reason"], given.get("message", "")
    conditions = (
        [ReservationCondition(SCHEDULED, False, why[0] or "Unschedulable", why[1])] if scheduled is False else []
    )
    if given["expired"] or given["ready_reason"]:
        conditions.append(ReservationCondition("Ready", False, given.get("ready_reason", "Expired")))
    current = ()
    if owner:
        namespace, _, name = owner.partition("/")
        current = (CurrentOwner(namespace, name, "new"),)
    return Reservation("r", "r-uid", Pod("r"), phase=phase, node=node, current=current, conditions=tuple(conditions))


def _conditions(given: Any) -> tuple[JobCondition, ...]:
    return tuple(JobCondition(entry["type"], entry["status"], entry.get("reason", "")) for entry in given or ())


def _pod(given: Mapping[str, Any]) -> PodFacts | None:
    """The job's pod now: null = gone, absent = running."""
    if "pod" in given and given["pod"] is None:
        return None
    words = one_of(given, "pod", ("running", "pending", "scheduled", "pending, then scheduled"), "running")
    if words == "pending":
        return PodFacts(REF)
    return PodFacts(REF, given.get("pod_node", OLD_NODE if words == "running" else NODE), ready=True)


def _settle(job: MigrationJob, facts: JobFacts, now_s: float = 0.0) -> tuple[MigrationJob, Next]:
    """The job when nothing more is to be written but an eviction."""
    for _ in range(MAX_STEPS):
        found = next_step(job, facts, now_s)
        if not isinstance(found.write, WriteStatus):
            return job, found
        job = found.write.job
    raise AssertionError("the job does not settle")


def _whole_way(given: Mapping[str, Any]) -> MigrationJob:
    """A job from its first step to its end. The reservation's owner is the pod that takes the place of the job's."""
    ref = PodRef("default", "test-pod-1", "u")
    job = replace(RUNNING, pod=ref, mode=JobMode(given.get("mode", "ReservationFirst")))
    facts = JobFacts(PodFacts(ref, OLD_NODE, ready=True))
    for step in given["steps"]:
        if step.startswith("paused"):
            assert next_step(replace(job, paused=True), facts, 0.0).write is None
        elif step.startswith("reservation available"):
            facts = replace(
                facts, reservation=_reservation(recorded({"node": NODE, "current_owner": "default/test-pod-1"}))
            )
        elif step == "pod gone" or step.startswith("eviction asked"):
            job, found = _settle(job, facts)
            assert isinstance(found.write, EvictJobPod)
            again = PodFacts(PodRef(ref.namespace, ref.name, "new"), NODE, ready=True)
            facts = replace(facts, pod=again if "created again" in step else None)
        elif step not in ("unpaused", "pod running"):
            raise Unreadable(f"the step {step!r} is not known")
        job, _ = _settle(job, facts)
    job, _ = _settle(job, facts, 60.0)
    return job


def job_phase(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given, expect = case.given, case.expect
    job, facts, now_s = RUNNING, JobFacts(_pod(given)), 0.0
    step = one_of(given, "step", ("evict", "wait-for-pending-pod", ""), "")
    if given["steps"] is not None:
        job = _whole_way(given)
        evicted = bound = job.phase is JobPhase.SUCCEEDED
        yield from _values(job, expect, evicted, bound)
        return
    made = (JobCondition(JobStep.RESERVATION_CREATED, "True"), JobCondition(JobStep.RESERVATION_SCHEDULED, "True"))
    said, found_reservation = _conditions(given["conditions"]), _reservation(given["reservation"])
    tried = [job_condition for job_condition in said if job_condition.type == JobStep.EVICTION]
    if "ttl_minutes" in given or "age_minutes" in given:
        job, now_s = replace(job, ttl_s=given.get("ttl_minutes", 0) * 60.0), given.get("age_minutes", 0) * 60.0
        # Such a job waits for the node of its reservation.
        facts = replace(facts, reservation=found_reservation or Reservation("r", "r-uid", Pod("r")))
    elif step == "evict":
        job = replace(job, mode=JobMode.EVICT_DIRECTLY, conditions=said)
    elif step == "wait-for-pending-pod":
        job = replace(job, node="", conditions=(*made, *said))
        facts = replace(facts, reservation=found_reservation or _reservation(recorded({"node": NODE})))
    else:
        job = replace(job, node=given.get("pod_node", job.node), reservation="r" if given["reservation_ref"] else "")
        facts = replace(facts, reservation=found_reservation)
        waits_to_be_bound = "conditions" in given and not tried
        if waits_to_be_bound:
            job = replace(job, conditions=(*made, JobCondition(JobStep.EVICTION, "True"), *said))
            facts = replace(facts, pod=None)
        elif given["evicted"]:
            job = replace(job, conditions=(*made, JobCondition(JobStep.EVICTION, "True")))
        elif found_reservation is not None or given["reservation_ref"]:
            job = replace(job, conditions=(JobCondition(JobStep.RESERVATION_CREATED, "True"), *said))
    if given["phase"] is not None:
        job = replace(job, phase=JobPhase(given["phase"]))
    job, found = _settle(job, facts, now_s)
    asked = one_of(given, "evict_call", ("ok", "error", "fails", ""), "")
    if asked:
        assert isinstance(found.write, EvictJobPod)
        yield "error", expect["error"], asked != "ok"
    failed = asked in ("error", "fails")  # is tried again without being asked for
    yield from _values(job, expect, job.has(JobStep.EVICTION), job.has(JobStep.POD_BOUND), failed)


def _values(
    job: MigrationJob, expect: Any, evicted: bool, bound: bool, failed: bool = False
) -> Iterator[tuple[str, Any, Any]]:
    wanted = expect["condition"] or {}
    has = job.condition(wanted["type"]) if wanted else None
    done = bound if "bound" in expect else evicted
    yield "phase", expect["phase"], job.phase
    yield "status", expect["status"], job.status
    yield "reason", expect["reason"], job.status_reason
    yield "aborted", expect["aborted"], job.phase is JobPhase.FAILED
    yield "evicted", expect["evicted"], evicted
    yield "bound", expect["bound"], bound
    yield "requeue_s", expect["requeue_s"], 0 if done or failed or job.phase.is_final else 3
    yield "condition", wanted or None, None if has is None else {key: getattr(has, key) for key in wanted}


def job_scavenge(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    phase = JobPhase(given.get("phase", "Pending"))
    got = is_scavenged(phase, given["age_minutes"] * 60.0, (given["ttl_minutes"] or 0) * 60.0)
    yield "deleted", case.expect["deleted"], got


def reservation_template(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given, expect = case.given["pod"], case.expect
    fields = {"match_expressions": "matchExpressions", "match_fields": "matchFields"}
    terms = [
        {fields[key]: plain(value) for key, value in term.items()} for term in given.get("required_node_terms", ())
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": given["controller"], "uid": "c", "controller": True}
    pod = {
        "metadata": {"name": "p", "namespace": given["namespace"], "ownerReferences": [owner]},
        "spec": {
            "nodeName": given["node"],
            **({"affinity": affinity} if "required_node_terms" in given else {}),
            "volumes": [
                {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in given.get("volumes", ())
            ],
        },
    }
    with_claims = not switches(case.given["gates"], "disable_pvc_reservation")["disable_pvc_reservation"]
    made = migration_manifest(pod, "r", 300.0, given["node"], now_s=1.0, with_claims=with_claims)
    spec = made["spec"]
    template = spec["template"]["spec"]
    by = spec["owners"][0]["controller"]
    labels = made["metadata"]["labels"]
    required = template["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    names = {"matchExpressions": "match_expressions", "matchFields": "match_fields"}
    yield "allocate_once", expect["allocate_once"], spec["allocateOnce"]
    yield "owner", expect["owner"], {"controller": by["name"], "namespace": by["namespace"]}
    known = {CREATED_BY: "created-by", ORDER: "reservation-order"}
    yield "labels_set", expect["labels_set"], [known[name] for name in known if labels.get(name)]
    yield "node_name", expect["node_name"], template.get("nodeName", "")
    yield (
        "required_node_terms",
        expect["required_node_terms"],
        [{names[key]: value for key, value in term.items()} for term in required["nodeSelectorTerms"]],
    )
    yield "volumes", expect["volumes"], [entry["name"] for entry in template.get("volumes", ())]


KINDS = {"job_phase": job_phase, "job_scavenge": job_scavenge, "reservation_template": reservation_template}
