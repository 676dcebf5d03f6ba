"""What the manager writes: amounts with their terms in one patch, on the node that was read."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.fakes.servers.recorded_client import RecordedClient

from cotenant.drivers.kube.client.errors import AlreadyExists, Conflict
from cotenant.engine.manager.instructions import (
    DeleteObject,
    LabelProfile,
    NodeObjectKind,
    WriteAmounts,
    WriteGpus,
    WriteQuota,
    WriteRatios,
    WriteSpec,
    WriteZones,
)
from cotenant.model.cluster.annotations import GPU_TERMS, LENT_TERMS
from cotenant.model.resources import Amounts
from cotenant.services.manager.writing import WRITERS

BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"


def calls(what: Any, client: RecordedClient | None = None) -> list[tuple[Any, ...]]:
    client = client or RecordedClient()
    asyncio.run(WRITERS[type(what)](cast(Any, client), what))
    return client.calls


def test_amounts_and_their_terms_are_one_write_on_the_nodes_uid() -> None:
    what = WriteAmounts("n1", "u", {"batch-cpu": 2500, "batch-memory": None}, "terms")
    amounts = {BATCH_CPU: "2500", BATCH_MEMORY: None}
    body = {
        "metadata": {"uid": "u", "annotations": {LENT_TERMS: "terms"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    assert calls(what) == [("patch", "nodes", "status", "", "n1", "merge", body)]


@pytest.mark.parametrize("labels", [{}, {"gpu": "A100"}])
def test_amounts_of_cards_have_their_labels_where_there_are_some(labels: dict[str, str]) -> None:
    what = WriteGpus("n1", "u", {"koordinator.sh/gpu-core": 200, "koordinator.sh/gpu": None}, None, labels)
    amounts = {"koordinator.sh/gpu-core": "200", "koordinator.sh/gpu": None}
    metadata = {"uid": "u", "annotations": {GPU_TERMS: None}, **({"labels": labels} if labels else {})}
    body = {"metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}}
    assert calls(what) == [("patch", "nodes", "status", "", "n1", "merge", body)]


ZONES = {
    "metadata": {"resourceVersion": "5"},
    "zones": [
        {"name": "node-0", "type": "Node", "resources": [
            {"name": "cpu", "capacity": "8", "allocatable": "8", "available": "7"},
            {"name": BATCH_CPU, "capacity": "1", "allocatable": "1", "available": "1"},
            {"name": BATCH_MEMORY, "capacity": "9", "allocatable": "9", "available": "9"},
        ]},
        {"name": "node-1", "type": "Node"},
        {"name": "node-2", "resources": [{"name": "cpu", "capacity": "4"}]},
    ],
}  # fmt: skip


def test_amounts_of_zones_replace_those_that_are_stored_and_nothing_else() -> None:
    what = WriteZones("n1", {"node-0": {"batch-cpu": 3, "batch-memory": None}, "node-1": {"batch-cpu": 4}}, "t")
    read, written = calls(what, RecordedClient(stored=[ZONES]))
    assert read[0] == "GET"
    assert read[1].endswith("/noderesourcetopologies/n1")
    assert written[:6] == ("patch", "noderesourcetopologies", "", "", "n1", "merge")
    three, four = ({"name": BATCH_CPU, "capacity": n, "allocatable": n, "available": n} for n in ("3", "4"))
    cpu = ZONES["zones"][0]["resources"][0]  # type: ignore[index]
    assert written[6] == {
        "metadata": {"resourceVersion": "5", "annotations": {LENT_TERMS: "t"}},
        "zones": [
            {"name": "node-0", "type": "Node", "resources": [cpu, three]},
            {"name": "node-1", "type": "Node", "resources": [four]},
            {"name": "node-2", "resources": [{"name": "cpu", "capacity": "4"}]},
        ],
    }


def test_zones_that_change_meanwhile_are_read_again_so_often_and_no_more() -> None:
    what = WriteZones("n1", {}, None)
    newer = {**ZONES, "metadata": {"resourceVersion": "6"}}
    found = calls(what, RecordedClient({"patch": [Conflict("changed")]}, stored=[ZONES, newer]))
    assert [call[0] for call in found] == ["GET", "patch", "GET", "patch"]
    assert found[-1][6]["metadata"]["resourceVersion"] == "6"
    client = RecordedClient({"patch": [Conflict("changed")] * 4}, stored=[ZONES])
    with pytest.raises(Conflict):
        calls(what, client)
    assert [call[0] for call in client.calls] == ["GET", "patch"] * 4


@pytest.mark.parametrize(
    ("kind", "plural", "body"),
    [
        (NodeObjectKind.NODE_SLO, "nodeslos", {"spec": {"a": 1}}),
        (NodeObjectKind.NODE_METRIC, "nodemetrics", {"spec": {"metricCollectPolicy": {"a": 1}}}),
    ],
)
def test_an_object_of_a_node_is_created_or_changed(kind: NodeObjectKind, plural: str, body: dict[str, Any]) -> None:
    changed = ("patch", plural, "", "", "n1", "merge", body)
    new = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": kind.value, "metadata": {"name": "n1"}, **body}
    assert calls(WriteSpec(kind, "n1", {"a": 1})) == [changed]
    assert calls(WriteSpec(kind, "n1", {"a": 1}, creates=True)) == [("create", plural, "", new)]
    there = RecordedClient({"create": [AlreadyExists("n1")]})
    assert calls(WriteSpec(kind, "n1", {"a": 1}, creates=True), there) == [("create", plural, "", new), changed]
    assert calls(DeleteObject(kind, "n1")) == [("delete", plural, "", "n1", "", None)]


def test_ratios_and_the_id_of_a_tree_are_written_on_the_object_that_was_read() -> None:
    ratios = {"metadata": {"uid": "u", "annotations": {"a": "1", "b": None}}}
    assert calls(WriteRatios("n1", "u", {"a": "1", "b": None})) == [("patch", "nodes", "", "", "n1", "merge", ratios)]
    label = {"metadata": {"uid": "u", "labels": {"quota.scheduling.koordinator.sh/tree-id": "7"}}}
    assert calls(LabelProfile("ns/p", "u", "7")) == [("patch", "elasticquotaprofiles", "", "ns", "p", "merge", label)]


def test_the_quota_of_a_profile_has_its_minimum_and_no_limit() -> None:
    minimum, maximum = Amounts.of({"cpu": 1500, "memory": 1 << 30}), Amounts.of({"cpu": 1, "nvidia.com/gpu": 2})
    most = str((2**63 - 1) // 2000)
    parts = {
        "metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}},
        "spec": {"min": {"cpu": "1500m", "memory": "1Gi"}, "max": {"cpu": most, "nvidia.com/gpu": most}},
    }
    changed = ("patch", "elasticquotas", "", "ns", "q", "merge", parts)
    metadata = {"name": "q", "namespace": "ns", **parts["metadata"]}
    new = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata,
        "spec": parts["spec"],
    }  # fmt: skip
    given = ("ns/q", {"l": "1"}, {"a": "2"}, minimum, maximum)
    assert calls(WriteQuota(*given)) == [changed]
    assert calls(WriteQuota(*given, creates=True)) == [("create", "elasticquotas", "ns", new)]
    there = RecordedClient({"create": [AlreadyExists("q")]})
    assert calls(WriteQuota(*given, creates=True), there)[1:] == [changed]
