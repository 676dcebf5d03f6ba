"""Well-known co-location CustomResourceDefinitions are accepted unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.contract import Resource, ResourceScope
from cotenant_local.apiserver.custom.resources import resources_of
from cotenant_local.apiserver.patching import read_document
from cotenant_local.apiserver.schema.builtin import builtin_schema

FOLDER = Path(__file__).parent / "crds"
CRD = builtin_schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
NOW = 1_800_000_000.0


def definition(name: str) -> Manifest:
    return read_document((FOLDER / f"{name}.yaml").read_bytes(), yaml=True)


def resource(name: str) -> Resource:
    obj = definition(name)
    assert CRD.unknown_fields(obj) == []
    CRD.default(obj)
    assert CRD.validate(obj, None) == []
    (found,) = resources_of(obj)
    return found


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_the_definition_is_accepted_and_served(name: str) -> None:
    found = resource(name)
    assert found.plural == name
    assert found.is_custom
    assert "status" in found.subresources


def test_a_pod_group() -> None:
    found = resource("podgroups")
    assert (found.scope, found.short_names, found.list_kind) == (
        ResourceScope.NAMESPACED,
        ("pg", "pgs"),
        "PodGroupList",
    )
    assert found.schema is not None
    group: Manifest = {"metadata": {"name": "g"}, "spec": {"minMember": 3, "minResources": {"cpu": 4, "memory": "1Gi"}}}
    assert found.schema.unknown_fields(group) == []
    assert found.schema.validate(group, None) == []
    group["spec"] = {"minMember": 0, "minResources": {"cpu": "four"}}
    assert [(cause.field, cause.reason) for cause in found.schema.validate(group, None)] == [
        ("spec.minMember", "FieldValueInvalid"),
        ("spec.minResources.cpu", "FieldValueInvalid"),
    ]
    row = [column.value({"metadata": {"name": "g"}, "spec": {"minMember": 3}}, NOW) for column in found.columns]
    assert row == ["g", None, 3, None]


def test_a_reservation_preserves_its_template_and_gets_defaults() -> None:
    found = resource("reservations")
    assert found.schema is not None
    obj: Manifest = {
        "metadata": {"name": "r"},
        "spec": {"owners": [{"object": {"name": "p", "x": 1}}], "template": {"spec": {"anything": [{"at": "all"}]}}},
    }
    assert found.schema.unknown_fields(obj) == ["spec.owners[0].object.x"]
    found.schema.default(obj)
    assert found.schema.validate(obj, None) == []
    assert obj["spec"] == {
        "owners": [{"object": {"name": "p"}}],
        "template": {"spec": {"anything": [{"at": "all"}]}},
        "allocateOnce": True,
        "ttl": "24h",
    }
    assert [cause.message for cause in found.schema.validate({"spec": {}}, None)] == [
        "Required value",
        "Required value",
    ]
    obj["status"] = {"conditions": [{"type": "Scheduled", "status": "False"}, {"type": "Ready", "status": "True"}]}
    assert found.columns[-1].value(obj, NOW) == "True"


def test_a_device_and_a_node_metric() -> None:
    devices, metrics = resource("devices").schema, resource("nodemetrics").schema
    assert devices is not None and metrics is not None  # noqa: PT018
    obj: Manifest = {
        "spec": {"devices": [{"type": "gpu", "minor": 0, "resources": {"koordinator.sh/gpu-core": "100"}}]}
    }
    devices.default(obj)
    assert obj["spec"]["devices"][0]["health"] is False
    assert devices.validate(obj, None) == []
    report: Manifest = {
        "spec": {"metricCollectPolicy": {}},
        "status": {"podsMetric": [{"name": "p", "extensions": {"cpu": {"a": 1}}, "unknown": 1}], "updateTime": "soon"},
    }
    assert metrics.unknown_fields(report) == ["status.podsMetric[0].unknown"]
    metrics.default(report)
    assert report["spec"]["metricCollectPolicy"] == {"nodeMemoryCollectPolicy": "usageWithoutPageCache"}
    assert report["status"]["podsMetric"] == [{"name": "p", "extensions": {"cpu": {"a": 1}}}]
    (cause,) = metrics.validate(report, None)
    assert cause.message == 'Invalid value: "soon": status.updateTime in body must be of type date-time: "soon"'
