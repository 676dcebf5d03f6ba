"""What the controller of quota profiles reads."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.elastic_quota_profile import (
    QuotaProfileObject,
    StoredQuotaObject,
    read_profile_node,
    read_quota_profile,
    read_stored_quota,
)
from cotenant.drivers.kube.kinds.node import NodeObject
from cotenant.model.cluster.labels import Labels
from cotenant.model.groups.quota import NO_LIMIT, TREE_ID
from cotenant.model.groups.quota_profile import RESOURCE_KEYS, QuotaProfile
from cotenant.model.resources import Amounts
from cotenant.policy.quota.profile import MOST


def profile(spec: dict[str, Any], **metadata: Any) -> QuotaProfile:
    document = {"metadata": {"namespace": "shop", "name": "a", "uid": "u", **metadata}, "spec": spec}
    return read_quota_profile(msgspec.json.decode(json.dumps(document), type=QuotaProfileObject))


def test_a_whole_profile() -> None:
    found = profile(
        {
            "quotaName": "tree-a",
            "quotaLabels": {"x": "y"},
            "resourceRatio": "0.85",
            "nodeSelector": {"matchLabels": {"pool": "a"}},
        },
        labels={TREE_ID: "42"},
        annotations={RESOURCE_KEYS: '["cpu", "nvidia.com/gpu", "cpu"]'},
    )
    assert (found.key, found.quota_key, found.tree_id) == ("shop/a", "shop/tree-a", "42")
    assert (found.ratio, found.resource_keys, found.quota_labels) == (
        Decimal("0.85"),
        ("cpu", "nvidia.com/gpu"),
        {"x": "y"},
    )
    assert found.selector is not None
    assert found.selector.matches(Labels.of({"pool": "a"}))
    assert found.wrong == ()


@pytest.mark.parametrize(
    ("spec", "annotation", "wrong"),
    [
        ({}, None, "spec.quotaName"),
        ({"quotaName": "q", "resourceRatio": "1.5"}, None, "spec.resourceRatio: 1.5"),
        ({"quotaName": "q", "resourceRatio": "0"}, None, "spec.resourceRatio: 0"),
        ({"quotaName": "q", "resourceRatio": "half"}, None, "spec.resourceRatio: half"),
        ({"quotaName": "q", "nodeSelector": {"matchExpressions": [{"key": "k", "operator": "Is"}]}}, None, "operator"),
        ({"quotaName": "q"}, "cpu", "resource-keys"),
        ({"quotaName": "q"}, "[]", "resource-keys"),
    ],
)
def test_what_cannot_be_meant_is_said_with_its_field(spec: dict[str, Any], annotation: str | None, wrong: str) -> None:
    (said,) = profile(spec, annotations={RESOURCE_KEYS: annotation} if annotation else {}).wrong
    assert wrong in said


def test_a_stored_quota_with_the_largest_amounts_reads_as_it_was_written() -> None:
    document = {
        "metadata": {"namespace": "shop", "name": "tree-a", "labels": {"l": "1"}, "annotations": {"a": "2"}},
        "spec": {"min": {"cpu": "7", "memory": "1Gi"}, "max": {"cpu": str(MOST), "memory": str(MOST)}},
    }
    found = read_stored_quota(msgspec.json.decode(json.dumps(document), type=StoredQuotaObject))
    assert (found.key, found.labels, found.annotations) == ("shop/tree-a", {"l": "1"}, {"a": "2"})
    assert found.minimum == Amounts.of({"cpu": 7000, "memory": 1 << 30})
    assert found.maximum == Amounts.of({"cpu": NO_LIMIT, "memory": MOST})
    document["spec"]["min"] = {"cpu": "much"}
    found = read_stored_quota(msgspec.json.decode(json.dumps(document), type=StoredQuotaObject))
    assert found.minimum is None


@pytest.mark.parametrize(
    ("ready", "cordoned", "schedulable"), [("True", False, True), ("True", True, False), ("Unknown", False, False)]
)
def test_a_node_with_what_of_it_can_be_read(ready: str, cordoned: bool, schedulable: bool) -> None:
    document = {
        "metadata": {"name": "n", "labels": {"pool": "a"}},
        "spec": {"unschedulable": cordoned},
        "status": {
            "allocatable": {"cpu": "3920m", "nvidia.com/gpu": "2", "odd": "many"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    found = read_profile_node(msgspec.json.decode(json.dumps(document), type=NodeObject))
    assert found.allocatable == Amounts.of({"cpu": 3920, "nvidia.com/gpu": 2})
    assert found.schedulable is schedulable
