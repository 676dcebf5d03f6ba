"""The nodes of a request as rows: each name once, lists and texts remembered, nodes read again where they changed."""

from __future__ import annotations

import json
from typing import Any, cast

import numpy as np
import pytest

from cotenant.model.cluster.node import Node
from cotenant.model.errors import InvalidInput
from cotenant.services.extender.mirror import UNKNOWN, Mirror
from cotenant.services.extender.request_nodes import NodeListReader


class Rows:
    """A mirror of nodes, by what it is told of them."""

    def __init__(self, *names: str) -> None:
        self.rows = {name: row for row, name in enumerate(names)}
        self.generation = 0
        self.learned: list[str] = []
        self.unusable: list[str] = []
        self.forgotten: list[int] = []

    def forget_unused(self, count: int) -> None:
        self.forgotten.append(count)

    def node_in_request(self, node: Node) -> None:
        self.learned.append(node.name)
        self.rows.setdefault(node.name, len(self.rows))
        self.generation += 1

    def knows(self, name: str) -> bool | None:
        return True if name in self.rows else None

    def node_unusable(self, name: str, why: str) -> None:
        self.unusable.append(name)


def reader(rows: Rows) -> NodeListReader:
    return NodeListReader(cast(Mirror, rows))


def names(*given: str) -> bytes:
    return json.dumps(given).encode()


def test_rows_follow_the_names_and_each_name_is_kept_once() -> None:
    rows = Rows("a", "b", "c")
    found = reader(rows).by_name(names("c", "x", "a"))
    assert (list(found.names), found.rows.tolist(), found.items) == (["c", "x", "a"], [2, UNKNOWN, 0], None)
    assert found.raw == names("c", "x", "a")
    twice = reader(rows).by_name(names("c", "a", "c"))
    assert (list(twice.names), twice.rows.tolist(), twice.raw) == (["c", "a"], [2, 0], b"")
    assert reader(rows).by_name(names()).rows.tolist() == []


def test_the_last_four_lists_are_remembered() -> None:
    read = reader(Rows("a", "b", "c", "d", "e"))
    first = read.by_name(names("a"))
    for name in "bcd":
        read.by_name(names(name))
    assert read.by_name(names("a")) is first
    read.by_name(names("e"))
    assert read.by_name(names("a")) is not first
    twice = names("a", "a")
    assert read.by_name(twice) is not read.by_name(twice)


def test_rows_are_looked_up_again_once_nodes_are_numbered_anew() -> None:
    rows = Rows("a", "b")
    read = reader(rows)
    found = read.by_name(names("a", "b"))
    rows.rows = {"b": 5}
    assert read.by_name(names("a", "b")).rows.tolist() == [0, 1]
    rows.generation += 1
    assert read.by_name(names("a", "b")) is found
    assert found.rows.tolist() == [UNKNOWN, 5]


def test_a_part_of_a_list_is_known_when_it_comes_next() -> None:
    rows = Rows("a", "b", "c")
    read = reader(rows)
    part = read.subset(read.by_name(names("a", "b", "c")), np.array([2, 0]))
    assert (list(part.names), part.rows.tolist(), part.generation) == (["c", "a"], [2, 0], 0)
    assert read.by_name(json.dumps(["c", "a"], separators=(",", ":")).encode()) is part


@pytest.mark.parametrize("raw", [b"{", b"[1]", b'"a"', b"\xff"])
def test_a_list_that_cannot_be_read_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        reader(Rows()).by_name(raw)
    assert (caught.value.field, caught.value.expected) == ("NodeNames", "a list of names")
    with pytest.raises(InvalidInput) as caught:
        reader(Rows()).by_object(raw)
    assert (caught.value.field, caught.value.expected) == ("Nodes", "a v1 NodeList")


def item(name: str, version: str = "1", cpu: str = "4") -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name, "resourceVersion": version}, "status": {"allocatable": allocatable}}


def nodes(*items: dict[str, Any]) -> bytes:
    return json.dumps({"items": items}).encode()


def test_a_node_is_read_again_where_its_version_changed() -> None:
    rows = Rows()
    read = reader(rows)
    found = read.by_object(nodes(item("a"), item("b"), item("a", "2")))
    assert (list(found.names), found.raw, rows.learned) == (["a", "b"], b"", ["a", "b", "a"])
    assert found.items is not None
    assert [json.loads(bytes(one))["metadata"]["resourceVersion"] for one in found.items] == ["1", "1"]
    assert found.rows.tolist() == [0, 1]
    rows.learned.clear()
    read.by_object(nodes(item("a", "2"), item("b", "1")))
    assert rows.learned == []
    read.by_object(nodes(item("a", "3"), item("b", "")))
    assert rows.learned == ["a", "b"]  # one without a version is read each time
    del rows.rows["a"]
    rows.learned.clear()
    read.by_object(nodes(item("a", "3")))
    assert rows.learned == ["a"]
    assert rows.forgotten == [3, 2, 2, 1]


def test_a_node_without_room_is_said_and_one_that_cannot_be_read_is_unknown() -> None:
    rows = Rows("known")
    read = reader(rows)
    found = read.by_object(nodes(item("empty", cpu="0"), item("known", cpu="0"), item("odd", cpu="text")))
    assert (rows.unusable, rows.learned) == (["empty"], [])
    assert found.rows.tolist() == [UNKNOWN, 0, UNKNOWN]


def test_a_node_has_a_name() -> None:
    with pytest.raises(InvalidInput, match="nodes with names"):
        reader(Rows()).by_object(nodes(item("a"), item("")))
    assert reader(Rows()).by_object(b'{"items": null}').rows.tolist() == []


def test_scores_begin_with_their_host() -> None:
    read = reader(Rows("a"))
    found = read.by_name(names("a", 'q"'))
    assert read.starts(found) == [b'{"Host":"a","Score":', b'{"Host":"q\\"","Score":']
    assert read.starts(found) is found.starts
    again = read.by_name(names('q"', "a"))
    assert read.starts(again) == [b'{"Host":"q\\"","Score":', b'{"Host":"a","Score":']
