"""Managed fields after writes other than server-side apply."""

from __future__ import annotations

from typing import Any

from cotenant.drivers.kube.manifests.document import copied
from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.patching import apply, track
from cotenant_local.apiserver.schema.builtin import builtin_schema

POD = builtin_schema("", "v1", "Pod")
T1, T2 = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def pod() -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "labels": {"a": "b"}},
        "spec": {
            "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "args": ["x"]}],
            "nodeSelector": {"disk": "ssd"},
        },
        "status": {"phase": "Pending"},
    }


def made() -> Manifest:
    obj = pod()
    track(None, obj, POD, "kubectl-create", "Update", T1, "")
    return obj


def owners(obj: Manifest) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())}


def test_a_create_records_the_whole_object_in_kubernetes_form() -> None:
    (entry,) = made()["metadata"]["managedFields"]
    assert entry == {
        "manager": "kubectl-create",
        "operation": "Update",
        "apiVersion": "v1",
        "time": T1,
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {
                "f:containers": {
                    'k:{"name":"c"}': {
                        ".": {},
                        "f:name": {},
                        "f:image": {},
                        "f:args": {},
                        "f:ports": {
                            ".": {},
                            'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}},
                        },
                    }
                },
                "f:nodeSelector": {},
            },
        },
    }


def test_an_update_gains_changed_fields_and_drops_removed_ones() -> None:
    old = made()
    new = copied(old)
    new["metadata"]["labels"] = {"a": "c", "x": "y"}
    new["spec"]["containers"][0].pop("args")
    track(old, new, POD, "other", "Update", T2, "")
    assert owners(new)["other"] == {"f:metadata": {"f:labels": {"f:a": {}, "f:x": {}}}}
    mine = owners(new)["kubectl-create"]
    assert mine["f:metadata"] == {"f:labels": {}}
    assert "f:args" not in mine["f:spec"]["f:containers"]['k:{"name":"c"}']


def test_one_manager_has_one_entry_with_the_time_of_its_last_change() -> None:
    old = made()
    new = copied(old)
    new["metadata"]["labels"]["x"] = "y"
    track(old, new, POD, "kubectl-create", "Update", T2, "")
    (entry,) = new["metadata"]["managedFields"]
    assert entry["time"] == T2
    assert entry["fieldsV1"]["f:metadata"] == {"f:labels": {".": {}, "f:a": {}, "f:x": {}}}


def test_a_write_that_changes_nothing_is_not_recorded() -> None:
    old = made()
    new = copied(old)
    track(old, new, POD, "other", "Update", T2, "")
    assert new == old


def test_a_status_write_has_a_separate_entry() -> None:
    old = made()
    new = copied(old)
    new["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    new["spec"]["nodeName"] = "ignored"
    track(old, new, POD, "kubelet", "Update", T2, "status")
    entry = next(element for element in new["metadata"]["managedFields"] if element["manager"] == "kubelet")
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {
        "f:status": {
            "f:phase": {},
            "f:conditions": {".": {}, 'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}}},
        }
    }


def test_one_empty_entry_resets_and_an_empty_list_does_not() -> None:
    old = made()
    new = copied(old)
    new["metadata"]["managedFields"] = []
    track(old, new, POD, "other", "Update", T2, "")
    assert owners(new) == owners(old)
    new["metadata"]["managedFields"] = [{}]
    track(old, new, POD, "other", "Update", T2, "")
    assert "managedFields" not in new["metadata"]


def test_an_untracked_object_stays_untracked_until_the_first_apply() -> None:
    old = pod()
    new = copied(old)
    new["metadata"]["labels"]["x"] = "y"
    track(old, new, POD, "other", "Update", T2, "")
    assert "managedFields" not in new["metadata"]
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"q": "r"}}}
    after = apply(new, config, POD, "me", False, "v1", T2)
    assert sorted(owners(after)) == ["before-first-apply", "me"]


def test_malformed_entries_from_a_client_are_ignored() -> None:
    old = made()
    for nonsense in ("x", [1], [{"operation": "Update", "fieldsV1": {"bad": {}}}], [{"operation": "Write"}]):
        new = copied(old)
        new["metadata"]["managedFields"] = nonsense
        track(old, new, POD, "other", "Update", T2, "")
        assert owners(new) == owners(old)


def test_an_update_takes_fields_from_an_applier() -> None:
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"q": "r"}}}
    old = apply(None, config, POD, "me", False, "v1", T1)
    new = copied(old)
    new["metadata"]["labels"]["q"] = "s"
    track(old, new, POD, "other", "Update", T2, "")
    assert owners(new) == {"other": {"f:metadata": {"f:labels": {"f:q": {}}}}}


def test_many_updaters_are_merged_into_ancient_changes() -> None:
    obj = made()
    for at in range(14):
        new = copied(obj)
        new["metadata"]["labels"][f"l{at}"] = "v"
        track(obj, new, POD, f"m{at:02}", "Update", f"2026-01-01T00:01:{at:02}Z", "")
        obj = new
    entries = obj["metadata"]["managedFields"]
    assert len(entries) == 10
    assert entries[0]["manager"] == "ancient-changes"
    assert "f:spec" in entries[0]["fieldsV1"]
    owned = [
        key for entry in entries for key in entry["fieldsV1"].get("f:metadata", {}).get("f:labels", {}) if key != "."
    ]
    assert sorted(owned) == sorted(["f:a", *(f"f:l{at}" for at in range(14))])
