"""What may change of ResourceClaims, their status, slices and taint rules; versions, selectors and columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from tests.kube.conftest import MERGE, Kube, Kubectl

GROUP = "/apis/resource.k8s.io"
RESULT = {"request": "r", "driver": "d.example", "pool": "p", "device": "g"}
ALLOCATION = {"devices": {"results": [RESULT]}}
REQUESTS = [
    {"name": "r", "exactly": {"deviceClassName": "x"}},
    {"name": "q", "firstAvailable": [{"name": "s", "deviceClassName": "x"}]},
]
SHARE = "a671734a-e8e5-11e4-8fde-42010af09327"


def consumer(uid: str) -> dict[str, str]:
    """Not a pod, which a controller would miss."""
    return {"apiGroup": "example.com", "resource": "things", "name": uid, "uid": uid}


@pytest.fixture(autouse=True)
def served(kube: Kube) -> None:
    if kube.request("GET", f"{GROUP}/v1").code != 200:
        pytest.skip("this server does not serve resource.k8s.io/v1")


@pytest.fixture
def claims(namespace: str) -> str:
    return f"{GROUP}/v1/namespaces/{namespace}/resourceclaims"


class Claim:
    """One ResourceClaim, and the server's answers to changes of it."""

    def __init__(self, kube: Kube, path: str, finalizers: list[str]) -> None:
        self._kube, self.path = kube, path
        metadata = {"name": path.rpartition("/")[2], "finalizers": finalizers}
        kube.create(path.rpartition("/")[0], {"metadata": metadata, "spec": {"devices": {"requests": REQUESTS}}})

    def status(self, **fields: Any) -> set[str]:
        """What is refused of a new status."""
        return self._change("/status", {"status": fields})

    def spec(self, **fields: Any) -> set[str]:
        """What is refused of a new spec."""
        return self._change("", {"spec": fields})

    def get(self) -> Any:
        return self._kube.get(self.path)

    def _change(self, subresource: str, body: Any) -> set[str]:
        answer = self._kube.request("PATCH", f"{self.path}{subresource}", body, content_type=MERGE)
        assert answer.code in (200, 422), answer.body
        causes = (answer.json.get("details") or {}).get("causes", ()) if answer.code == 422 else ()
        return {f"{cause['reason'].removeprefix('FieldValue')} {cause['field']}" for cause in causes}


@pytest.fixture
def claim(kube: Kube, claims: str) -> Iterator[Claim]:
    """A claim that its finalizer keeps."""
    yield Claim(kube, f"{claims}/c", ["example.com/kept"])
    kube.request("PATCH", f"{claims}/c", {"metadata": {"finalizers": None}}, content_type=MERGE)


def test_a_spec_never_changes(claim: Claim) -> None:
    assert claim.spec(devices={"requests": []}) == {"Invalid spec"}


def test_an_allocation_is_written_once_and_may_be_removed(claim: Claim) -> None:
    assert not claim.status(allocation=ALLOCATION)
    other = {"devices": {"results": [{**RESULT, "device": "h"}]}}
    assert claim.status(allocation=other) == {"Invalid status.allocation"}
    assert not claim.status(allocation=None)
    assert not claim.status(allocation=other)


def test_consumers_need_an_allocation(claim: Claim) -> None:
    assert claim.status(reservedFor=[consumer("u")]) == {"Forbidden status.reservedFor"}
    assert not claim.status(allocation=ALLOCATION, reservedFor=[consumer("u")])
    assert claim.status(allocation=None) == {"Forbidden status.reservedFor"}
    assert not claim.status(allocation=None, reservedFor=None)


def test_at_most_256_consumers_each_once(claim: Claim) -> None:
    assert not claim.status(allocation=ALLOCATION, reservedFor=[consumer(f"u{i}") for i in range(256)])
    assert claim.status(reservedFor=[consumer(f"u{i}") for i in range(257)]) == {"TooMany status.reservedFor"}
    found = claim.status(reservedFor=[consumer("u"), consumer("u"), {"resource": "pods"}])
    assert found == {
        "Duplicate status.reservedFor[1]",
        "Required status.reservedFor[2].name",
        "Required status.reservedFor[2].uid",
    }


def test_a_claim_that_is_being_deleted_gets_no_new_consumers(kube: Kube, claim: Claim) -> None:
    assert not claim.status(allocation=ALLOCATION, reservedFor=[consumer("u")])
    kube.delete(claim.path)
    assert claim.status(reservedFor=[consumer("u"), consumer("v")]) == {"Forbidden status.reservedFor"}
    assert not claim.status(reservedFor=None, allocation=None)


@pytest.mark.parametrize(
    ("allocation", "refused"),
    [
        ({"devices": {"results": [{**RESULT, "request": "q/s"}]}}, set()),
        ({"devices": {"results": [{**RESULT, "request": "q"}]}}, set()),
        ({"devices": {"results": [RESULT, RESULT]}}, set()),
        ({"devices": {"results": [{**RESULT, "shareID": SHARE, "consumedCapacity": {"m": "1"}}]}}, set()),
        ({"devices": {"results": [{**RESULT, "request": "zz"}]}}, {"Invalid results[0].request"}),
        (
            {"devices": {"results": [{**RESULT, "driver": "D_", "device": "G", "shareID": "x"}]}},
            {"Invalid results[0].driver", "Invalid results[0].device", "Invalid results[0].shareID"},
        ),
        ({"devices": {"results": [{**RESULT, "device": f"g{i}"} for i in range(33)]}}, {"TooMany results"}),
        (
            {"devices": {"results": [{**RESULT, "bindingConditions": ["a"]}]}},
            {"Invalid results[0].bindingFailureConditions"},
        ),
        ({"devices": {"results": [{**RESULT, "adminAccess": True}]}}, {"Forbidden results[0].adminAccess"}),
        (
            {"devices": {"config": [{"source": "Elsewhere", "opaque": {"driver": "d", "parameters": {}}}, {}]}},
            {"NotSupported config[0].source", "Required config[1].source", "Required config[1].opaque"},
        ),
        (
            {"devices": {}, "nodeSelector": {"nodeSelectorTerms": []}},
            {"Required status.allocation.nodeSelector.nodeSelectorTerms"},
        ),
    ],
)
def test_what_an_allocation_says(claim: Claim, allocation: Any, refused: set[str]) -> None:
    found = claim.status(allocation=allocation)
    assert {cause.replace("status.allocation.devices.", "") for cause in found} == refused


def test_drivers_say_something_of_allocated_devices_only(claim: Claim) -> None:
    device = {"driver": "d.example", "pool": "p", "device": "g"}
    network = {"interfaceName": "eth0", "hardwareAddress": "aa", "ips": ["10.0.0.1/24"]}
    assert not claim.status(allocation=ALLOCATION, devices=[{**device, "data": {"a": 1}, "networkData": network}])
    found = claim.status(devices=[{**device, "device": "k"}, device, device])
    assert found == {"Invalid status.devices[0]", "Duplicate status.devices[2]"}
    assert claim.status(devices=[{**device, "networkData": {"ips": ["10.0.0.1"]}}]) == {
        "Invalid status.devices[0].networkData.ips[0]"
    }
    assert not claim.status(allocation=None)
    assert "devices" not in claim.get()["status"]


def test_a_status_carries_no_metadata(kube: Kube, claim: Claim) -> None:
    body = {"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/other"]}, "status": {}}
    kube.patch(f"{claim.path}/status", body)
    metadata = claim.get()["metadata"]
    assert metadata["finalizers"] == ["example.com/kept"]
    assert "labels" not in metadata


def test_a_request_in_v1beta1_has_no_part_of_its_own(kube: Kube, claim: Claim, namespace: str) -> None:
    path = f"{GROUP}/v1beta1/namespaces/{namespace}/resourceclaims"
    if kube.request("GET", path).code != 200:
        pytest.skip("this server does not serve resource.k8s.io/v1beta1")
    first, second = kube.get(f"{path}/c")["spec"]["devices"]["requests"]
    assert first == {"name": "r", "deviceClassName": "x", "allocationMode": "ExactCount", "count": 1}
    assert [one["name"] for one in second["firstAvailable"]] == ["s"]
    body = {"metadata": {"name": "old"}, "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "y"}]}}}
    kube.create(path, body)
    found = kube.get(f"{GROUP}/v1/namespaces/{namespace}/resourceclaims/old")["spec"]["devices"]["requests"]
    assert found == [{"name": "r", "exactly": {"deviceClassName": "y", "allocationMode": "ExactCount", "count": 1}}]
    bad = {"name": "r", "deviceClassName": "x", "count": -1}
    answer = kube.request("POST", path, {"metadata": {"name": "bad"}, "spec": {"devices": {"requests": [bad]}}})
    assert answer.json["details"]["causes"][0]["field"] == "spec.devices.requests[0].exactly.count"


@pytest.fixture
def slice_(kube: Kube) -> Iterator[str]:
    """A ResourceSlice of a node and a driver of its own."""
    name = f"slice-{uuid4().hex[:8]}"
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": f"{name}.example", "nodeName": name, "pool": pool, "devices": [{"name": "g"}]}
    kube.create(f"{GROUP}/v1/resourceslices", {"metadata": {"name": name}, "spec": spec})
    yield name
    kube.request("DELETE", f"{GROUP}/v1/resourceslices/{name}")


def test_slices_are_selected_by_node_and_driver(kube: Kube, slice_: str) -> None:
    slices = f"{GROUP}/v1/resourceslices"
    for selector in (f"spec.nodeName={slice_}", f"spec.driver={slice_}.example"):
        assert [one["metadata"]["name"] for one in kube.get(slices, fieldSelector=selector)["items"]] == [slice_]
    assert kube.request("GET", slices, fieldSelector="spec.pool=n").code == 400


def test_devices_of_a_slice_change_but_not_whose_they_are(kube: Kube, slice_: str) -> None:
    path = f"{GROUP}/v1/resourceslices/{slice_}"
    made = kube.patch(path, {"spec": {"pool": {"generation": 2}, "devices": [{"name": "h"}]}})
    assert made["metadata"]["generation"] == 2
    other = {"spec": {"driver": "other.example", "nodeName": "m", "pool": {"name": "k"}}}
    answer = kube.request("PATCH", path, other, content_type=MERGE)
    found = {cause["field"] for cause in answer.json["details"]["causes"]}
    assert found == {"spec.driver", "spec.nodeName", "spec.pool.name"}


def test_what_pods_say_of_claims(kube: Kube, pods: str, make_pod: Any) -> None:
    spec = {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}], "schedulerName": "nobody"}
    body = make_pod(**spec)
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "a", "request": "x"}]}
    kube.create(pods, body)
    refused = [
        ({"resourceClaims": [{"name": "a"}]}, "Invalid", "spec.resourceClaims[0]"),
        ({"resourceClaims": [{"name": "A", "resourceClaimName": "c"}]}, "Invalid", "spec.resourceClaims[0].name"),
        ({"resourceClaims": [{"name": "a", "resourceClaimName": "c"}] * 2}, "Duplicate", "spec.resourceClaims[1].name"),
    ]
    for wrong, reason, field in refused:
        cause = kube.request("POST", pods, make_pod("q", **wrong)).json["details"]["causes"][0]
        assert (cause["reason"], cause["field"]) == (f"FieldValue{reason}", field)
    for uses, reason in (([{"name": "b"}], "NotFound"), ([{"name": "a"}, {"name": "a"}], "Duplicate")):
        body = make_pod("q", **spec)
        body["spec"]["containers"][0]["resources"] = {"claims": uses}
        (cause,) = kube.request("POST", pods, body).json["details"]["causes"]
        assert (cause["reason"], cause["field"]) == (
            f"FieldValue{reason}",
            f"spec.containers[0].resources.claims[{len(uses) - 1}]",
        )
    kube.patch(f"{pods}/p/status", {"status": {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "c"}]}})
    unknown = {"status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "c"}]}}
    assert kube.request("PATCH", f"{pods}/p/status", unknown, content_type=MERGE).code == 422


def test_kubectl_shows_the_state_of_a_claim(kubectl: Kubectl, claim: Claim) -> None:
    assert kubectl("get", "resourceclaims", "--no-headers").split()[:2] == ["c", "pending"]
    claim.status(allocation=ALLOCATION, reservedFor=[consumer("u")])
    assert kubectl("get", "resourceclaims", "--no-headers").split()[:2] == ["c", "allocated,reserved"]
    assert kubectl("get", "resourceclaims").split()[:3] == ["NAME", "STATE", "AGE"]


def test_another_effect_is_a_new_taint(kube: Kube) -> None:
    rules, name = f"{GROUP}/v1beta2/devicetaintrules", f"rule-{uuid4().hex[:8]}"
    if kube.request("GET", rules).code != 200:
        pytest.skip("this server does not serve DeviceTaintRule (feature gate DRADeviceTaintRules)")
    taint = {"key": "broken", "effect": "None", "timeAdded": "2020-01-01T00:00:00Z"}
    spec = {"deviceSelector": {"driver": f"{name}.example"}, "taint": taint}
    kube.create(rules, {"metadata": {"name": name}, "spec": spec})
    try:
        same = kube.patch(f"{rules}/{name}", {"spec": {"taint": {"value": "yes"}}})["spec"]["taint"]
        assert same["timeAdded"] == taint["timeAdded"]
        other = kube.patch(f"{rules}/{name}", {"spec": {"taint": {"effect": "NoSchedule"}}})
        assert other["spec"]["taint"]["timeAdded"] > taint["timeAdded"]
        assert other["metadata"]["generation"] == 3
        condition = {
            "type": "EvictionInProgress",
            "status": "False",
            "reason": "Done",
            "message": "",
            "lastTransitionTime": taint["timeAdded"],
        }
        told = kube.patch(f"{rules}/{name}/status", {"status": {"conditions": [condition]}})
        assert told["status"]["conditions"] == [condition]
        assert told["metadata"]["generation"] == 3
    finally:
        kube.delete(f"{rules}/{name}")
