"""Strategic merge patches: merge keys, directives, order, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant.drivers.kube.manifests.openapi import kind_of
from cotenant.drivers.kube.manifests.strategic import strategic_merge

POD = kind_of("", "v1", "Pod")
DEPLOYMENT = kind_of("apps", "v1", "Deployment")


def merged(spec: Manifest, patch: Manifest) -> Any:
    return strategic_merge({"spec": spec}, {"spec": patch}, POD)["spec"]


def named(*names: str, **fields: Any) -> list[Manifest]:
    return [{"name": name, **fields} for name in names]


def names(items: list[Manifest]) -> list[str]:
    return [entry["name"] for entry in items]


def test_containers_merge_by_name_and_new_ones_are_added() -> None:
    spec = {"containers": [{"name": "a", "image": "1", "args": ["x", "y"]}]}
    patch = {"containers": [{"name": "a", "args": ["z"]}, {"name": "b", "image": "2"}]}
    assert merged(spec, patch)["containers"] == [
        {"name": "a", "image": "1", "args": ["z"]},
        {"name": "b", "image": "2"},
    ]


def test_null_removes_a_field() -> None:
    assert merged({"nodeName": "n", "priority": 1}, {"nodeName": None, "hostname": None}) == {"priority": 1}


def test_a_list_element_is_deleted_by_its_key() -> None:
    assert names(
        merged({"containers": named("a", "b")}, {"containers": [{"name": "a", "$patch": "delete"}]})["containers"]
    ) == ["b"]


def test_a_list_or_map_is_replaced() -> None:
    assert merged({"containers": named("a", "b")}, {"containers": [{"$patch": "replace"}, {"name": "c"}]})[
        "containers"
    ] == named("c")
    assert merged({"securityContext": {"runAsUser": 1}}, {"securityContext": {"$patch": "replace", "fsGroup": 2}}) == {
        "securityContext": {"fsGroup": 2}
    }


def test_a_map_is_deleted() -> None:
    assert merged({"securityContext": {"runAsUser": 1}}, {"securityContext": {"$patch": "delete"}}) == {
        "securityContext": {}
    }
    assert merged({}, {"securityContext": {"$patch": "delete"}}) == {}


def test_an_atomic_list_is_replaced() -> None:
    assert merged({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}) == {"tolerations": [{"key": "b"}]}


def test_primitive_lists_are_merged_and_elements_deleted() -> None:
    live = {"metadata": {"finalizers": ["a", "b"]}}
    assert strategic_merge(live, {"metadata": {"finalizers": ["c", "a"]}}, POD)["metadata"]["finalizers"] == [
        "a",
        "b",
        "c",
    ]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert strategic_merge(live, patch, POD)["metadata"]["finalizers"] == ["b", "c"]


def test_set_element_order_keeps_unnamed_elements_in_place() -> None:
    patch = {"$setElementOrder/containers": named("c", "a"), "containers": named("a", image="new")}
    result = merged({"containers": named("a", "b", "c")}, patch)
    assert names(result["containers"]) == ["c", "a", "b"]
    assert result["containers"][1]["image"] == "new"
    only = merged({"containers": named("a", "b")}, {"$setElementOrder/containers": named("b", "a")})
    assert names(only["containers"]) == ["b", "a"]


def test_retain_keys_drops_the_others() -> None:
    live = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic_merge(live, patch, DEPLOYMENT)["spec"]["strategy"] == {"type": "Recreate"}
    volumes = [{"name": "v", "emptyDir": {}}]
    patch = {"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/x"}}]}
    assert merged({"volumes": volumes}, patch)["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


def test_ports_with_one_number_are_merged_by_number_only() -> None:
    live = {"containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": "UDP"}]}]}
    patch = {"containers": [{"name": "a", "ports": [{"containerPort": 53, "name": "dns"}]}]}
    assert merged(live, patch)["containers"][0]["ports"] == [{"containerPort": 53, "protocol": "UDP", "name": "dns"}]


@pytest.mark.parametrize(
    ("patch", "code", "words"),
    [
        ({"containers": [{"image": "x"}]}, 422, "does not contain declared merge key: name"),
        ({"containers": ["x"]}, 400, "expected a list of objects"),
        ({"securityContext": {"$patch": "explode"}}, 400, "unknown patch type: explode"),
        ({"$setElementOrder/containers": "a"}, 400, "it must be a list"),
        ({"$invented": 1}, 400, "invalid directive"),
    ],
)
def test_malformed_patches_are_refused(patch: Manifest, code: int, words: str) -> None:
    with pytest.raises(ApiError, match=words) as refused:
        merged({"containers": named("a")}, patch)
    assert refused.value.code == code


def test_the_patch_is_not_modified() -> None:
    patch = {"spec": {"containers": named("a", args=["1"])}}
    result = strategic_merge({"spec": {}}, patch, POD)
    result["spec"]["containers"][0]["args"].append("2")
    assert patch == {"spec": {"containers": named("a", args=["1"])}}
