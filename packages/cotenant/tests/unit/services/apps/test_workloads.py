"""Whose a pod is, and why a workload is not ready."""

from __future__ import annotations

import asyncio

from tests.fakes.processes.kept_objects import KeptObjects

from cotenant.model.json_object import JsonObject
from cotenant.services.apps.workloads import guid_of, pods_of, why_not_ready


def owned(kind: str, name: str, by: str, controller: bool = True) -> JsonObject:
    version = {"Pod": "v1", "Job": "batch/v1"}.get(kind, "apps/v1")
    owners = [{"uid": "uid-gc"}, {"uid": f"uid-{by}", "controller": controller}] if by else []
    metadata = {"name": name, "namespace": "shop", "ownerReferences": owners}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {}}


def workload(kind: str, name: str) -> JsonObject:
    return {**owned(kind, name, ""), "apiVersion": "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"}


def test_pods_are_found_through_the_sets_and_jobs_that_their_workloads_make() -> None:
    objects = KeptObjects()
    web, night, single = (
        objects.put(workload("Deployment", "web")),
        objects.put(workload("CronJob", "night")),
        objects.put({**owned("Pod", "single", ""), "apiVersion": "v1"}),
    )
    for maker in (owned("ReplicaSet", "web-1", "web"), owned("Job", "night-1", "night")):
        objects.put(maker)
    for name, by in (("web-b", "web-1"), ("web-a", "web-1"), ("night-a", "night-1"), ("odd", "web-2")):
        objects.put(owned("Pod", name, by))
    objects.put(owned("Pod", "only-referenced", "web-1", controller=False))
    service: JsonObject = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}}
    found = asyncio.run(pods_of(objects, [web, service, night, single]))
    assert [(one.ref.kind, [pod["metadata"]["name"] for pod in one.pods]) for one in found] == [
        ("Deployment", ["web-a", "web-b"]),
        ("CronJob", ["night-a"]),
        ("Pod", ["single"]),
    ]
    assert found[0].makers == {"uid-web", "uid-web-1"}


def test_namespaces_are_not_mixed() -> None:
    objects = KeptObjects()
    here, there = workload("StatefulSet", "db"), workload("StatefulSet", "db")
    there["metadata"] = {"name": "db", "namespace": "other", "uid": "uid-db"}
    objects.put(owned("Pod", "db-0", "db"))
    found = asyncio.run(pods_of(objects, [{**here, "metadata": {**here["metadata"], "uid": "uid-db"}}, there]))
    assert [len(one.pods) for one in found] == [1, 0]


def test_a_guid_is_the_images_name_and_the_first_digits_of_the_uid() -> None:
    pod: JsonObject = {
        "metadata": {"uid": "01234567-89ab"},
        "spec": {"containers": [{"image": "hub/shop/web:1"}, {"image": "side"}]},
    }
    assert guid_of(pod) == guid_of({**pod, "metadata": {"uid": "0123-4567-ffff"}})
    assert guid_of(pod) != guid_of({**pod, "metadata": {"uid": "01234568-89ab"}})
    assert guid_of(pod) != guid_of({**pod, "spec": {"containers": [{"image": "hub/shop/db:1"}]}})
    assert guid_of({"metadata": {"uid": "01"}, "spec": {}}) == guid_of({"metadata": {"uid": "01000000"}})
    assert guid_of({"metadata": {"uid": "not-hexadecimal"}})  # a simulated cluster's UID may be any text


def why(objects: KeptObjects, live: JsonObject) -> list[str]:
    return asyncio.run(why_not_ready(objects, live))


def claims_world() -> tuple[KeptObjects, JsonObject]:
    objects = KeptObjects()
    live = objects.put({**workload("StatefulSet", "db"), "spec": {"replicas": 1}})
    return objects, live


def test_ready_and_finished_pods_are_no_reason() -> None:
    objects, live = claims_world()
    objects.put(owned("Pod", "db-0", "db"), conditions=[{"type": "Ready", "status": "True"}])
    objects.put(owned("Pod", "db-1", "db"), phase="Succeeded")
    assert why(objects, live) == []
    objects.put(owned("Pod", "db-0", "db"), conditions=[{"type": "Ready", "status": "False"}], phase="Running")
    assert why(objects, live)
    objects.put(owned("Pod", "db-0", "db"), conditions=[{"type": "Initialized", "status": "True"}], phase="Running")
    assert why(objects, live)


def test_a_claim_that_is_not_bound_is_named() -> None:
    objects, live = claims_world()
    waits = owned("Pod", "db-0", "db")
    waits["spec"] = {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}
    objects.put(waits, phase="Pending")
    claim: JsonObject = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop"},
    }
    objects.put(claim, phase="Pending")
    assert why(objects, live)[0] == "PersistentVolumeClaim data is not bound"
    objects.put(claim, phase="Bound")
    assert not any("is not bound" in line for line in why(objects, live))


def test_what_is_said_of_pods_that_cannot_be_made_is_told_where_some_are_missing() -> None:
    objects, live = claims_world()
    event: JsonObject = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e1", "namespace": "shop"},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": "over the quota",
        "involvedObject": {"uid": "uid-db"},
    }
    objects.put(event)
    objects.put({**event, "metadata": {"name": "e2"}, "involvedObject": {"uid": "uid-other"}, "message": "another's"})
    objects.put({**event, "metadata": {"name": "e3"}, "type": "Normal", "message": "made"})
    assert why(objects, live) == ["FailedCreate: over the quota"]
    objects.forbidden.add("events")
    assert why(objects, live) == ["it has no pods"]
    objects.forbidden.clear()
    objects.put(owned("Pod", "db-0", "db"), conditions=[{"type": "Ready", "status": "True"}])
    assert why(objects, live) == []  # it has all it wants: old Events mean nothing


def test_what_runs_no_pods_has_no_reasons() -> None:
    objects = KeptObjects()
    assert why(objects, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}}) == []
