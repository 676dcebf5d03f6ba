"""What goes to extenders, and what of their answers is believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cotenant.drivers.extender import wire
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.taints import Taint, TaintEffect
from cotenant.model.errors import Permanent
from cotenant.model.resources import Amounts

POD = b'{"metadata": {"name": "p"}}'
ASKED = ("a", "b")


def told(document: Any) -> bytes:
    return json.dumps(document).encode()


def test_names_or_nodes_are_sent() -> None:
    names = json.loads(wire.arguments(POD, ASKED, None))
    assert names == {"Pod": {"metadata": {"name": "p"}}, "Nodes": None, "NodeNames": ["a", "b"]}
    node = Node(
        "a",
        Amounts.of({"cpu": 1500, "memory": 2 << 30, "pods": 5, "example.com/card": 2}),
        Labels.of({"zone": "z"}),
        (Taint("t", "v", TaintEffect.NO_SCHEDULE),),
        unschedulable=True,
    )
    nodes = json.loads(wire.arguments(POD, ASKED, (node,)))
    assert nodes["NodeNames"] is None
    (item,) = nodes["Nodes"]["items"]
    assert item["metadata"] == {"name": "a", "labels": {"zone": "z"}}
    assert item["spec"] == {"taints": [{"key": "t", "value": "v", "effect": "NoSchedule"}], "unschedulable": True}
    assert item["status"]["allocatable"] == {"cpu": "1500m", "memory": "2Gi", "pods": "5", "example.com/card": "2"}


@pytest.mark.parametrize(
    ("answer", "nodes", "refused"),
    [
        ({"NodeNames": ["b"], "FailedNodes": {"a": "full"}}, ("b",), {"a": "full"}),
        ({"nodenames": ["b", "b"], "failedNodes": None}, ("b",), {}),
        ({"Nodes": {"items": [{"metadata": {"name": "a"}}]}}, ("a",), {}),
        ({"nodes": {"Items": [{"Metadata": {"Name": "a"}}]}}, ("a",), {}),
        ({"NodeNames": [], "FailedAndUnresolvableNodes": {"b": "never"}}, (), {"b": "never"}),
        ({}, (), {}),
        ({"NodeNames": ["a"], "FailedNodes": {"zzz": "unknown"}}, ("a",), {}),
    ],
)
def test_what_a_filter_leaves(answer: Any, nodes: tuple[str, ...], refused: dict[str, str]) -> None:
    assert wire.read_filtered(told(answer), ASKED) == (nodes, refused)


@pytest.mark.parametrize(
    "answer",
    [
        {"Error": "no"},
        {"NodeNames": ["c"]},
        {"NodeNames": "a"},
        {"NodeNames": [1]},
        {"Nodes": {"items": [{}]}},
        {"Nodes": {"items": ["a"]}},
        [],
        None,
        3,
    ],
)
def test_a_filter_that_lies_is_refused(answer: Any) -> None:
    with pytest.raises(Permanent):
        wire.read_filtered(told(answer), ASKED)


def test_scores() -> None:
    given = [{"Host": "a", "Score": 10}, {"host": "b"}]
    assert wire.read_scores(told(given), ASKED) == {"a": 10, "b": 0}
    assert wire.read_scores(b"null", ASKED) == {}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [{"Host": "c", "Score": 1}],
        [{"Host": "a", "Score": 11}],
        [{"Host": "a", "Score": -1}],
        [{"Host": "a", "Score": 1.5}],
        [{"Host": "a", "Score": True}],
        [{"Score": 1}],
        ["a"],
    ],
)
def test_scores_that_lie_are_refused(answer: Any) -> None:
    with pytest.raises(Permanent):
        wire.read_scores(told(answer), ASKED)


def test_victims_by_uid_and_as_pods() -> None:
    by_uid = json.loads(wire.preemption(POD, "a", {"u1": b""}, 2, by_uid=True))
    assert by_uid["NodeNameToMetaVictims"] == {"a": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 2}}
    as_pods = json.loads(wire.preemption(POD, "a", {"u1": b'{"x": 1}'}, 0, by_uid=False))
    assert as_pods["NodeNameToVictims"] == {"a": {"Pods": [{"x": 1}], "NumPDBViolations": 0}}


def test_what_is_read_of_victims() -> None:
    answer = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u1"}, {"uid": "u2"}], "NumPDBViolations": 0}}}
    assert wire.read_victims(told(answer), "a") == ("u1", "u2")
    assert wire.read_victims(told({"nodeNameToMetaVictims": {}}), "a") is None
    assert wire.read_victims(told({}), "a") is None
    for lie in ({"b": {"Pods": []}}, {"a": {"Pods": [{}]}}, ["a"]):
        with pytest.raises(Permanent):
            wire.read_victims(told({"NodeNameToMetaVictims": lie}), "a")


def test_binding() -> None:
    sent = json.loads(wire.binding("ns", "p", "u", "a"))
    assert sent == {"PodName": "p", "PodNamespace": "ns", "PodUID": "u", "Node": "a"}
    wire.check_bound(told({"Error": ""}))
    with pytest.raises(Permanent, match="taken"):
        wire.check_bound(told({"Error": "taken"}))
