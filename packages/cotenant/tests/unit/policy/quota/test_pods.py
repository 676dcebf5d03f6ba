"""A pod and its quota at admission: which it is, whether it may be, and whether there is room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.model.groups.quota import DEFAULT_QUOTA, ROOT_QUOTA, SYSTEM_QUOTA, Quota
from cotenant.model.resources import Amounts
from cotenant.policy.quota.pods import check_pod_quota, closed_to, exceeded, quota_of_pod, unknown

QUOTAS = {
    quota.name: quota
    for quota in (
        Quota("shop", is_parent=True, namespaces=("web", "pay")),
        Quota("cart", parent="shop"),
        Quota("ads", parent="shop", namespaces=("ads-1",)),
        Quota("free"),
        Quota("loop", parent="pool"),
        Quota("pool", parent="loop"),
    )
}


@pytest.mark.parametrize(
    ("namespace", "label", "name"),
    [
        ("web", "cart", "cart"),
        ("web", "nothing", DEFAULT_QUOTA),  # a label that names none is not made up for by the namespace
        ("web", "", "shop"),
        ("pay", "", "shop"),
        ("ads-1", "", "ads"),
        ("free", "", "free"),  # of its own name
        ("kube-system", "", SYSTEM_QUOTA),
        ("elsewhere", "", DEFAULT_QUOTA),
    ],
)
def test_which_quota_a_pod_is_of(namespace: str, label: str, name: str) -> None:
    assert quota_of_pod(namespace, label, QUOTAS) == name


@pytest.mark.parametrize(
    ("namespace", "name", "is_open"),
    [
        ("web", "shop", True),
        ("elsewhere", "shop", False),
        ("shop", "shop", True),
        ("home-of-shop", "shop", True),
        ("pay", "cart", True),  # it lists none, so its parent's count
        ("elsewhere", "cart", False),
        ("ads-1", "ads", True),
        ("web", "ads", False),  # its own list is narrower
        ("elsewhere", "free", True),
        ("elsewhere", "no such quota", True),
        ("elsewhere", "loop", True),  # a circle ends
    ],
)
def test_a_listed_quota_is_of_its_namespaces_alone(namespace: str, name: str, is_open: bool) -> None:
    said = closed_to(namespace, name, QUOTAS, lambda quota: f"home-of-{quota}")
    assert (said == "") is is_open
    if not is_open:
        assert said.endswith(f", and not of {namespace}")
        assert ("web, pay" in said) is (name != "ads")


def test_a_parent_has_no_pods_and_whether_a_pod_may_be_evicted_never_changes() -> None:
    parent, leaf = QUOTAS["shop"], QUOTAS["cart"]
    assert [one.rule for one in check_pod_quota(parent)] == ["parent-quota"]
    assert check_pod_quota(parent, changes_quota=False) == []
    assert check_pod_quota(leaf) == check_pod_quota(None) == []
    for old, new, is_changed in (("", "", False), ("false", "false", False), ("", "false", True), ("false", "", True)):
        found = check_pod_quota(leaf, preemptible=new, old_preemptible=old)
        assert [(one.quota, one.rule) for one in found] == [("cart", "preemptible-immutable")] * is_changed
        if found:
            assert found[0].text.endswith(f"({old or 'none'} -> {new or 'none'})")
    (found,) = check_pod_quota(None, preemptible="false", old_preemptible="")
    assert found.quota == ""
    both = check_pod_quota(parent, preemptible="false", old_preemptible="true")
    assert [one.rule for one in both] == ["parent-quota", "preemptible-immutable"]


def test_a_label_that_names_no_quota() -> None:
    assert [one.quota for one in unknown("crat", QUOTAS)] == ["crat"]
    for label in ("", "cart", ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA):
        assert unknown(label, QUOTAS) == ()


def test_a_full_quota_is_said_at_creation() -> None:
    quota = replace(QUOTAS["cart"], maximum=Amounts.of({"cpu": 4000, "x/y": 2}))
    used = Amounts.of({"cpu": 3000, "x/y": 2, "memory": 99})
    assert exceeded(quota, used, Amounts.of({"cpu": 1000, "memory": 1 << 40})) == ()
    (found,) = exceeded(quota, used, Amounts.of({"cpu": 1001}))
    assert (found.quota, found.rule) == ("cart", "exceeded")
    assert found.text == "quota cart has no room for 1001m of cpu: 3 of 4 are requested"
    both = exceeded(quota, used, Amounts.of({"cpu": 2000, "x/y": 1}))
    assert [one.text.split(" of ")[1].split(":")[0] for one in both] == ["cpu", "x/y"]
    assert exceeded(quota, Amounts.of({"cpu": 9000}), Amounts.of({"x/y": 1})) == ()  # of what it does not ask for
    annotated = Amounts.of({"cpu": 3500})
    assert len(exceeded(quota, used, Amounts.of({"cpu": 501}), annotated)) == 1
    assert exceeded(quota, used, Amounts.of({"cpu": 500}), annotated) == ()
    assert len(exceeded(quota, used, Amounts.of({"x/y": 1}), annotated)) == 1  # not named there: the maximum
