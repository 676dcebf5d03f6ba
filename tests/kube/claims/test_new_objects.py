"""New ResourceClaims, templates, classes, slices and taint rules: what an API server takes, and where it refuses what.

The cases are in answers.yaml; a server that has not the same feature gates as a 1.36 with all of DRA's betas on fails
some.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kube.conftest import Kube

GROUP = "/apis/resource.k8s.io"
KINDS = {
    "claim": ("ResourceClaim", "v1", "resourceclaims"),
    "template": ("ResourceClaimTemplate", "v1", "resourceclaimtemplates"),
    "class": ("DeviceClass", "v1", "deviceclasses"),
    "slice": ("ResourceSlice", "v1", "resourceslices"),
    "rule": ("DeviceTaintRule", "v1beta2", "devicetaintrules"),
}
CASES = yaml.safe_load((Path(__file__).parent / "answers.yaml").read_text())


@pytest.fixture(scope="module")
def served(kube: Kube) -> Kube:
    """The server, where it serves the kinds."""
    if kube.request("GET", f"{GROUP}/v1").code != 200:
        pytest.skip("this server does not serve resource.k8s.io/v1")
    return kube


def written_out(value: Any, index: str = "") -> Any:
    """A value without abbreviations."""
    if isinstance(value, dict) and "repeat" in value:
        if isinstance(value["of"], str):
            return value["of"] * value["repeat"] + value.get("then", "")
        return [written_out(value["of"], str(i)) for i in range(value["repeat"])]
    if isinstance(value, dict):
        return {key: written_out(part, index) for key, part in value.items()}
    if isinstance(value, list):
        return [written_out(part, index) for part in value]
    return value.replace("@", index) if index and isinstance(value, str) else value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_an_object_is_taken_or_refused(served: Kube, namespace: str, case: dict[str, Any]) -> None:
    short = case["case"].split()[0]
    kind, version, plural = KINDS[short]
    if short == "rule" and served.request("GET", f"{GROUP}/{version}/{plural}").code != 200:
        pytest.skip("this server does not serve DeviceTaintRule (feature gate DRADeviceTaintRules)")
    within = f"/namespaces/{namespace}" if short in ("claim", "template") else ""
    body = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "a.case"},
        "spec": written_out(case["spec"]),
    }
    answer = served.request("POST", f"{GROUP}/{version}{within}/{plural}", body, dryRun="All")
    refused = case.get("refused", [])
    assert answer.code == (422 if refused else 201), answer.body
    causes = (answer.json.get("details") or {}).get("causes", ())
    found = {f"{cause['reason'].removeprefix('FieldValue')} {cause['field']}" for cause in causes}
    assert found == set(refused)


def test_defaults(served: Kube, namespace: str) -> None:
    asked = [
        {"name": "a", "exactly": {"deviceClassName": "x"}},
        {"name": "b", "exactly": {"deviceClassName": "x", "allocationMode": "All"}},
        {"name": "c", "firstAvailable": [{"name": "d", "deviceClassName": "x", "count": 2}]},
    ]
    made = served.create(
        f"{GROUP}/v1/namespaces/{namespace}/resourceclaims",
        {"metadata": {"name": "c"}, "spec": {"devices": {"requests": asked}}},
    )
    first, every, third = made["spec"]["devices"]["requests"]
    assert first["exactly"] == {"deviceClassName": "x", "allocationMode": "ExactCount", "count": 1}
    assert every["exactly"] == {"deviceClassName": "x", "allocationMode": "All"}
    assert third["firstAvailable"] == [
        {"name": "d", "deviceClassName": "x", "allocationMode": "ExactCount", "count": 2}
    ]
    assert made["status"] == {}
    assert "generation" not in made["metadata"]


def test_admin_access_needs_a_label_of_the_namespace(served: Kube, namespace: str) -> None:
    asked = {"name": "r", "exactly": {"deviceClassName": "x", "adminAccess": True}}
    claims = f"{GROUP}/v1/namespaces/{namespace}/resourceclaims"
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [asked]}}}
    assert served.request("POST", claims, body).code == 422
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    served.patch(f"/api/v1/namespaces/{namespace}", label)
    served.create(claims, body)


def test_a_taint_gets_the_time_of_its_writing(served: Kube) -> None:
    device = {"name": "g", "taints": [{"key": "a", "effect": "NoSchedule"}]}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example", "nodeName": "n", "pool": pool, "devices": [device]}
    slice_ = {"metadata": {"name": "a.case"}, "spec": spec}
    made = served.create(f"{GROUP}/v1/resourceslices", slice_, dryRun="All")
    assert made["spec"]["devices"][0]["taints"][0]["timeAdded"][:2] == "20"
    assert made["metadata"]["generation"] == 1
