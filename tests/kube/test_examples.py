"""Every manifest of examples/ and deploy/ is accepted by an API server, without unknown fields."""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
NOT_OBJECTS = {
    "kustomization.yaml",
    "agent.yaml",
    "descheduler.yaml",
    "scheduler-full-nodes.yaml",
    "14-devices.yaml",
    "15-envoy.yaml",
    "17-model-servers.yaml",
    "18-fleet.yaml",
}
DEPLOYED = [
    entry
    for entry in ROOT.glob("deploy/**/*.yaml")
    if "chart" not in entry.parts and NOT_OBJECTS.isdisjoint({entry.name})
]
NOT_LOCAL = {  # checked against the published schemas by tests/unit/deploy/test_schemas.py
    "ClusterRole",
    "ClusterRoleBinding",
    "NetworkPolicy",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
OPERATORS = {"ServiceMonitor", "PrometheusRule"}  # kinds of the Prometheus Operator
MANIFESTS = sorted([*ROOT.glob("examples/*.yaml"), *ROOT.glob("examples/burn/*.yaml"), *DEPLOYED])
NEEDS_ITS_DEFINITION = ROOT / "examples/08-custom-object.yaml"
NEED_DEFINITIONS = (
    NEEDS_ITS_DEFINITION,
    ROOT / "examples/13-control-zone.yaml",
    ROOT / "examples/13-control-zone-machine.yaml",
    ROOT / "examples/16-right-sizing.yaml",
    ROOT / "examples/17-model-server.yaml",
    ROOT / "examples/burn/objective.yaml",
)  # but for the first: test_our_kinds has their kinds
CASES = [
    pytest.param(document, id=f"{path.parent.name}-{path.name}-{document['kind']}-{document['metadata']['name']}")
    for path in MANIFESTS
    if path not in NEED_DEFINITIONS and path.name not in NOT_OBJECTS
    for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)
    if document["kind"] not in OPERATORS
]


def collection(kube: Any, obj: dict[str, Any], namespace: str) -> str:
    """The path at which objects of this kind are created, from discovery. Skips where the server has no such kind."""
    group_version = obj["apiVersion"]
    if kube.is_local and obj["kind"] in NOT_LOCAL:
        pytest.skip("the local API server has no RBAC, network policies and admission policies")
    base = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    found = next(r for r in kube.get(base)["resources"] if r["kind"] == obj["kind"] and "/" not in r["name"])
    return f"{base}/namespaces/{namespace}/{found['name']}" if found["namespaced"] else f"{base}/{found['name']}"


@pytest.mark.parametrize("document", CASES)
def test_the_manifest_is_accepted(kube: Any, namespace: str, document: dict[str, Any]) -> None:
    document["metadata"].pop("namespace", None)  # the case's own
    if document["kind"] == "Pod":
        document["spec"].pop("priorityClassName", None)  # created by another manifest
    created = kube.create(collection(kube, document, namespace), document, dryRun="All", fieldValidation="Strict")
    assert created["metadata"]["name"] == document["metadata"]["name"]


def test_the_object_matches_its_definition() -> None:
    (definition,) = yaml.safe_load_all((ROOT / "examples/08-custom-kind.yaml").read_text())
    (obj,) = yaml.safe_load_all(NEEDS_ITS_DEFINITION.read_text())
    spec = definition["spec"]
    assert obj["apiVersion"] == f"{spec['group']}/{spec['versions'][0]['name']}"
    assert obj["kind"] == spec["names"]["kind"]
    known = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert set(known["required"]) <= set(obj["spec"]) <= set(known["properties"])
