"""The root quota that a profile describes: its amounts by the selected nodes, its labels, and when it stands."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.groups.quota import IS_ROOT, NO_LIMIT, TOTAL_RESOURCE, TREE_ID
from cotenant.model.groups.quota_profile import (
    PROFILE,
    TERMS,
    UNSCHEDULABLE_RESOURCE,
    ProfileNode,
    QuotaProfile,
    StoredQuota,
)
from cotenant.model.resources import Amounts
from cotenant.policy.quota.profile import MOST, ProfileQuota, quota_of, tree_id_of

GIB = 1 << 30
POOL = QuotaProfile("kube/pool", "root", selector=LabelSelector.of({"pool": "a"}), quota_labels={"team": "x"})


def node(name: str, cpu: int, memory: int, pool: str = "a", schedulable: bool = True) -> ProfileNode:
    amounts = Amounts.of({"cpu": cpu, "memory": memory, "example.com/card": 2})
    return ProfileNode(name, amounts, Labels((("pool", pool),)), schedulable)


NODES = [node("n1", 4000, 8 * GIB), node("n2", 2001, 4 * GIB, schedulable=False), node("n3", 9000, GIB, "b")]


def test_the_selected_nodes_count_with_the_part_that_takes_no_pods_apart() -> None:
    found = quota_of(POOL, NODES)
    assert found.key == "kube/root"
    assert found.minimum == Amounts.of({"cpu": 6001, "memory": 12 * GIB})
    assert found.maximum == Amounts((("cpu", NO_LIMIT), ("memory", MOST)))
    assert found.nodes == 2
    assert found.labels == {"team": "x", PROFILE: "pool", TREE_ID: tree_id_of("kube/pool"), IS_ROOT: "true"}
    assert json.loads(found.annotations[TOTAL_RESOURCE]) == {"cpu": "6001m", "memory": "12Gi"}
    assert json.loads(found.annotations[UNSCHEDULABLE_RESOURCE]) == {"cpu": "2001m", "memory": "4Gi"}
    assert json.loads(found.annotations[TERMS]) == {
        "allocatable": {"cpu": "6001m", "memory": "12Gi"}, "nodes": 2, "ratio": "1",
    }  # fmt: skip


def test_a_ratio_is_of_both_parts_and_rounds_down() -> None:
    found = quota_of(replace(POOL, ratio=Decimal("0.5")), NODES)
    assert found.minimum.get("cpu") == 3000
    assert json.loads(found.annotations[UNSCHEDULABLE_RESOURCE])["cpu"] == "1"
    assert json.loads(found.annotations[TERMS])["allocatable"]["cpu"] == "6001m"
    assert json.loads(found.annotations[TERMS])["ratio"] == "0.5"


def test_only_the_profiles_resources_count_and_no_selector_selects_nothing() -> None:
    cards = quota_of(replace(POOL, resource_keys=("example.com/card",)), NODES)
    assert cards.minimum == Amounts.of({"example.com/card": 4})
    assert cards.maximum == Amounts((("example.com/card", MOST),))
    none = quota_of(replace(POOL, selector=None), NODES)
    assert (none.nodes, none.minimum.get("cpu")) == (0, 0)


def test_a_tree_has_the_profiles_label_else_a_hash_of_its_name() -> None:
    assert quota_of(replace(POOL, tree_id="t7"), NODES).labels[TREE_ID] == "t7"
    assert tree_id_of("") == str(0xCBF29CE484222325)
    assert tree_id_of("a") == str(0xAF63DC4C8601EC8C)  # FNV-1a's own examples
    assert tree_id_of("foobar") == str(0x85944171F73967E8)


def stored(of: ProfileQuota) -> StoredQuota:
    return StoredQuota(of.key, "u", {**of.labels, "more": "1"}, {**of.annotations, "more": "1"}, of.minimum, of.maximum)


def test_a_quota_stands_where_it_has_all_of_it() -> None:
    wanted = quota_of(POOL, NODES)
    one = stored(wanted)
    assert wanted.stands(one)
    more = Amounts(tuple(sorted((*wanted.minimum.items, ("z.io/card", 1)))))
    assert wanted.stands(replace(one, minimum=more, maximum=Amounts((*wanted.maximum.items, ("z.io/card", 1)))))


@pytest.mark.parametrize(
    "fields",
    [
        {"labels": {}},
        {"annotations": {}},
        {"minimum": None},
        {"maximum": None},
        {"minimum": Amounts.of({"cpu": 6002, "memory": 12 * GIB})},
        {"maximum": Amounts.of({"cpu": 1})},
    ],
)
def test_a_quota_that_lacks_something_does_not_stand(fields: dict[str, object]) -> None:
    wanted = quota_of(POOL, NODES)
    assert not wanted.stands(replace(stored(wanted), **fields))  # type: ignore[arg-type]
    assert not wanted.stands(None)
