"""Patches that ask for more work or memory than their size: bounded, and linear in their size."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes.work import Counted, is_linear, work

from cotenant.drivers.kube.manifests.document import read_document
from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.patching import strategic_merge
from cotenant_local.apiserver.patching.jsonpatch import MAX_COPIED_BYTES, json_patch
from cotenant_local.apiserver.schema.builtin import builtin_schema


def doubling(times: int) -> bytes:
    """Each operation copies all that the earlier ones made."""
    first = {"op": "add", "path": "/data", "value": {"a": "x" * 100}}
    return json.dumps(
        [first, *({"op": "copy", "from": "/data", "path": f"/data/k{at}"} for at in range(times))]
    ).encode()


def test_copies_that_double_a_value_are_refused() -> None:
    with pytest.raises(ApiError, match="rejected our request") as caught:
        json_patch({"data": {}}, doubling(28))
    assert caught.value.code == 422
    assert f"exceeding the limit {MAX_COPIED_BYTES}" in caught.value.causes[0].message


def test_copies_within_the_bound_apply() -> None:
    patched = json_patch({"data": {}}, doubling(3))
    assert patched["data"]["k2"]["k1"]["k0"] == {"a": "x" * 100}


def test_many_copies_of_a_large_value_are_refused() -> None:
    operations = [{"op": "copy", "from": "/big", "path": "/copy"}] * 100
    with pytest.raises(ApiError) as caught:
        json_patch({"big": "x" * 100_000}, operations)  # type: ignore[arg-type]
    assert caught.value.code == 422


def test_a_copy_of_nothing_does_not_apply() -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({}, [{"op": "copy", "from": "/none", "path": "/a"}])  # type: ignore[list-item]
    assert caught.value.code == 422


def containers(names: list[str], **more: Any) -> bytes:
    return json.dumps({"spec": {"containers": [{"name": name, **more} for name in names]}}).encode()


def merged_and_deleted(size: int) -> int:
    """The work of three patches of a pod with so many containers, whose names' comparisons count."""
    schema = builtin_schema("", "v1", "Pod")
    names = [f"c{at}" for at in range(size)]
    pod: Any = {"spec": {"containers": []}}

    def patch(body: bytes) -> None:
        nonlocal pod
        pod = strategic_merge(pod, body, schema)
        for entry in pod["spec"]["containers"]:
            entry["name"] = Counted(entry["name"])

    steps = work(lambda: patch(containers(names, image="a")))
    steps += work(lambda: patch(containers(names[::-1], image="b")))
    assert {entry["image"] for entry in pod["spec"]["containers"]} == {"b"}
    steps += work(lambda: patch(containers(names[1:], **{"$patch": "delete"})))
    assert [entry["name"] for entry in pod["spec"]["containers"]] == ["c0"]
    return steps


def test_a_strategic_merge_of_many_elements_is_linear_in_them() -> None:
    assert is_linear(merged_and_deleted, 200)


def test_duplicate_merge_keys_are_merged_into_the_first_and_deleted_together() -> None:
    schema = builtin_schema("", "v1", "Pod")
    pod = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}, {"name": "a", "image": "2"}]}}
    merged = strategic_merge(json.loads(json.dumps(pod)), containers(["a"], image="3"), schema)
    assert [entry.get("image") for entry in merged["spec"]["containers"]] == ["3", None, "2"]
    left = strategic_merge(merged, containers(["a"], **{"$patch": "delete"}), schema)
    assert left["spec"]["containers"] == [{"name": "b"}]


@pytest.mark.parametrize(
    "text",
    [
        b"a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + b"".join(
            b"k%d: &k%d [*%s, *%s]\n" % (at, at, before, before)
            for at, before in enumerate([b"a"] + [b"k%d" % n for n in range(25)])
        ),
        b"a: &a " + b"x" * 100_000 + b"\nb: [" + b"*a, " * 100 + b"]",
        b"a: &a [*a]",
    ],
    ids=["doubling", "long-text", "itself"],
)
def test_aliases_that_expand_are_refused(text: bytes) -> None:
    with pytest.raises(ApiError, match="yaml"):
        read_document(text, yaml=True)


def test_a_few_aliases_are_written_out() -> None:
    assert read_document(b"a: &a {x: 1}\nb: [*a, *a]", yaml=True) == {"a": {"x": 1}, "b": [{"x": 1}, {"x": 1}]}
