"""Composite groups: what a tree asks of the gangs at its leaves."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.model.groups.gang import (
    K8S_GROUP,
    CompositeGroup,
    Disruption,
    GangMode,
    GangNotes,
    GangTopology,
    PodGroup,
    PodGroupStatus,
)
from cotenant.policy.placement.gangs.composites import GroupTree

RACK = GangTopology(("rack",), True)


def leaf(name: str, parent: str, created_s: float = 0.0, workload: str = "w", **more: Any) -> PodGroup:
    key = f"ml/{name}"
    notes = GangNotes(topology=more.pop("topology", None), mode=GangMode.STRICT)
    status = PodGroupStatus(key, name, api_group=K8S_GROUP)
    return PodGroup(
        key,
        name,
        created_s,
        2,
        None,
        notes,
        status,
        api_group=K8S_GROUP,
        parent=f"ml/{parent}",
        workload=workload,
        **more,
    )


def above(name: str, min_groups: int | None, parent: str = "", created_s: float = 0.0, **more: Any) -> CompositeGroup:
    parent = f"ml/{parent}" if parent else ""
    return CompositeGroup(f"ml/{name}", name, created_s, "v1alpha3", min_groups, parent, **{"workload": "w", **more})


def resolved(leaves: list[PodGroup], composites: list[CompositeGroup]) -> dict[str, PodGroup]:
    tree = GroupTree({one.key: one for one in leaves}, {one.key: one for one in composites})
    return {one.uid: one for one in tree.resolved()}


def groups(found: PodGroup) -> set[str]:
    return {one.partition("/")[2] for one in found.notes.groups}


def test_the_oldest_children_of_a_gang_are_one_bundle_and_others_need_it() -> None:
    leaves = [leaf("a", "top", 2.0), leaf("b", "top", 1.0), leaf("c", "top", 3.0)]
    found = resolved(leaves, [above("top", 2)])
    assert {name: groups(one) for name, one in found.items()} == {
        "a": {"a", "b"},
        "b": {"a", "b"},
        "c": {"a", "b", "c"},
    }
    assert not any(one.obstacle for one in found.values())


def test_too_few_children_are_an_obstacle() -> None:
    found = resolved([leaf("a", "top")], [above("top", 2)])
    assert found["a"].obstacle == "CompositePodGroup ml/top has 1 of 2 child groups"


def test_with_the_basic_policy_children_are_independent() -> None:
    found = resolved([leaf("a", "top"), leaf("b", "top")], [above("top", None)])
    assert not any(one.notes.groups or one.obstacle for one in found.values())


def test_nested_gangs() -> None:
    composites = [above("top", 2), above("x", 1, "top"), above("y", 2, "top")]
    leaves = [leaf("x1", "x", 1.0), leaf("x2", "x", 2.0), leaf("y1", "y"), leaf("y2", "y")]
    found = resolved(leaves, composites)
    core = {"x1", "y1", "y2"}
    assert [groups(found[name]) for name in ("x1", "y1", "y2", "x2")] == [core, core, core, core | {"x2"}]


@pytest.mark.parametrize(
    ("composites", "why"),
    [
        ([], "CompositePodGroup ml/top, which it or a group above it names as parent, does not exist"),
        ([above("top", 1, "b"), above("b", 1, "top")], "CompositePodGroup ml/top is above itself"),
        ([above("top", 1, "b"), above("b", 1, "c"), above("c", 1, "d"), above("d", 1)], "more than 4 levels of groups"),
        ([above("top", 1, workload="v")], "the groups below CompositePodGroup ml/top are of several Workloads: v, w"),
    ],
)
def test_a_tree_that_is_invalid_is_not_placed(composites: list[CompositeGroup], why: str) -> None:
    assert resolved([leaf("a", "top")], composites)["a"].obstacle == why


def test_disruption_priority_and_preemption_come_from_above() -> None:
    top = above("top", None, all_together=True, priority=9, preempts=False)
    found = resolved([leaf("a", "x"), leaf("b", "top")], [top, above("x", None, "top")])
    for one in found.values():
        assert (one.disruption, set(one.disrupted_with)) == (Disruption.ALL, {"ml/a", "ml/b"})
        assert (one.priority, one.preempts) == (9, False)


def test_a_topology_key_of_a_composite_gang_counts_for_all_below() -> None:
    found = resolved([leaf("a", "top"), leaf("b", "top")], [above("top", 2, topology_key="rack")])
    assert {one.notes.topology for one in found.values()} == {RACK}


def test_a_group_below_keeps_its_own_key() -> None:
    leaves = [leaf("a", "top", topology=RACK), leaf("b", "top")]
    for block, bundle in (("block", GangTopology(("block",), True)), ("", None)):
        found = resolved(leaves, [above("top", 2, topology_key=block)])
        assert {name: (one.notes.topology, one.inner_key) for name, one in found.items()} == {
            "a": (bundle, "rack"),
            "b": (bundle, ""),
        }


@pytest.mark.parametrize(
    ("composites", "why"),
    [
        ([above("top", 1, "x", topology_key="rack"), above("x", 1, topology_key="block")], "on several levels"),
        ([above("top", None, topology_key="block")], "with the basic policy is not supported"),
    ],
)
def test_a_topology_that_is_not_supported_is_named(composites: list[CompositeGroup], why: str) -> None:
    assert why in resolved([leaf("a", "top")], composites)["a"].obstacle


def test_a_key_of_a_group_that_is_placed_alone_counts() -> None:
    (found,) = resolved([leaf("a", "top", topology=RACK)], [above("top", 1)]).values()
    assert (found.notes.topology, found.inner_key, found.obstacle) == (RACK, "", "")
