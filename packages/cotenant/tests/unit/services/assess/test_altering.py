"""Changes of a copy, object by object: what is there afterwards, what waits, and what is gone for good."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes.cluster.assessed import node, pod, replica_set, snapshot

from cotenant.model.assess.what_if import (
    AddNodes,
    Change,
    LoseZone,
    NoOvercommit,
    PlaceAnew,
    RemoveNodes,
    ResizeCase,
    ScaledLoad,
    WhatIfChanges,
)
from cotenant.model.errors import InvalidInput
from cotenant.services.assess.what_ifs.altering import NO_CONTROLLER, NODES, PODS, Altered, altered

Obj = dict[str, Any]
ZONE, TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"
DAEMON = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "log", "uid": "ds", "controller": True}]


def of_zone(name: str, zone: str, kind: str = "m5") -> Obj:
    return node(name, **{ZONE: zone, TYPE: kind})


def daemon(name: str, on: str) -> Obj:
    made = pod(name, on, "100m", "64Mi")
    made["metadata"]["ownerReferences"] = DAEMON
    return made


def bare(name: str, on: str = "") -> Obj:
    made = pod(name, on)
    del made["metadata"]["ownerReferences"]
    return made


WORLD = [
    *(of_zone(name, zone) for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"))),
    *(pod(f"w{i}", on) for i, on in enumerate(("a1", "a1", "a2", "b1"))),
    daemon("log-a1", "a1"),
    daemon("log-b1", "b1"),
    bare("lone", "a1"),
    replica_set(4),
]


def what_if(*changes: Change, objects: list[Obj] | None = None, seed: int = 1) -> Altered:
    return altered(snapshot(WORLD if objects is None else objects), WhatIfChanges("test", changes), seed)


def read(found: Altered, kind: str) -> dict[str, Obj]:
    objects = [json.loads(line) for line in found.snapshot.objects[kind]]
    assert len({one["metadata"]["name"] for one in objects}) == len(objects)
    return {one["metadata"]["name"]: one for one in objects}


def places(found: Altered) -> dict[str, str]:
    return {name: one["spec"].get("nodeName", "") for name, one in read(found, PODS).items()}


def waiting(found: Altered) -> set[str]:
    return {name for name, on in places(found).items() if not on}


def test_without_a_change_the_copy_is_the_same() -> None:
    given = snapshot(WORLD)
    found = altered(given, WhatIfChanges("nothing", ()), 1)
    assert found.snapshot is given
    assert not found.is_changed
    assert what_if(NoOvercommit()).is_changed is False  # nothing is lent here


def test_new_nodes_are_like_those_of_their_type_over_the_zones_in_turn_with_their_daemons() -> None:
    found = what_if(AddNodes(3, "m5"))
    nodes = read(found, NODES)
    assert set(nodes) == {"a1", "a2", "b1", "what-if-1", "what-if-2", "what-if-3"}
    new = [nodes[f"what-if-{number}"]["metadata"]["labels"] for number in (1, 2, 3)]
    assert [labels[ZONE] for labels in new] == ["a", "b", "a"]
    assert [labels["kubernetes.io/hostname"] for labels in new] == ["what-if-1", "what-if-2", "what-if-3"]
    on = places(found)
    assert {name: on[name] for name in on if name.startswith("log-")} == {
        "log-a1": "a1",
        "log-b1": "b1",
        "log-a1-what-if-1": "what-if-1",
        "log-b1-what-if-2": "what-if-2",
        "log-a1-what-if-3": "what-if-3",
    }
    assert found.source == {
        "shop/log-a1-what-if-1": "shop/log-a1",
        "shop/log-b1-what-if-2": "shop/log-b1",
        "shop/log-a1-what-if-3": "shop/log-a1",
    }
    assert (found.anew, found.lost, found.is_changed) == (frozenset(), {}, True)


def test_new_nodes_of_a_size_that_none_has() -> None:
    found = what_if(AddNodes(1, "4x8Gi"))
    new = read(found, NODES)["what-if-1"]
    assert (new["status"]["allocatable"]["cpu"], new["status"]["allocatable"]["memory"]) == ("4", str(8 << 30))
    assert TYPE not in new["metadata"]["labels"]
    with pytest.raises(
        InvalidInput, match=r"an instance type or a node that is there, or CPUxMEMORY; instance types: m5"
    ):
        what_if(AddNodes(1, "c7"))


def test_removed_nodes_leave_their_pods_waiting_but_for_what_belongs_to_the_node() -> None:
    found = what_if(RemoveNodes(1, "a1"))
    assert set(read(found, NODES)) == {"a2", "b1"}
    assert waiting(found) == {"w0", "w1"}
    assert found.anew == {"shop/w0", "shop/w1"}
    assert found.lost == {"shop/lone": NO_CONTROLLER}
    assert set(places(found)) == {"w0", "w1", "w2", "w3", "log-b1"}
    w0 = read(found, PODS)["w0"]
    assert w0["status"]["phase"] == "Pending"


def test_nodes_that_were_added_go_first() -> None:
    found = what_if(AddNodes(2, "m5"), RemoveNodes(1, "m5"))
    assert set(read(found, NODES)) == {"a1", "a2", "b1", "what-if-1"}
    assert "log-b1-what-if-2" not in places(found)
    found = what_if(AddNodes(1, "m5"), RemoveNodes(2, "m5"))
    assert len(read(found, NODES)) == 2
    assert "what-if-1" not in read(found, NODES)
    drawn = {frozenset(read(what_if(RemoveNodes(1, "m5"), seed=seed), NODES)) for seed in range(12)}
    assert len(drawn) == 3  # any of them, by the seed
    with pytest.raises(InvalidInput, match="nodes that are there: 3 match"):
        what_if(RemoveNodes(4, "m5"))


def test_a_lost_zone_takes_all_its_nodes() -> None:
    found = what_if(LoseZone("a"))
    assert set(read(found, NODES)) == {"b1"}
    assert waiting(found) == {"w0", "w1", "w2"}
    with pytest.raises(InvalidInput, match="zone-lost: c: expected a zone of a node; a, b"):
        what_if(LoseZone("c"))
    with pytest.raises(InvalidInput, match="no node has a zone"):
        what_if(LoseZone("a"), objects=[node("x")])


def test_objects_of_a_lost_node_are_gone_and_those_of_a_new_one_are_copies() -> None:
    csi = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "a1"},
        "spec": {"drivers": [{"name": "d", "nodeID": "x", "allocatable": {"count": 3}}]},
    }
    kind = "storage.k8s.io/v1/csinodes"
    found = what_if(AddNodes(1, "m5"), objects=[*WORLD, csi])
    assert set(read(found, kind)) == {"a1", "what-if-1"}
    assert read(found, kind)["what-if-1"]["spec"] == read(found, kind)["a1"]["spec"]
    assert set(read(what_if(RemoveNodes(1, "a1"), objects=[*WORLD, csi]), kind)) == set()
    assert set(read(what_if(RemoveNodes(1, "b1"), objects=[*WORLD, csi]), kind)) == {"a1"}


def test_nothing_is_lent_any_more_and_who_asked_for_it_waits() -> None:
    lending = node("a1")
    for part in ("allocatable", "capacity"):
        lending["status"][part] = {**lending["status"][part], "kubernetes.io/batch-cpu": "4000"}
    resources = {"requests": {"kubernetes.io/batch-cpu": "1000"}, "limits": {"kubernetes.io/batch-cpu": "1000"}}
    batch = pod("batch", "a1", containers=[{"name": "main", "resources": resources}])
    found = what_if(NoOvercommit(), objects=[lending, batch, pod("w0", "a1")])
    assert "kubernetes.io/batch-cpu" not in read(found, NODES)["a1"]["status"]["allocatable"]
    assert (waiting(found), found.anew) == ({"batch"}, {"shop/batch"})


@pytest.mark.parametrize(("factor", "pods"), [(1.0, 4), (2.0, 8), (1.25, 5), (0.5, 2), (0.0, 0)])
def test_load_is_as_many_times_the_pods_of_each_controller(factor: float, pods: int) -> None:
    objects = [one for one in WORLD if one["metadata"]["name"] != "lone"]
    found = what_if(ScaledLoad(factor), objects=objects)
    of_web = {name for name in places(found) if name.startswith("w")}
    assert len(of_web) == pods
    new = {f"shop/{name}" for name in of_web if "what-if" in name}
    assert found.anew == new == set(found.source)
    assert set(found.source.values()) <= {f"shop/w{i}" for i in range(4)}
    assert {"log-a1", "log-b1"} <= set(places(found))  # daemons are as many as nodes


def test_a_part_of_a_pod_is_one_with_that_probability() -> None:
    counts = [
        sum(
            "what-if" in name
            for name in places(what_if(ScaledLoad(1.3), objects=[node("n"), bare("lone", "n")], seed=seed))
        )
        for seed in range(60)
    ]
    assert set(counts) == {0, 1}
    assert 8 <= sum(counts) <= 28  # of 60, three in ten


@pytest.mark.parametrize("name", ["shop/web", "shop/Deployment/web", "shop/web-rs", "shop/ReplicaSet/web-rs"])
def test_a_workload_is_resized_by_any_name_of_its_controllers(name: str) -> None:
    found = what_if(ResizeCase(name, 2500, None))
    assert waiting(found) == {"w0", "w1", "w2", "w3"}
    for one in (read(found, PODS)[name] for name in ("w0", "w3")):
        assert one["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2500m", "memory": "1Gi"}
    assert what_if(ResizeCase(name, 1000, 1 << 30)).is_changed is False  # what it requests already


def test_a_pod_without_a_controller_and_a_daemon_are_resized_too() -> None:
    assert waiting(what_if(ResizeCase("shop/Pod/lone", None, 2 << 30))) == {"lone"}
    found = what_if(ResizeCase("shop/log", 200, None))
    assert waiting(found) == set()
    assert found.notes == (
        "shop/log-a1 stays on its node with its new size",
        "shop/log-b1 stays on its node with its new size",
    )
    with pytest.raises(InvalidInput, match="of a workload with pods; near it: shop/web"):
        what_if(ResizeCase("shop/wep", 1, None))


def test_all_that_may_move_is_placed_anew_in_an_order_of_the_seed() -> None:
    found = what_if(PlaceAnew("least-allocated"))
    assert found.profile == "least-allocated"
    assert waiting(found) == {"w0", "w1", "w2", "w3", "lone"}
    orders = {
        tuple(name for name in places(what_if(PlaceAnew("p"), seed=seed)) if not name.startswith("log"))
        for seed in range(8)
    }
    assert len(orders) > 2
    finished = pod("done", "a1")
    finished["status"]["phase"] = "Succeeded"
    assert "done" not in waiting(what_if(PlaceAnew("p"), objects=[*WORLD, finished]))


def test_a_pod_that_waited_before_is_not_created_again() -> None:
    found = what_if(PlaceAnew("p"), objects=[node("n"), pod("w0", "n"), pod("w1")])
    assert found.anew == {"shop/w0"}
