"""Profiles' patches: lists merge by their keys in pods and are replaced in reservations, and a wrong one is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.reviewing.merging import checked_patch, merge_pod, merge_reservation

PATCH = json.dumps(
    {
        "metadata": {"labels": {"a": "1"}},
        "spec": {"containers": [{"name": "c", "env": [{"name": "E", "value": "new"}]}]},
    }
)


def pod() -> dict[str, Any]:
    env = [{"name": "E", "value": "old"}, {"name": "F", "value": "kept"}]
    containers = [{"name": "b", "image": "i"}, {"name": "c", "image": "j", "env": env}]
    return {"metadata": {"name": "p", "labels": {"b": "2"}}, "spec": {"containers": containers}}


def test_a_pods_lists_are_merged_by_their_keys() -> None:
    found: Any = merge_pod(pod(), PATCH)
    assert found["metadata"]["labels"] == {"a": "1", "b": "2"}
    containers = {one["name"]: one for one in found["spec"]["containers"]}
    assert containers["b"] == {"name": "b", "image": "i"}
    assert containers["c"]["image"] == "j"
    assert {one["name"]: one["value"] for one in containers["c"]["env"]} == {"E": "new", "F": "kept"}


def test_a_reservations_lists_are_replaced() -> None:
    found: Any = merge_reservation(pod(), PATCH)
    assert found["metadata"]["labels"] == {"a": "1", "b": "2"}
    assert found["spec"]["containers"] == [{"name": "c", "env": [{"name": "E", "value": "new"}]}]


def test_one_patch_may_be_applied_again_and_again() -> None:
    first: Any = merge_pod(pod(), PATCH)
    first["metadata"]["labels"]["a"] = "changed"
    second: Any = merge_pod(pod(), PATCH)
    assert second["metadata"]["labels"]["a"] == "1"
    assert checked_patch(PATCH) == json.loads(PATCH)


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ("{", "JSON"),
        ("[]", "a JSON object"),
        ("3", "a JSON object"),
        ("[" * 2000 + "]" * 2000, "JSON"),
        ('{"spec": {"containers": "c"}}', "fields with the types of a pod's"),
        ('{"metadata": {"labels": {"a": 1}}}', "fields with the types of a pod's"),
    ],
)
def test_what_is_no_patch_of_a_pod_is_refused(patch: str, expected: str) -> None:
    with pytest.raises(InvalidInput, match=expected):
        checked_patch(patch)
    with pytest.raises(InvalidInput, match=expected):
        merge_pod(pod(), patch)


def test_fields_that_are_not_known_are_left_to_the_server() -> None:
    assert checked_patch('{"spec": {"newField": 1}}') == {"spec": {"newField": 1}}


def test_a_list_without_its_key_cannot_be_merged() -> None:
    with pytest.raises(InvalidInput, match="a strategic merge patch"):
        merge_pod(pod(), '{"spec": {"containers": [{"image": "i"}]}}')
