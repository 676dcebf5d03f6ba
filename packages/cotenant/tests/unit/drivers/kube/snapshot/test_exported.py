"""Files of kubectl get -o json as a copy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cotenant.drivers.kube.snapshot.exported import read_exported
from cotenant.drivers.kube.snapshot.snapshot import KindReading
from cotenant.model.errors import InvalidInput

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}}


def file(tmp_path: Path, content: Any, name: str = "a.json") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(content))
    return path


def test_lists_of_one_kind_of_several_and_single_objects(tmp_path: Path) -> None:
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n0"}}]}
    several = {"apiVersion": "v1", "kind": "List", "items": [NODE, POD]}
    found = read_exported([file(tmp_path, nodes), file(tmp_path, several, "b.json"), file(tmp_path, POD, "c.json")])
    assert (found.count("v1/nodes"), found.count("v1/pods")) == (2, 1)
    reading = {kind.key: kind.reading for kind in found.kinds}
    assert reading["v1/nodes"] is KindReading.READ
    assert reading["batch/v1/jobs"] is KindReading.UNASKED
    assert not found.lacking


def test_other_kinds_are_named_and_nothing_of_them_is_kept(tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "hunter2"}}
    found = read_exported([file(tmp_path, {"kind": "List", "items": [NODE, secret, secret]})])
    assert found.notes == ("left out of the files: 2 Secret",)
    assert "hunter2" not in repr(found)


def test_entries_that_are_no_objects_are_named_with_the_kind_of_their_list(tmp_path: Path) -> None:
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n0"}}, None, "x", [], {}]}
    pods = {"apiVersion": "v1", "kind": "List", "items": [POD, {**POD, "metadata": {}}, 7, {"metadata": {"name": "a"}}]}
    found = read_exported([file(tmp_path, nodes), file(tmp_path, pods, "b.json")])
    assert {kind.key: kind.lack for kind in found.lacking} == {
        "v1/nodes": "4 entries were no objects with a name",
        "v1/pods": "1 entry was no object with a name",
    }
    assert found.notes == ("left out of the files: 2 without a kind",)


@pytest.mark.parametrize(
    "content", [[], 3, None, {"items": 3}, {"items": [{"items": [{"items": [{"items": [{}]}]}]}]}, POD]
)
def test_without_nodes_it_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(InvalidInput, match="nodes among the objects"):
        read_exported([file(tmp_path, content)])


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\xff{")
    with pytest.raises(InvalidInput, match="kubectl get"):
        read_exported([path])
