"""`cotenant scheduler` and claims that the pods of a PodGroup share, on an API server that has them.

No controller runs in the local server: the case writes what it would. On a real one without kube-controller-manager's
controller of claims, the case of a template is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kube.conftest import Kube
from tests.kube.test_scheduler_kinds import Scheduler, pod
from tests.kube.test_workload_groups import GROUP, MEMBER, a_group, gang

from cotenant.drivers.kube.kinds.custom.workload_pod_group import POD_GROUP_VERSIONS

pytestmark = pytest.mark.slow  # a scheduler

RESOURCE = "/apis/resource.k8s.io/v1"
NEEDS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "group-claims.example"}}]}}


@pytest.fixture(scope="module")
def version(kube: Kube) -> str:
    """The newest version of PodGroup in which the server keeps claims."""
    if kube.request("GET", RESOURCE).code != 200:
        pytest.skip("this server does not serve resource.k8s.io/v1")
    for found in POD_GROUP_VERSIONS:
        body = a_group(found, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}], **gang(1))
        path = f"/apis/{GROUP}/{found}/namespaces/default/podgroups"
        answer = kube.request("POST", path, body, dryRun="All")
        if answer.code == 201 and answer.json["spec"].get("resourceClaims"):
            return found
    pytest.skip("this server keeps no claims of PodGroups (feature gate DRAWorkloadResourceClaims)")


@pytest.fixture(scope="module")
def scheduler(kube: Any, version: str) -> Iterator[Scheduler]:
    with Scheduler(kube) as running:
        yield running


def skip_without_a_controller(kube: Kube, namespace: str, pods: str) -> None:
    """A pod whose claim comes from a template asks whether the controller of claims runs."""
    probe = {"schedulerName": "nobody", "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "probe"}]}
    templates = f"{RESOURCE}/namespaces/{namespace}/resourceclaimtemplates"
    kube.create(templates, {"metadata": {"name": "probe"}, "spec": {"spec": NEEDS}})
    kube.create(pods, pod("probe", {**probe, "terminationGracePeriodSeconds": 0}))
    try:
        kube.eventually(f"{pods}/probe", lambda obj: obj.get("status", {}).get("resourceClaimStatuses"), 10)
    except AssertionError:
        pytest.skip("nothing makes claims from templates here (kube-controller-manager, resourceclaim-controller)")
    finally:
        kube.delete(f"{pods}/probe")


@pytest.fixture
def devices(kube: Kube, node: str, namespace: str) -> Iterator[None]:
    """A class, and one device on the node."""
    selector = {"cel": {"expression": "device.driver == 'group-claims.example'"}}
    classes, slices = f"{RESOURCE}/deviceclasses", f"{RESOURCE}/resourceslices"
    kube.create(classes, {"metadata": {"name": "group-claims.example"}, "spec": {"selectors": [selector]}})
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    offered = {"driver": "group-claims.example", "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
    kube.create(slices, {"metadata": {"name": f"slice-{namespace}"}, "spec": offered})
    yield
    kube.delete(f"{slices}/slice-{namespace}")
    kube.delete(f"{classes}/group-claims.example")


def member(name: str, scheduler: Scheduler, claim: dict[str, str]) -> dict[str, Any]:
    """A pod of the group that names the group's claim."""
    own = {"resourceClaims": [{"name": "gpu", **claim}], "terminationGracePeriodSeconds": 0}
    return pod(name, {"schedulerName": scheduler.name, **own, **MEMBER})


@pytest.mark.parametrize("by", ["name", "template"])
def test_a_gang_shares_a_claim_that_is_reserved_for_its_group(
    kube: Any, pods: str, namespace: str, node: str, devices: None, scheduler: Scheduler, version: str, by: str
) -> None:
    claims, within = f"{RESOURCE}/namespaces/{namespace}/resourceclaims", f"{RESOURCE}/namespaces/{namespace}"
    groups = f"/apis/{GROUP}/{version}/namespaces/{namespace}/podgroups"
    if by == "name":
        claim, made = {"resourceClaimName": "shared"}, "shared"
        kube.create(claims, {"metadata": {"name": "shared"}, "spec": NEEDS})
    else:
        if not kube.is_local:
            skip_without_a_controller(kube, namespace, pods)
        claim = {"resourceClaimTemplateName": "each"}
        kube.create(f"{within}/resourceclaimtemplates", {"metadata": {"name": "each"}, "spec": {"spec": NEEDS}})
    group = kube.create(groups, a_group(version, resourceClaims=[{"name": "gpu", **claim}], **gang(2)))
    names = ("w0", "w1")
    for name in names:
        kube.create(pods, member(name, scheduler, claim))
    uid = group["metadata"]["uid"]
    if by == "template":
        if kube.is_local:  # no controllers run in it: tests/fault/local_controllers/test_device_claims.py has them
            owner = {"apiVersion": f"{GROUP}/{version}", "kind": "PodGroup", "name": "g", "uid": uid}
            meta = {"name": "g-gpu", "ownerReferences": [{**owner, "controller": True}]}
            kube.create(claims, {"metadata": meta, "spec": NEEDS})
            status = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "g-gpu"}]}}
            for path in (f"{groups}/g", *(f"{pods}/{name}" for name in names)):
                kube.patch(f"{path}/status", status)
        found = kube.eventually(f"{groups}/g", lambda obj: obj.get("status", {}).get("resourceClaimStatuses"))
        made = found["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    for name in names:
        placed = kube.eventually(f"{pods}/{name}", lambda obj: obj["spec"].get("nodeName"))
        assert placed["spec"]["nodeName"] == node
    status = kube.get(f"{claims}/{made}")["status"]
    assert status["reservedFor"] == [{"apiGroup": GROUP, "resource": "podgroups", "name": "g", "uid": uid}]
    (result,) = status["allocation"]["devices"]["results"]
    assert (result["pool"], result["device"]) == (node, "gpu-0")
