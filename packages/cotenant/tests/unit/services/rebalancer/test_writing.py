"""Each instruction about a migration is one call that may be repeated, and is made on what was read."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.fakes.servers.recorded_client import RecordedClient

from cotenant.drivers.kube.client.errors import AlreadyExists, Conflict, Invalid, NotFound, Refused
from cotenant.drivers.kube.kinds.status import StatusCause
from cotenant.engine.migration.instructions import (
    CreateJob,
    CreateReservation,
    DeleteJob,
    DeleteJobReservation,
    EvictJobPod,
    RequestEviction,
    SetLanding,
    SetPodUid,
    WithdrawEviction,
    WriteStatus,
)
from cotenant.engine.rebalancer.plan import PlannedRoom
from cotenant.model.cluster.eviction_request import EvictionRequest
from cotenant.model.groups.migration import EvictPolicy, JobPhase, MigrationJob, MoveNote, PodRef
from cotenant.services.rebalancer.writing import carry_out, keep_room

POD = PodRef("shop", "web", "pu")
JOB = MigrationJob("j", "ju", POD, version="7", ttl_s=300.0, reason="hot")
TESTS = [
    {"op": "test", "path": "/metadata/uid", "value": "ju"},
    {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
]
NOW_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def made(client: RecordedClient, what: Any) -> Any:
    return asyncio.run(carry_out(cast(Any, client), what, NOW_S))


def test_a_job_is_created_once() -> None:
    client = RecordedClient()
    assert made(client, CreateJob(JOB)) == "made"
    ((verb, kind, namespace, body),) = client.calls
    assert (verb, kind, namespace, body["metadata"]["name"]) == ("create", "podmigrationjobs", "", "j")
    assert made(RecordedClient({"create": [AlreadyExists("j")]}), CreateJob(JOB)) is None


def test_parts_of_a_job_are_written_over_the_version_that_was_read() -> None:
    note = MoveNote("k", "old", "new", "cpu")
    client = RecordedClient()
    done = replace(JOB, phase=JobPhase.SUCCEEDED, node="n1")
    for what in (SetPodUid(JOB, "new"), SetLanding(JOB, POD, note), WriteStatus(done)):
        assert made(client, what) == "patched"
    (uid, landing, status) = client.calls
    for call, subresource in ((uid, ""), (landing, ""), (status, "status")):
        assert call[:6] == ("patch", "podmigrationjobs", subresource, "", "j", "json")
        assert call[6][:2] == TESTS
    assert uid[6][2:] == [{"op": "add", "path": "/spec/podRef/uid", "value": "new"}]
    assert [(part["op"], part["path"]) for part in landing[6][2:]] == [
        ("add", "/spec/podRef"),
        ("add", "/metadata/annotations/cotenant.io~1move"),
    ]
    assert landing[6][2]["value"] == {
        "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web", "uid": "pu",
    }  # fmt: skip
    assert '"new"' in landing[6][3]["value"]
    (part,) = status[6][2:]
    assert (part["path"], part["value"]["phase"], part["value"]["nodeName"]) == ("/status", "Succeeded", "n1")


@pytest.mark.parametrize(
    "what", [SetPodUid(JOB, "new"), SetLanding(JOB, POD, MoveNote("k", "a", "b", "c")), WriteStatus(JOB)]
)
def test_a_version_that_is_no_longer_stored_is_a_conflict_and_a_wrong_field_is_not(what: Any) -> None:
    for error, raised in (
        (Invalid("the test failed", 422, "Invalid"), Conflict),
        (Invalid("the test failed", 422, "Invalid", (StatusCause(message="x"),)), Conflict),
        (Invalid("no such field", 422, "Invalid", (StatusCause(field="spec.ttl"),)), Invalid),
        (Invalid("no patch", 400), Invalid),
        (Conflict("changed"), Conflict),
        (Refused("no right to"), Refused),
    ):
        with pytest.raises(Refused) as found:
            made(RecordedClient({"patch": [error]}), what)
        assert type(found.value) is raised


@pytest.mark.parametrize("grace_s", [None, 0, 30])
def test_a_pod_is_evicted_by_the_jobs_policy_and_its_uid(grace_s: int | None) -> None:
    client, job = RecordedClient(), replace(JOB, grace_s=grace_s)
    for policy in (EvictPolicy.EVICTION, EvictPolicy.DELETE, EvictPolicy.SOFT):
        assert made(client, EvictJobPod(job, policy)) is None
    evicted, deleted, softly = client.calls
    assert evicted == ("evict", "shop", "web", "pu", grace_s)
    assert deleted == ("delete", "pods", "shop", "web", "pu", grace_s)
    assert softly[:6] == ("patch", "pods", "", "shop", "web", "merge")
    given = "" if grace_s is None else f', "deleteOptions": {{"gracePeriodSeconds": {grace_s}}}'
    note = f'{{"timestamp": "2026-01-01T00:00:00Z", "initiator": "cotenant-rebalancer"{given}}}'
    assert softly[6] == {"metadata": {"uid": "pu", "annotations": {"scheduling.koordinator.sh/soft-eviction": note}}}


@pytest.mark.parametrize(
    ("verb", "policy"), [("evict", EvictPolicy.EVICTION), ("delete", EvictPolicy.DELETE), ("patch", EvictPolicy.SOFT)]
)
def test_a_pod_that_is_gone_or_another_is_no_error(verb: str, policy: EvictPolicy) -> None:
    for error in (NotFound("web"), Conflict("another UID")):
        assert made(RecordedClient({verb: [error]}), EvictJobPod(JOB, policy)) is None
    with pytest.raises(Refused):
        made(RecordedClient({verb: [Refused("no right to")]}), EvictJobPod(JOB, policy))


def test_a_reservation_is_created_for_the_pod_that_was_meant() -> None:
    stored = {
        "metadata": {"uid": "pu", "name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": []},
    }
    what = CreateReservation(JOB, POD, "n1", "n2")
    client = RecordedClient(stored=[stored])
    assert made(client, what) == "made"
    read, (verb, kind, _, body) = client.calls
    assert read == ("GET", "/api/v1/namespaces/shop/pods/web")
    assert (verb, kind, body["metadata"]["name"], body["spec"]["ttl"]) == ("create", "reservations", "ju", "300s")
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["name"], owner["uid"]) == ("j", "ju")
    again = RecordedClient({"create": [AlreadyExists("ju")]}, stored=[stored, "as stored"])
    assert made(again, what) == "as stored"
    assert again.calls[-1] == ("get", "reservations", "", "ju")
    for other in ({**stored, "metadata": {"uid": "another"}}, {"spec": {}}):
        with pytest.raises(NotFound, match="shop/web was replaced"):
            made(RecordedClient(stored=[other]), what)


def test_a_request_for_an_eviction_has_a_name_that_only_its_job_has() -> None:
    client = RecordedClient()
    assert made(client, RequestEviction(JOB)) == "made"
    ((verb, kind, namespace, body),) = client.calls
    assert (verb, kind, namespace) == ("create", "evictionrequests", "shop")
    assert body["metadata"] == {
        "name": "cotenant-ju",
        "namespace": "shop",
        "labels": {"app.kubernetes.io/created-by": "cotenant-rebalancer"},
    }
    assert body["spec"]["target"] == {"pod": {"name": "web", "uid": "pu"}}
    again = RecordedClient({"create": [AlreadyExists("r")]})
    assert made(again, RequestEviction(JOB)) == "stored"
    assert again.calls[-1] == ("get", "evictionrequests", "shop", "cotenant-ju")


@pytest.mark.parametrize(
    ("what", "call"),
    [
        (
            WithdrawEviction(EvictionRequest("shop", "r", "ru", "cotenant-rebalancer", "pu")),
            ("delete", "evictionrequests", "shop", "r", "ru", None),
        ),
        (DeleteJobReservation("res", "resu"), ("delete", "reservations", "", "res", "resu", None)),
        (DeleteJob(JOB), ("delete", "podmigrationjobs", "", "j", "ju", None)),
    ],
)
def test_what_is_deleted_is_the_object_that_was_read(what: Any, call: tuple[Any, ...]) -> None:
    client = RecordedClient()
    assert made(client, what) is None
    assert client.calls == [call]
    for error in (NotFound("gone"), Conflict("another UID")):
        assert made(RecordedClient({"delete": [error]}), what) is None
    with pytest.raises(Refused):
        made(RecordedClient({"delete": [Refused("no right to")]}), what)


def test_room_is_marked_on_the_pod_that_waits() -> None:
    client = RecordedClient()
    asyncio.run(keep_room(cast(Any, client), PlannedRoom("shop/big", "bu", "n1", "a", ("u1", "u2")), 1000.00049))
    ((*where, body),) = client.calls
    assert where == ["patch", "pods", "", "shop", "big", "merge"]
    assert body["metadata"]["uid"] == "bu"
    (written,) = body["metadata"]["annotations"].values()
    assert "n1" in written
    assert "1000.0" in written
    assert "1000.0004" not in written
