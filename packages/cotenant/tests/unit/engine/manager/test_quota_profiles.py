"""ElasticQuotaProfiles: the quota of a tree follows its nodes, and nothing of others is touched."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.engine.manager.instructions import LabelProfile, WriteQuota
from cotenant.engine.manager.quota_profiles import SETTLE_S, QuotaProfiles
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.groups.quota import IS_ROOT, TOTAL_RESOURCE, TREE_ID
from cotenant.model.groups.quota_profile import (
    PROFILE,
    TERMS,
    UNSCHEDULABLE_RESOURCE,
    ProfileNode,
    QuotaProfile,
    StoredQuota,
)
from cotenant.model.resources import Amounts
from cotenant.policy.quota.profile import quota_of, tree_id_of

GI = 1 << 30
SELECTOR = LabelSelector.of({"pool": "a"})
PROFILE_A = QuotaProfile("shop/a", "tree-a", uid="u", tree_id="7", selector=SELECTOR, quota_labels={"team": "x"})


def node(name: str, cpu_m: int = 4000, pool: str = "a", **more: object) -> ProfileNode:
    amounts = Amounts.of({"cpu": cpu_m, "memory": 8 * GI, "nvidia.com/gpu": 2})
    return ProfileNode(name, amounts, Labels.of({"pool": pool}), **more)  # type: ignore[arg-type]


class World:
    """Profiles, nodes and quotas, and a server that stores what is written."""

    def __init__(self, *profiles: QuotaProfile) -> None:
        self.now_s = 1000.0
        self.engine = QuotaProfiles()
        self.stored: dict[str, StoredQuota] = {}
        self.loses = False
        for profile in profiles:
            self.engine.profile_seen(profile, self.now_s)

    def run(self, passes_s: float = SETTLE_S) -> list[LabelProfile | WriteQuota]:
        self.now_s += passes_s
        writes = list(self.engine.decide(self.now_s))
        for write in writes:
            if isinstance(write, WriteQuota) and not self.loses:
                before = self.stored.get(write.quota) or StoredQuota(write.quota)
                assert write.creates == (write.quota not in self.stored)
                self.store(
                    replace(
                        before,
                        labels={**before.labels, **write.labels},
                        annotations={**before.annotations, **write.annotations},
                        minimum=(before.minimum or Amounts()).replaced(write.minimum),
                        maximum=(before.maximum or Amounts()).replaced(write.maximum),
                    )
                )
        return writes

    def store(self, quota: StoredQuota) -> None:
        self.stored[quota.key] = quota
        self.engine.quota_seen(quota, self.now_s)

    def nodes(self, *nodes: ProfileNode) -> None:
        for node in nodes:
            self.engine.node_seen(node, self.now_s)


def test_the_quota_is_as_large_as_the_selected_nodes_and_says_why() -> None:
    w = World(replace(PROFILE_A, ratio=Decimal("0.9")))
    w.nodes(node("n1"), node("n2", 3999, schedulable=False), node("other", pool="b"))
    (write,) = w.run()
    assert isinstance(write, WriteQuota)
    assert write.minimum == Amounts.of({"cpu": 7199, "memory": 16 * GI * 9 // 10})  # 7999 x 0.9, cut
    quota = w.stored["shop/tree-a"]
    assert quota.labels == {"team": "x", PROFILE: "a", TREE_ID: "7", IS_ROOT: "true"}
    assert json.loads(quota.annotations[TOTAL_RESOURCE])["cpu"] == "7199m"
    assert json.loads(quota.annotations[UNSCHEDULABLE_RESOURCE])["cpu"] == "3599m"
    assert json.loads(quota.annotations[TERMS]) == {
        "nodes": 2,
        "ratio": "0.9",
        "allocatable": {"cpu": "7999m", "memory": "16Gi"},
    }
    assert w.run() == []


def test_nodes_that_come_and_leave_are_followed_and_others_are_not() -> None:
    w = World(PROFILE_A)
    w.nodes(node("n1"))
    w.run()
    w.nodes(node("n2"), node("b1", pool="b"))
    assert [label_profile.minimum.get("cpu") for label_profile in w.run()] == [8000]  # type: ignore[union-attr]
    w.nodes(node("b2", pool="b"))
    assert w.run() == []
    w.engine.node_gone("n1", w.now_s)
    assert [label_profile.minimum.get("cpu") for label_profile in w.run()] == [4000]  # type: ignore[union-attr]
    w.nodes(replace(node("n2"), labels=Labels.of({})))  # no longer selected
    assert [label_profile.minimum.get("cpu") for label_profile in w.run()] == [0]  # type: ignore[union-attr]


def test_what_others_set_on_the_quota_stays_and_a_change_of_ours_is_undone() -> None:
    w = World(PROFILE_A)
    w.nodes(node("n1"))
    w.run()
    quota = w.stored["shop/tree-a"]
    w.store(replace(quota, labels={**quota.labels, "mine": "1"}, minimum=quota.minimum.replaced(Amounts.of({"x": 3}))))  # type: ignore[union-attr]
    assert w.run() == []
    w.store(replace(w.stored["shop/tree-a"], minimum=Amounts.of({"cpu": 1, "x": 3})))
    assert len(w.run()) == 1
    assert w.stored["shop/tree-a"].minimum.get("x") == 3  # type: ignore[union-attr]
    assert w.stored["shop/tree-a"].labels["mine"] == "1"


def test_resource_keys_say_which_resources_and_an_absent_one_is_zero() -> None:
    w = World(replace(PROFILE_A, resource_keys=("nvidia.com/gpu", "rdma")))
    w.nodes(node("n1"), node("n2"))
    w.run()
    assert w.stored["shop/tree-a"].minimum == Amounts.of({"nvidia.com/gpu": 4, "rdma": 0})


def test_a_profile_without_a_tree_is_labelled_and_the_tree_is_upstreams_hash() -> None:
    w = World(replace(PROFILE_A, tree_id=""))
    writes = w.run()
    assert writes[0] == LabelProfile("shop/a", "u", tree_id_of("shop/a"))
    assert w.stored["shop/tree-a"].labels[TREE_ID] == tree_id_of("shop/a")
    assert tree_id_of("") == "14695981039346656037"  # the offset of FNV-1a
    assert tree_id_of("a") == "12638187200555641996"


def test_a_profile_without_a_selector_selects_nothing() -> None:
    assert quota_of(replace(PROFILE_A, selector=None), [node("n1")]).nodes == 0
    assert quota_of(replace(PROFILE_A, selector=LabelSelector()), [node("n1"), node("b", pool="b")]).nodes == 2


def test_of_two_profiles_with_one_quota_the_first_keeps_it() -> None:
    w = World(PROFILE_A, replace(PROFILE_A, key="shop/z", selector=LabelSelector()))
    w.nodes(node("n1"), node("n2", pool="b"))
    assert len(w.run()) == 1
    assert w.engine.refused == {"shop/z": "quota shop/tree-a is kept by the profile shop/a"}
    assert w.run() == []
    w.engine.profile_gone("shop/a", w.now_s)
    assert [label_profile.minimum.get("cpu") for label_profile in w.run()] == [8000]  # type: ignore[union-attr]


def test_a_profile_that_cannot_be_read_changes_nothing() -> None:
    w = World(PROFILE_A)
    w.nodes(node("n1"))
    w.run()
    w.engine.profile_seen(replace(PROFILE_A, wrong=("spec.resourceRatio: 7: expected a decimal",)), w.now_s)
    w.nodes(node("n2"))
    assert w.run() == []
    assert "resourceRatio" in w.engine.refused["shop/a"]
    assert w.stored["shop/tree-a"].minimum.get("cpu") == 4000  # type: ignore[union-attr]


def test_a_deleted_profile_leaves_its_quota_and_a_deleted_quota_is_made_again() -> None:
    w = World(PROFILE_A)
    w.nodes(node("n1"))
    w.run()
    del w.stored["shop/tree-a"]
    w.engine.quota_gone("shop/tree-a", w.now_s)
    assert [label_profile.creates for label_profile in w.run()] == [True]  # type: ignore[union-attr]
    w.engine.profile_gone("shop/a", w.now_s)
    assert w.run() == []
    assert "shop/tree-a" in w.stored


def test_a_lost_write_is_issued_again_ever_more_rarely() -> None:
    w = World(PROFILE_A)
    w.nodes(node("n1"))
    w.loses = True
    at = [second for second in range(200) if w.run(1.0)]
    assert at == [0, 30, 90]
    w.engine.leads_now(w.now_s)  # another replica begins to lead
    assert len(w.run(0.0)) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["a", "b", None]), st.integers(0, 9000), st.booleans()),
        max_size=20,
    ),
    st.sampled_from(["1", "0.5", "0.333", "0.07"]),
)
def test_any_history_ends_in_the_sum_of_the_nodes_that_are_there(
    story: list[tuple[str, str | None, int, bool]], ratio: str
) -> None:
    w = World(replace(PROFILE_A, ratio=Decimal(ratio)))
    there: dict[str, ProfileNode] = {}
    for name, pool, cpu_m, runs in story:
        if pool is None:
            there.pop(name, None)
            w.engine.node_gone(name, w.now_s)
        else:
            there[name] = node(name, cpu_m, pool)
            w.nodes(there[name])
        if runs:
            w.run()
    w.run()
    total = sum(
        profile_node.allocatable.get("cpu") for profile_node in there.values() if profile_node.labels.get("pool") == "a"
    )
    assert w.stored["shop/tree-a"].minimum.get("cpu") == int(total * Decimal(ratio))  # type: ignore[union-attr]
    assert w.run() == []


@pytest.mark.parametrize("key", ["shop/a", "kube-system/arm64"])
def test_the_tree_is_the_same_in_another_cluster(key: str) -> None:
    assert tree_id_of(key) == tree_id_of(key)
    assert int(tree_id_of(key)) < 1 << 64
