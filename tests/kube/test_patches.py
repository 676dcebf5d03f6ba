"""The four patch formats, optimistic concurrency, and field ownership."""

from __future__ import annotations

from typing import Any

import pytest

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture
def config(kube: Any, configs: str) -> str:
    kube.create(configs, {"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}})
    return f"{configs}/c"


def test_a_merge_patch_changes_adds_and_removes(kube: Any, config: str) -> None:
    changed = kube.patch(config, {"data": {"a": "x", "b": None, "c": "3"}})
    assert changed["data"] == {"a": "x", "c": "3"}


def test_a_json_patch_applies_in_order(kube: Any, config: str) -> None:
    operations = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "x"},
        {"op": "remove", "path": "/data/b"},
        {"op": "copy", "from": "/data/a", "path": "/data/c"},
    ]
    assert kube.patch(config, operations, JSON_PATCH)["data"] == {"a": "x", "c": "x"}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "test", "path": "/data/a", "value": "9"}], 422),
        ([{"op": "remove", "path": "/data/nope"}], 422),
        ([{"op": "add", "path": "/metadata/annotations/x", "value": "y"}], 422),
        ({"op": "remove"}, 400),
    ],
)
def test_json_patches_that_do_not_apply(kube: Any, config: str, operations: Any, code: int) -> None:
    assert kube.request("PATCH", config, operations, content_type=JSON_PATCH).code == code


def test_a_strategic_patch_merges_lists_by_key(kube: Any, pods: str, make_pod: Any) -> None:
    wanted = make_pod()
    wanted["spec"]["tolerations"] = [{"key": "a", "operator": "Exists"}]
    kube.create(pods, wanted)
    patch = {"spec": {"containers": [{"name": "c", "image": "registry.example/app:2"}]}}
    changed = kube.patch(f"{pods}/p", patch, STRATEGIC)
    assert [(one["name"], one["image"]) for one in changed["spec"]["containers"]] == [("c", "registry.example/app:2")]


def test_a_strategic_patch_deletes_by_key(kube: Any, namespace: str) -> None:
    services = f"/api/v1/namespaces/{namespace}/services"
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    kube.create(services, {"metadata": {"name": "s"}, "spec": {"ports": ports, "clusterIP": "None"}})
    changed = kube.patch(f"{services}/s", {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}}, STRATEGIC)
    assert [port["port"] for port in changed["spec"]["ports"]] == [81]


def test_an_update_needs_the_current_version(kube: Any, config: str) -> None:
    read = kube.get(config)
    kube.patch(config, {"data": {"a": "other"}})
    answer = kube.request("PUT", config, {**read, "data": {"a": "mine"}})
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert (
        "the object has been modified; please apply your changes to the latest version and try again" in answer.message
    )


def test_a_patch_with_an_old_version_is_a_conflict(kube: Any, config: str) -> None:
    version = kube.get(config)["metadata"]["resourceVersion"]
    kube.patch(config, {"data": {"a": "other"}})
    answer = kube.request(
        "PATCH", config, {"metadata": {"resourceVersion": version}, "data": {"a": "m"}}, content_type=MERGE
    )
    assert answer.code == 409


def test_an_update_that_changes_nothing_keeps_the_version(kube: Any, config: str) -> None:
    before = kube.get(config)
    after = kube.ok("PUT", config, before)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_immutable_fields_cannot_change(kube: Any, pods: str, config: str, make_pod: Any) -> None:
    kube.create(pods, make_pod())
    assert kube.request("PATCH", f"{pods}/p", {"spec": {"restartPolicy": "Never"}}, content_type=MERGE).code == 422
    uid = {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}}
    assert kube.request("PATCH", config, uid, content_type=MERGE).code in (409, 422)


def applied(name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": data}


def test_apply_creates_and_owns(kube: Any, configs: str) -> None:
    answer = kube.request("PATCH", f"{configs}/a", applied("a", {"x": "1"}), content_type=APPLY, fieldManager="one")
    assert answer.code == 201
    (entry,) = answer.json["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("one", "Apply")
    assert entry["fieldsV1"] == {"f:data": {"f:x": {}}}


def test_apply_of_another_managers_field_is_a_conflict(kube: Any, configs: str) -> None:
    kube.patch(f"{configs}/a", applied("a", {"x": "1"}), APPLY, fieldManager="one")
    answer = kube.request("PATCH", f"{configs}/a", applied("a", {"x": "2"}), content_type=APPLY, fieldManager="two")
    assert (answer.code, answer.reason) == (409, "Conflict")
    (cause,) = answer.json["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".data.x")
    assert 'conflict with "one"' in cause["message"]
    forced = kube.patch(f"{configs}/a", applied("a", {"x": "2"}), APPLY, fieldManager="two", force="true")
    assert forced["data"] == {"x": "2"}


def test_the_same_value_is_shared(kube: Any, configs: str) -> None:
    for manager in ("one", "two"):
        kube.patch(f"{configs}/a", applied("a", {"x": "1"}), APPLY, fieldManager=manager)
    managers = [entry["manager"] for entry in kube.get(f"{configs}/a")["metadata"]["managedFields"]]
    assert sorted(managers) == ["one", "two"]


def test_fields_no_longer_applied_are_removed(kube: Any, configs: str) -> None:
    kube.patch(f"{configs}/a", applied("a", {"x": "1", "y": "2"}), APPLY, fieldManager="one")
    changed = kube.patch(f"{configs}/a", applied("a", {"x": "1"}), APPLY, fieldManager="one")
    assert changed["data"] == {"x": "1"}


def test_apply_in_yaml(kube: Any, configs: str) -> None:
    body = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata:\n  x: '1'\n"
    assert kube.patch(f"{configs}/a", body, APPLY, fieldManager="one")["data"] == {"x": "1"}


def test_updates_are_recorded_with_their_manager(kube: Any, config: str) -> None:
    kube.patch(config, {"data": {"z": "9"}}, fieldManager="two")
    found = {entry["manager"]: entry for entry in kube.get(config)["metadata"]["managedFields"]}
    assert found["two"]["operation"] == "Update"
    assert found["two"]["fieldsV1"] == {"f:data": {"f:z": {}}}


def test_a_deployment_counts_generations_of_its_spec(kube: Any, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = kube.create(path, {"metadata": {"name": "d"}, "spec": spec})
    assert made["metadata"]["generation"] == 1
    labelled = kube.patch(f"{path}/d", {"metadata": {"labels": {"x": "y"}}})
    assert labelled["metadata"]["generation"] == 1
    scaled = kube.patch(f"{path}/d", {"spec": {"paused": True}})
    assert scaled["metadata"]["generation"] == 2
