"""Kinds of migration_arbitration.json about the steps of a job, its end, and the reservation that it creates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from cotenant.drivers.kube.kinds.custom.reservation_template import migration_manifest
from cotenant.engine.migration.instructions import EvictPod, PodFacts, WriteStatus
from cotenant.engine.migration.steps import JobFacts, Next, is_scavenged, next_step
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.migration import (
    CREATED_BY,
    JobCondition,
    JobMode,
    JobPhase,
    MigrationJob,
    PodRef,
    Step,
)
from cotenant.model.groups.reservation import SCHEDULED, Condition, CurrentOwner, Phase, Reservation
from cotenant.model.groups.reservation_notes import ORDER

REF = PodRef("default", "test-pod-1", "u")
RUNNING = MigrationJob("job", "job-uid", REF, phase=JobPhase.RUNNING, node="old-node")
MOST_STEPS = 20


def _reservation(given: Mapping[str, Any] | None) -> Reservation | None:
    if given is None:
        return None
    node = given.get("node", "test-node-1" if given.get("current_owner", "") is None else "")
    owner = given.get("current_owner")
    if owner:
        node = node or "test-node-1"
    scheduled = given.get("scheduled")
    conditions = ()
    if scheduled is False:
        conditions = (Condition(SCHEDULED, False, given["scheduled_reason"], given.get("message", "")),)
    current = ()
    if owner:
        namespace, _, name = owner.partition("/")
        current = (CurrentOwner(namespace, name, "new"),)
    phase = Phase(given.get("phase", "Available"))
    return Reservation("r", "r-uid", Pod("r"), phase=phase, node=node, current=current, conditions=conditions)


def _conditions(given: Any) -> tuple[JobCondition, ...]:
    return tuple(JobCondition(each["type"], each["status"], each.get("reason", "")) for each in given)


def _settle(job: MigrationJob, facts: JobFacts, now_s: float = 0.0) -> tuple[MigrationJob, Next]:
    """The job when nothing more is to be written but an eviction."""
    for _ in range(MOST_STEPS):
        found = next_step(job, facts, now_s)
        if not isinstance(found.write, WriteStatus):
            return job, found
        job = found.write.job
    raise AssertionError("the job does not settle")


def _whole_way(given: Mapping[str, Any]) -> MigrationJob:
    job = replace(RUNNING, mode=JobMode(given.get("mode", "ReservationFirst")))
    facts = JobFacts(PodFacts(REF, "old-node", ready=True))
    for step in given["steps"]:
        if step.startswith("paused"):
            assert next_step(replace(job, paused=True), facts, 0.0).write is None
        elif step.startswith("reservation available"):
            facts = replace(
                facts, reservation=_reservation({"node": "test-node-1", "current_owner": "default/test-pod-1"})
            )
        elif step == "pod gone" or step.startswith("eviction asked"):
            job, found = _settle(job, facts)
            assert isinstance(found.write, EvictPod)
            again = PodFacts(PodRef(REF.namespace, REF.name, "new"), "test-node-1", ready=True)
            facts = replace(facts, pod=again if "created again" in step else None)
        job, _ = _settle(job, facts)
    job, _ = _settle(job, facts, 60.0)
    return job


def job_phase(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given, expect = case.given, case.expect
    pod = PodFacts(REF, given.get("pod_node", "old-node"), ready=True)
    job, facts, now_s = RUNNING, JobFacts(pod), 0.0
    if "steps" in given:
        job = _whole_way(given)
        yield from (
            (key, expect[key], {"phase": job.phase, "status": job.status, "reason": job.status_reason}[key])
            for key in expect
        )
        return
    if "ttl_minutes" in given:
        job, now_s = replace(job, ttl_s=given["ttl_minutes"] * 60.0), given["age_minutes"] * 60.0
    elif given.get("step") == "evict":
        job = replace(job, mode=JobMode.EVICT_DIRECTLY, conditions=_conditions(given["conditions"]))
        facts = replace(facts, pod=pod if given["pod"] else None)
    elif given.get("step") == "wait-for-pending-pod":
        made = (JobCondition(Step.RESERVATION_CREATED, "True"), JobCondition(Step.RESERVATION_SCHEDULED, "True"))
        job = replace(job, node="", conditions=made)
        facts = replace(facts, pod=PodFacts(REF), reservation=_reservation({"node": "test-node-1"}))
    else:
        made = (JobCondition(Step.RESERVATION_CREATED, "True"), JobCondition(Step.EVICTION, "True"))
        if "conditions" in given:
            job = replace(job, conditions=(*made, *_conditions(given["conditions"])))
            facts = replace(facts, pod=None)
        elif given.get("reservation_ref"):
            job = replace(job, reservation="r")
        else:
            job = replace(job, node=given.get("pod_node", job.node))
        facts = replace(facts, reservation=_reservation(given["reservation"]))
    job, found = _settle(job, facts, now_s)
    if "conditions" in given and "evict_call" not in given and "step" not in given:
        bound = job.has(Step.POD_BOUND)
        yield "bound", expect["bound"], bound
        yield "requeue_s", expect["requeue_s"], 0 if bound else 3
        return
    evicted = job.has(Step.EVICTION)
    condition = expect.get("condition", {})
    has = job.condition(condition["type"]) if condition else None
    values = {
        "phase": job.phase,
        "reason": job.status_reason,
        "aborted": job.phase is JobPhase.FAILED,
        "evicted": evicted,
        "requeue_s": 0 if evicted else 3,
        "condition": {} if has is None else {key: getattr(has, key) for key in condition},
    }
    if given.get("evict_call"):
        assert isinstance(found.write, EvictPod)
    yield from ((key, expect[key], values[key]) for key in expect)


def job_scavenge(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    got = is_scavenged(JobPhase(given["phase"]), given["age_minutes"] * 60.0, (given["ttl_minutes"] or 0) * 60.0)
    yield "deleted", case.expect["deleted"], got


def reservation_template(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given, expect = case.given["pod"], case.expect
    terms = [
        {{"match_expressions": "matchExpressions"}[key]: value for key, value in term.items()}
        for term in given.get("required_node_terms", ())
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": given["controller"], "uid": "c", "controller": True}
    pod = {
        "metadata": {"name": "p", "namespace": given["namespace"], "ownerReferences": [owner]},
        "spec": {
            "nodeName": given["node"],
            **({"affinity": affinity} if terms else {}),
            "volumes": [
                {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in given.get("volumes", ())
            ],
        },
    }
    with_claims = not case.given.get("gates", {}).get("disable_pvc_reservation")
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
    yield "volumes", expect["volumes"], [each["name"] for each in template.get("volumes", ())]


KINDS = {"job_phase": job_phase, "job_scavenge": job_scavenge, "reservation_template": reservation_template}
