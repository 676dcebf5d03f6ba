"""JSON patches, JSON merge patches, and decoding of their bodies."""

from __future__ import annotations

import msgspec
import pytest

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.patching import json_patch, merge_patch, read_document
from cotenant_local.apiserver.patching.jsonpatch import MAX_OPERATIONS, MAX_SHIFTED


def test_operations_apply_in_order() -> None:
    live: Manifest = {"metadata": {"labels": {"a": "b"}}, "spec": {"list": [1, 2]}}
    body = msgspec.json.encode(
        [
            {"op": "test", "path": "/spec/list/0", "value": 1},
            {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"},
            {"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/z"},
            {"op": "copy", "from": "/spec/list", "path": "/spec/again"},
            {"op": "add", "path": "/spec/list/-", "value": 3},
        ]
    )
    assert json_patch(live, body) == {
        "metadata": {"labels": {"a/b": "c", "z": "b"}},
        "spec": {"list": [1, 2, 3], "again": [1, 2]},
    }


def test_adding_below_an_absent_map_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        json_patch({"metadata": {}}, b'[{"op":"add","path":"/metadata/annotations/x","value":"y"}]')
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert refused.value.message == "the server rejected our request due to an error in our request"
    assert refused.value.causes


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", 400),
        (b'{"op":"add"}', 400),
        (b'["x"]', 400),
        (b'[{"op":"explode","path":"/a"}]', 422),
        (b'[{"op":"remove","path":"/absent"}]', 422),
        (b'[{"op":"test","path":"/a","value":2}]', 422),
        (b'[{"op":"replace","path":"/absent/b","value":2}]', 422),
        (b'[{"op":"copy","path":"/b"}]', 422),
        (b'[{"op":"replace","path":"","value":3}]', 400),
    ],
)
def test_patches_that_do_not_apply_are_refused(body: bytes, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        json_patch({"a": 1}, body)
    assert refused.value.code == code


def test_too_many_operations_are_refused() -> None:
    with pytest.raises(ApiError, match="allowed maximum operations") as refused:
        json_patch({}, [{"op": "test", "path": "/a", "value": 1}] * (MAX_OPERATIONS + 1))
    assert refused.value.code == 413


def test_a_value_becomes_part_of_the_object_without_a_copy() -> None:
    value: list[Manifest] = [{}]
    assert json_patch({}, [{"op": "add", "path": "/a", "value": value}])["a"] is value


def test_a_patch_may_not_move_the_elements_of_long_lists_again_and_again() -> None:
    size = MAX_SHIFTED // MAX_OPERATIONS + 1
    insert = {"op": "add", "path": "/a/0", "value": 1}
    live: Manifest = {"a": [0] * size}
    assert len(json_patch(live, [insert] * 100)["a"]) == size + 100
    with pytest.raises(ApiError) as refused:
        json_patch({"a": [0] * size}, [insert] * MAX_OPERATIONS)
    assert refused.value.code == 422
    assert f"more than {MAX_SHIFTED} elements" in refused.value.causes[0].message
    back = {"op": "add", "path": "/a/-", "value": 1}
    assert len(json_patch({"a": [0] * size}, [back] * MAX_OPERATIONS)["a"]) == size + MAX_OPERATIONS


def test_merge_patches_merge_maps_remove_nulls_and_replace_other_values() -> None:
    live: Manifest = {"a": {"b": 1, "c": 2}, "d": [1, 2], "e": 1}
    assert merge_patch(live, b'{"a":{"b":null,"x":{"y":null,"z":1}},"d":[3],"e":{"f":1}}') == {
        "a": {"c": 2, "x": {"z": 1}},
        "d": [3],
        "e": {"f": 1},
    }
    with pytest.raises(ApiError, match="cannot unmarshal array"):
        merge_patch(live, b"[]")


def test_yaml_dates_stay_text_and_keys_become_text() -> None:
    assert read_document(b"at: 2026-01-01T00:00:00Z\nis: yes\n1: 2", yaml=True) == {
        "at": "2026-01-01T00:00:00Z",
        "is": True,
        "1": 2,
    }


@pytest.mark.slow
def test_hostile_yaml_is_refused() -> None:
    bomb = b"a: &a [x,x,x,x,x,x,x,x,x,x]\n"
    for at in range(8):
        this, last = chr(ord("b") + at), chr(ord("a") + at)
        bomb += f"{this}: &{this} [{','.join([f'*{last}'] * 10)}]\n".encode()
    with pytest.raises(ApiError, match="excessive aliasing"):
        read_document(bomb, yaml=True)
    for body in (b"a: [", b"\xff\xfe\x00", b"!!python/object:os.system {}", b"a: &a [*a]", b"--- 1\n--- 2"):
        with pytest.raises(ApiError):
            read_document(body, yaml=True)
