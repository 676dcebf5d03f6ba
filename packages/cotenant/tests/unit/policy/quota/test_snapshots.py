"""What policies of this room answer to drawn inputs, as recorded: tests/snapshot."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.snapshot.drawing import Draw, one_of
from tests.snapshot.room import Room, short

from cotenant.model.groups.quota import ROOT_QUOTA, Levels, Quota
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.quota import (
    admission,
    explain,
    forest,
    headroom,
    pods,
    preemption,
    profile,
    reclaim,
    revocation,
    runtime,
    tree,
    usable,
)
from cotenant.policy.quota.forest import Forest
from cotenant.policy.quota.tree import QuotaTree

NAMES = ("a", "b", "c", "d")
RESOURCES = ("cpu", "memory", "nvidia.com/gpu")


def amounts(draw: Draw) -> Amounts:
    """Of some resources, so small that sums meet bounds."""
    return Amounts.of({name: draw.one((0, 1, 2, 3, 4, 5, 8, 10, 20)) for name in RESOURCES if draw.below(4)})


def levels(draw: Draw) -> Levels:
    return tuple(amounts(draw))


def quota_of(draw: Draw) -> Quota:
    """Any, also one that no tree takes."""
    return Quota(
        draw.one((*NAMES, "z")),
        amounts(draw),
        amounts(draw),
        draw.one((ROOT_QUOTA, "a", "b", "z")),
        is_parent=draw.below(2) > 0,
        shared_weight=amounts(draw) if draw.below(2) else NOTHING,
        lends=draw.below(2) > 0,
        tree_id=draw.one(("", "", "t")),
        is_tree_root=draw.below(3) == 0,
        allows_force_update=draw.below(3) == 0,
        namespaces=draw.one(((), ("x",), ("n", "x"))),
    )


def members(draw: Draw) -> list[Quota]:
    """The quotas a and d, and b and c below a."""
    parents = {"a": ROOT_QUOTA, "b": "a", "c": "a", "d": ROOT_QUOTA}
    return [
        Quota(
            name,
            Amounts.of({one: draw.one((4, 8, 10, 20)) for one in RESOURCES if draw.below(5)}),
            Amounts.of({one: draw.one((0, 1, 2, 4)) for one in RESOURCES[:2] if draw.below(4)}),
            parents[name],
            is_parent=name == "a",
            shared_weight=amounts(draw) if draw.below(2) else NOTHING,
            lends=draw.below(4) > 0,
            is_tree_root=name == "a" and draw.below(4) == 0,
            allows_force_update=draw.below(4) == 0,
            namespaces=("x",) if name == "b" else (),
        )
        for name in NAMES
        if name != "d" or draw.below(3)
    ]


def tree_of(draw: Draw) -> QuotaTree:
    """Of quotas that are asked for and used."""
    made = QuotaTree(members(draw), amounts(draw), draw.below(3) > 0, draw.below(2) > 0)
    for _ in range(draw.below(6)):
        name, many = draw.one(("b", "c")), amounts(draw)
        made.ask(name, many)
        if draw.below(2):
            made.use(name, many, draw.below(2) > 0)
    if draw.below(2):
        made.refresh()
    return made


def forest_of(draw: Draw) -> Forest:
    """Of one tree and another of a single quota."""
    made = Forest([*members(draw), Quota("other", amounts(draw), tree_id="t")], draw.below(3) > 0, draw.below(2) > 0)
    made.set_total(amounts(draw))
    made.set_total(amounts(draw), "t")
    for _ in range(draw.below(6)):
        name, many = draw.one(("b", "c", "other")), amounts(draw)
        made.ask(name, many)
        if draw.below(2):
            made.use(name, many, draw.below(2) > 0)
    return made


MAKERS: dict[Any, Any] = {
    Amounts: amounts,
    Levels: levels,
    QuotaTree: tree_of,
    Forest: forest_of,
    "name": one_of("b", "c", "a", "d", "b", "c", "other"),
    Quota: quota_of,
    Iterable[Quota]: members,
    Sequence[Quota]: members,
    Mapping[str, Quota]: lambda draw: {one.name: one for one in members(draw)},
    "claimant": one_of("b", "c", "d"),
    "parent": one_of(ROOT_QUOTA, "a", "a", "b", "z"),
    "tree_id": one_of("", "", "t"),
    "namespace": one_of("b", "x", "n"),
    "label": one_of("", "b", "c", "z"),
    "resource": one_of(*RESOURCES),
}
ROOM = Room(
    Path(__file__).parent,
    (
        admission,
        explain,
        forest,
        headroom,
        pods,
        preemption,
        profile,
        reclaim,
        revocation,
        runtime,
        tree,
        usable,
    ),
    MAKERS,
)


@pytest.mark.parametrize("module", ROOM.modules, ids=short)
def test_answers_as_recorded(module: types.ModuleType) -> None:
    ROOM.compare(module)
