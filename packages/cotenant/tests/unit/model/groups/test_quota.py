from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.groups import quota as names
from cotenant.model.groups.quota import ROOT_QUOTA, Quota, QuotaPod
from cotenant.model.resources import NOTHING, Amounts

CPU = Amounts.of({"cpu": 5})


def test_the_weight_is_the_maximum_unless_one_is_given() -> None:
    other = Amounts.of({"cpu": 1})
    assert Quota("a", CPU).weight == CPU
    assert Quota("a", CPU, shared_weight=Amounts.of({"cpu": 0})).weight == CPU
    assert Quota("a", CPU, shared_weight=other).weight == other


def test_no_parent_is_the_root() -> None:
    assert Quota("a", parent="").parent == Quota("a").parent == ROOT_QUOTA


def test_a_quota_has_a_name_and_each_namespace_once() -> None:
    with pytest.raises(InvalidInput, match=r"quota\.name"):
        Quota("")
    with pytest.raises(InvalidInput, match=r"quota\.namespaces"):
        Quota("a", namespaces=("n", "n"))


def test_the_more_important_pod_comes_first() -> None:
    pods = [
        QuotaPod("c", NOTHING, 1, 5),
        QuotaPod("b", NOTHING, 1, 3),
        QuotaPod("a", NOTHING, 0),
        QuotaPod("d", NOTHING, 2, 9),
    ]
    assert [pod.uid for pod in sorted(pods, key=lambda pod: pod.importance)] == ["d", "b", "c", "a"]


def test_names_are_those_that_users_write() -> None:
    assert names.NAME == "quota.scheduling.koordinator.sh/name"
    assert names.SHARED_WEIGHT == "quota.scheduling.koordinator.sh/shared-weight"
