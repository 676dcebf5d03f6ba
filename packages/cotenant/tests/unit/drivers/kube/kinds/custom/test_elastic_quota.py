"""ElasticQuota objects as users write them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.elastic_quota import (
    ElasticQuota,
    place_of,
    read_quota,
    read_x_quota,
    written_annotations,
)
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import NO_LIMIT, PARENT, PREFIX, PROBLEM, ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.resources import Amounts

HUGE = str((2**63 - 1) // 5)


def read(
    spec: dict[str, Any],
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    name: str = "a",
) -> QuotaObject:
    prefixed = [{PREFIX + key: value for key, value in (entry or {}).items()} for entry in (labels, annotations)]
    meta = {"name": name, "namespace": "ns", "uid": "u", "labels": prefixed[0], "annotations": prefixed[1]}
    document = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": meta, "spec": spec}
    return read_quota(msgspec.json.decode(json.dumps(document), type=ElasticQuota))


def test_the_plain_form() -> None:
    found = read({"min": {"cpu": "1500m", "memory": "2Gi"}, "max": {"cpu": 4, "memory": "8Gi", "nvidia.com/gpu": 2}})
    assert found == QuotaObject(
        "ns/a",
        "u",
        Quota(
            "a",
            Amounts.of({"cpu": 4000, "memory": 8 << 30, "nvidia.com/gpu": 2}),
            Amounts.of({"cpu": 1500, "memory": 2 << 30}),
        ),
    )
    assert found.quota.parent == ROOT_QUOTA


def test_everything_that_koordinator_s_users_write() -> None:
    labels = {
        "is-parent": "true",
        "parent": "org",
        "allow-lent-resource": "false",
        "tree-id": "t",
        "is-root": "true",
        "ignore-default-tree": "true",
        "allow-force-update": "true",
    }
    annotations = {
        "shared-weight": '{"cpu":"60","memory":"1Gi"}',
        "namespaces": '["x","y","x"]',
        "total-resource": '{"cpu":"100"}',
    }
    found = read({"max": {"cpu": 1}}, labels, annotations)
    assert found.quota == Quota(
        "a",
        Amounts.of({"cpu": 1000}),
        parent="org",
        is_parent=True,
        shared_weight=Amounts.of({"cpu": 60_000, "memory": 1 << 30}),
        lends=False,
        tree_id="t",
        is_tree_root=True,
        allows_force_update=True,
        namespaces=("x", "y"),
    )
    assert (found.total, found.keeps_out, found.wrong) == (Amounts.of({"cpu": 100_000}), False, ())


def test_the_largest_integer_is_no_limit() -> None:
    found = read({"max": {"cpu": HUGE, "memory": HUGE, "nvidia.com/gpu": "4"}})
    assert found.wrong == ()
    assert dict(found.quota.maximum) == {"cpu": NO_LIMIT, "memory": NO_LIMIT, "nvidia.com/gpu": 4}


@pytest.mark.parametrize(
    ("spec", "annotations", "words"),
    [
        ({"max": {"cpu": "lots"}}, {}, "spec.max.cpu: lots"),
        ({"min": {"cpu": "-1"}}, {}, "spec.min.cpu: -1"),
        ({"min": {"cpu": HUGE}}, {}, "spec.min.cpu"),
        ({"max": {"nvidia.com/gpu": "500m"}}, {}, "a whole number"),
        ({}, {"shared-weight": "60"}, "shared-weight: 60"),
        ({}, {"shared-weight": '{"cpu":[]}'}, "shared-weight"),
        ({}, {"total-resource": "{"}, "total-resource"),
        ({}, {"namespaces": '{"a":1}'}, "namespaces"),
    ],
)
def test_what_cannot_be_read_is_said_and_the_quota_is_known(
    spec: dict[str, Any], annotations: dict[str, str], words: str
) -> None:
    found = read(spec, annotations=annotations)
    assert len(found.wrong) == 1
    assert words in found.wrong[0]
    assert found.quota.name == "a"


def test_results_are_not_read() -> None:
    plain = read({"max": {"cpu": 4}})
    assert (
        read({"max": {"cpu": 4}}, annotations={"runtime": '{"cpu":"4"}', "request": "x", "guaranteed": "{}"}) == plain
    )


def test_a_quota_without_a_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"quota\.name"):
        read({}, name="")


def test_what_is_written_back() -> None:
    levels = (("cpu", 1500), ("memory", 2 << 30))
    found = written_annotations(levels, levels, levels, None, None, "")
    assert found[PREFIX + "runtime"] == '{"cpu":"1500m","memory":"2Gi"}'
    assert found[PREFIX + "guaranteed"] is None
    assert found[PROBLEM] is None
    assert written_annotations((), (), (), (), (), "cycle")[PROBLEM] == "cycle"


def test_a_quota_of_scheduler_plugins_is_that_of_its_namespace() -> None:
    read = read_x_quota(quota_object({"name": "any", "namespace": "team-a", "uid": "u"}))
    assert (read.quota.name, read.key) == ("team-a", "team-a/any (scheduling.x-k8s.io)")
    kind, namespace, name = place_of(read.key)
    assert (kind.group, namespace, name) == ("scheduling.x-k8s.io", "team-a", "any")
    kind, namespace, name = place_of("team-a/any")
    assert (kind.group, namespace, name) == ("scheduling.sigs.k8s.io", "team-a", "any")


def test_a_quota_of_scheduler_plugins_with_koordinators_labels_keeps_its_name() -> None:
    meta = {"name": "any", "namespace": "team-a", "uid": "u", "labels": {PARENT: "root-a"}}
    read = read_x_quota(quota_object(meta))
    assert (read.quota.name, read.quota.parent) == ("any", "root-a")


def quota_object(meta: dict[str, Any]) -> ElasticQuota:
    return msgspec.convert({"metadata": meta, "spec": {"min": {"cpu": 1}, "max": {"cpu": 2}}}, ElasticQuota)
