"""Node as the manager reads it: sizes, reservations, third parties, and annotations that cannot be read."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS, collect_policy, read_node_metric
from cotenant.drivers.kube.kinds.managed_node import read_managed_node
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.model.cluster.managed import ManagedNode
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import HostApplication, Use

GI = 1 << 30


def _read(annotations: dict[str, str] | None = None, **status: Any) -> ManagedNode:
    sizes = {"allocatable": {"cpu": "3", "memory": "8Gi"}, "capacity": {"cpu": "4", "memory": "8Gi"}}
    body = {"metadata": {"name": "n", "uid": "u", "annotations": annotations}, "status": {**sizes, **status}}
    return read_managed_node(msgspec.json.decode(json.dumps(body), type=NODES.form))


def test_sizes_and_what_is_lent() -> None:
    node = _read(allocatable={"cpu": "3", "memory": "8Gi", "kubernetes.io/batch-cpu": "2500"})
    assert (node.capacity, node.allocatable) == (Use(4000, 8 * GI), Use(3000, 8 * GI))
    assert node.lent == {"batch-cpu": 2500}


def test_raw_amounts_replace_amplified_ones() -> None:
    node = _read({"node.koordinator.sh/raw-allocatable": '{"cpu": "2"}'}, allocatable={"cpu": "6", "memory": "8Gi"})
    assert node.allocatable == Use(2000, 8 * GI)


@pytest.mark.parametrize(
    ("text", "reserved"),
    [
        ('{"resources": {"cpu": "1", "memory": "1Gi"}}', Use(1000, GI)),
        ('{"resources": {"cpu": "1"}, "reservedCPUs": "0-2"}', Use(3000, 0)),
    ],
)
def test_reservations(text: str, reserved: Use) -> None:
    assert _read({"node.koordinator.sh/reservation": text}).reservation == reserved


def test_batch_allocations_of_third_parties_are_summed() -> None:
    allocations = [
        {"priority": "koord-batch", "resources": {"kubernetes.io/batch-cpu": "1000"}},
        {
            "priority": "koord-batch",
            "resources": {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"},
        },
        {"priority": "koord-mid", "resources": {"kubernetes.io/batch-cpu": "9000"}},
    ]
    node = _read({"node.koordinator.sh/thirdPartyAllocations": json.dumps({"allocations": allocations})})
    assert node.third_party == {"batch-cpu": 1500, "batch-memory": GI}


@pytest.mark.parametrize(
    "annotation",
    [
        {"node.koordinator.sh/reservation": "much"},
        {"node.koordinator.sh/reservation": '{"reservedCPUs": "a-b"}'},
        {"node.koordinator.sh/raw-allocatable": '{"cpu": "-1"}'},
        {"node.koordinator.sh/thirdPartyAllocations": '{"allocations": [3]}'},
    ],
)
def test_annotations_that_cannot_be_read_are_listed(annotation: dict[str, str]) -> None:
    node = _read(annotation)
    assert len(node.ignored) == 1
    assert next(iter(annotation)) in node.ignored[0]
    assert node.allocatable == Use(3000, 8 * GI)


@pytest.mark.parametrize("capacity", [{"cpu": "0", "memory": "8Gi"}, {"cpu": "four", "memory": "8Gi"}])
def test_a_node_without_a_size_is_refused(capacity: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="node n: capacity"):
        _read(capacity=capacity)


def test_a_capacity_with_extended_resources_only_is_completed_from_allocatable() -> None:
    assert _read(capacity={"kubernetes.io/batch-cpu": "5"}).capacity == Use(3000, 8 * GI)


def test_the_parts_of_a_node_metric_that_a_manager_uses() -> None:
    usage = {"resources": {"cpu": "1500m", "memory": "1Gi"}}
    body = {
        "metadata": {"name": "n"},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 20, "nodeAggregatePolicy": {"durations": ["5m"]}}},
        "status": {
            "updateTime": "2026-01-01T00:00:00Z",
            "nodeMetric": {"nodeUsage": usage, "systemUsage": usage},
            "hostApplicationMetric": [{"name": "nginx", "priority": "koord-prod", "usage": usage}],
            "prodReclaimableMetric": {"resource": usage},
        },
    }
    obj = msgspec.json.decode(json.dumps(body), type=NODE_METRICS.form)
    metric = read_node_metric(obj, wall=lambda: 1767225600.0 + 30)
    one = Use(1500, GI)
    assert (metric.system, metric.prod_reclaimable) == (one, one)
    assert metric.applications == (HostApplication(one, PriorityClass.PROD, "nginx"),)
    assert (metric.age_s, metric.updated_s) == (30.0, 1767225600.0)
    assert collect_policy(obj) == {"reportIntervalSeconds": 20, "nodeAggregatePolicy": {"durations": ["5m"]}}
