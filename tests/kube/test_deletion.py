"""Deletion: finalizers, grace periods, preconditions, propagation; and object names."""

from __future__ import annotations

from typing import Any

import pytest


def test_an_object_with_a_finalizer_stays_until_it_is_removed(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c", "finalizers": ["example.com/wait"]}})
    assert kube.request("DELETE", f"{configs}/c").code in (200, 202)
    waiting = kube.get(f"{configs}/c")
    assert waiting["metadata"]["deletionTimestamp"]
    kube.patch(f"{configs}/c", {"metadata": {"finalizers": None}})
    assert kube.request("GET", f"{configs}/c").code == 404


def test_no_finalizer_can_be_added_during_deletion(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c", "finalizers": ["example.com/wait"]}})
    kube.delete(f"{configs}/c")
    change = {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}}
    answer = kube.request("PATCH", f"{configs}/c", change, content_type="application/merge-patch+json")
    assert answer.code == 422
    kube.patch(f"{configs}/c", {"metadata": {"finalizers": None}})


def test_a_deletion_returns_a_status_with_details(kube: Any, configs: str) -> None:
    made = kube.create(configs, {"metadata": {"name": "c"}})
    answer = kube.delete(f"{configs}/c")
    assert answer["kind"] == "Status"
    assert answer["details"]["uid"] == made["metadata"]["uid"]
    assert kube.request("DELETE", f"{configs}/c").code == 404


def test_a_failed_precondition_is_a_conflict(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c"}})
    options = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": "11111111-2222-3333-4444-555555555555"},
    }
    answer = kube.request("DELETE", f"{configs}/c", options)
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert kube.request("GET", f"{configs}/c").code == 200


def test_a_bound_pod_terminates_gracefully(kube: Any, pods: str, node: str, make_pod: Any) -> None:
    kube.create(pods, make_pod())
    kube.create(f"{pods}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}})
    kube.patch(f"{pods}/p/status", {"status": {"phase": "Running"}})
    kube.delete(f"{pods}/p", gracePeriodSeconds="600")
    going = kube.get(f"{pods}/p")
    assert going["metadata"]["deletionGracePeriodSeconds"] == 600
    kube.delete(f"{pods}/p", gracePeriodSeconds="0")
    assert kube.request("GET", f"{pods}/p").code == 404


@pytest.mark.parametrize("way", ["delete", "evict"])
def test_a_mark_by_the_status_makes_a_version_and_no_other_is_deleted_or_evicted(
    kube: Any, pods: str, node: str, make_pod: Any, way: str
) -> None:
    """What a shard of the scheduler relies on where its evictions are fenced."""
    kube.create(pods, make_pod(nodeName=node))
    before = kube.patch(f"{pods}/p/status", {"status": {"phase": "Running"}})["metadata"]["resourceVersion"]
    marked = kube.patch(f"{pods}/p/status", {"metadata": {"labels": {"cotenant.io/shard-evicts": "t1"}}})["metadata"]
    assert marked["labels"]["cotenant.io/shard-evicts"] == "t1"

    def end(version: str) -> int:
        only = {"preconditions": {"uid": marked["uid"], "resourceVersion": version}, "gracePeriodSeconds": 0}
        if way == "delete":
            answer = kube.request("DELETE", f"{pods}/p", {"kind": "DeleteOptions", "apiVersion": "v1", **only})
        else:
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": only}
            answer = kube.request("POST", f"{pods}/p/eviction", body)
        return int(answer.code)

    assert end(before) == 409
    assert not kube.get(f"{pods}/p")["metadata"].get("deletionTimestamp")
    assert end(marked["resourceVersion"]) in (200, 201)
    assert kube.request("GET", f"{pods}/p").code == 404


def test_an_unbound_pod_is_removed_immediately(kube: Any, pods: str, make_pod: Any) -> None:
    kube.create(pods, make_pod())
    kube.delete(f"{pods}/p")
    assert kube.request("GET", f"{pods}/p").code == 404


def test_an_unknown_propagation_is_refused(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c"}})
    answer = kube.request(
        "DELETE", f"{configs}/c", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Perhaps"}
    )
    assert answer.code == 422


def test_foreground_deletion_sets_a_finalizer(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c", "finalizers": ["example.com/wait"]}})
    kube.delete(f"{configs}/c", propagationPolicy="Foreground")
    assert "foregroundDeletion" in kube.get(f"{configs}/c")["metadata"]["finalizers"]
    kube.patch(f"{configs}/c", {"metadata": {"finalizers": None}})


def test_generated_names_are_unique(kube: Any, configs: str) -> None:
    made = {kube.create(configs, {"metadata": {"generateName": "g-"}})["metadata"]["name"] for _ in range(5)}
    assert len(made) == 5
    assert all(name.startswith("g-") and len(name) == 7 for name in made)


def test_a_dry_run_deletion_deletes_nothing(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c"}})
    kube.delete(f"{configs}/c", dryRun="All")
    assert kube.request("GET", f"{configs}/c").code == 200


def test_creation_in_a_missing_namespace_is_refused(kube: Any) -> None:
    answer = kube.request("POST", "/api/v1/namespaces/nowhere-at-all/configmaps", {"metadata": {"name": "c"}})
    assert (answer.code, answer.message) == (404, 'namespaces "nowhere-at-all" not found')


def test_invalid_names_are_refused(kube: Any, configs: str) -> None:
    for name in ("Upper", "a_b", "-a", "a" * 254, ""):
        assert kube.request("POST", configs, {"metadata": {"name": name}}).code == 422, name


def test_a_duplicate_name_is_refused(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c"}})
    answer = kube.request("POST", configs, {"metadata": {"name": "c"}})
    assert (answer.code, answer.reason, answer.message) == (409, "AlreadyExists", 'configmaps "c" already exists')
