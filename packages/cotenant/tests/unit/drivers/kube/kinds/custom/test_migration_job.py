"""PodMigrationJobs: what is written is read again, and what cannot be read is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.migration_job import (
    MigrationJobObject,
    job_manifest,
    read_migration_job,
    written_job_status,
)
from cotenant.drivers.kube.kinds.custom.reservation import ReservationObject, ReservationReader
from cotenant.drivers.kube.kinds.custom.reservation_template import migration_manifest
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.migration import EvictPolicy, JobPhase, JobStep, MigrationJob, MoveAim, MoveNote, PodRef

AIM = MoveAim(3, ("default/q",), "zone", "z-a", 2)
NOTE = MoveNote(
    "k", "a", "b", "cpu", "w", 3, {"cpu": 500}, {"cpu": 80.0}, {"cpu": 70.0}, {"cpu": 1.0}, {"cpu": 11.0}, AIM
)
JOB = MigrationJob(
    "job",
    "u",
    PodRef("default", "p", "pu"),
    version="7",
    ttl_s=300.0,
    policy=EvictPolicy.DELETE,
    grace_s=5,
    is_ours=True,
    reason="cpu",
    trigger="LowNodeLoad",
    created_by="cotenant-rebalancer",
    note=NOTE,
)


def read(obj: dict[str, Any]) -> MigrationJob:
    return read_migration_job(msgspec.json.decode(msgspec.json.encode(obj), type=MigrationJobObject))


def stored(job: MigrationJob) -> dict[str, Any]:
    made = job_manifest(job)
    made["metadata"] |= {"uid": job.uid, "resourceVersion": job.version, "creationTimestamp": "1970-01-01T00:00:00Z"}
    return {**made, "status": written_job_status(job)}


def test_what_is_written_is_read_again() -> None:
    assert read(stored(JOB)) == JOB
    moved = replace(JOB, phase=JobPhase.SUCCEEDED, status="Complete", node="a", new_pod=PodRef("default", "q", "qu"))
    moved = moved.with_condition(JobStep.EVICTION, "True", 1000.0, "EvictComplete", "m")
    again = read(stored(moved))
    assert again == moved
    assert again.began_evicting_s() == 1000.0


def test_errors_are_sentences_and_an_unknown_phase_is_not_carried_out() -> None:
    found = read({**stored(JOB), "spec": {"mode": "Never", "ttl": "soon"}, "status": {"phase": "Odd"}})
    assert [name.partition(":")[0] for name in found.wrong] == ["spec.ttl", "spec.mode", "status.phase"]
    assert found.phase.is_final
    with pytest.raises(InvalidInput):
        read({"metadata": {"name": "x"}})


@pytest.mark.parametrize("note", ["", "[]", "{", '{"replicas": "x"}'])
def test_a_note_that_was_changed_is_no_note(note: str) -> None:
    made = stored(JOB)
    made["metadata"]["annotations"]["cotenant.io/move"] = note
    assert read(made).note is None


POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "default",
        "uid": "pu",
        "labels": {"app": "w", "quota.scheduling.koordinator.sh/name": "q"},
        "annotations": {"cotenant.io/decision": "{}", "example.com/kept": "1"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "wu", "controller": True}
        ],
    },
    "spec": {
        "nodeName": "a",
        "schedulerName": "cotenant",
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "serviceAccountName": "secret",
        "containers": [
            {
                "name": "c",
                "image": "i",
                "env": [{"name": "PASSWORD", "value": "x"}],
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
        "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
    },
}


def test_a_reservation_copies_what_decides_about_placement_and_no_secrets() -> None:
    made = migration_manifest(POD, "r", 300.0, "a", now_s=5.0, target="b", job=("job", "u"))
    template = made["spec"]["template"]
    assert template["metadata"]["labels"] == {"app": "w"}
    assert template["metadata"]["annotations"] == {"example.com/kept": "1"}
    assert "PASSWORD" not in str(made)
    assert "secret" not in str(made)
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    obj = {**made, "metadata": {**made["metadata"], "uid": "ru"}}
    seen = ReservationReader().read(msgspec.json.decode(msgspec.json.encode(obj), type=ReservationObject))
    assert not seen.wrong
    assert seen.ttl_s == 300.0
    assert seen.pod.requests.get("cpu") == 1000
    assert seen.owners[0].controller is not None
    assert seen.owners[0].controller.uid == "wu"
    assert seen.pod.node_affinity is not None
    assert seen.pod.node_affinity.required is not None
    fields = [(field.operator.value, field.values) for field in seen.pod.node_affinity.required.terms[0].fields]
    assert fields == [("NotIn", ("a",)), ("In", ("b",))]


def test_a_pod_that_waits_owns_its_reservation_itself() -> None:
    waiting = {**POD, "spec": {key: value for key, value in POD["spec"].items() if key != "nodeName"}}
    made = migration_manifest(waiting, "r", 0.0, "", now_s=5.0)
    assert made["spec"]["owners"] == [{"object": {"namespace": "default", "name": "p", "uid": "pu"}}]
    assert made["spec"]["ttl"] == "0"
    assert "affinity" not in made["spec"]["template"]["spec"]
