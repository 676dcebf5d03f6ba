"""ResourceClaims of pods: made from templates, held, given back, deleted; on the server and controllers of a local
cluster, with a scheduler's writes by hand.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from tests.fault.local_controllers.test_running import Cluster, serve

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import DeletionOptions
from cotenant_local.controllers.claims.from_templates import POD_CLAIM
from cotenant_local.controllers.claims.holders import FINALIZER
from cotenant_local.controllers.runtime.actions import CLAIM_TEMPLATES, EVENTS, NODES, POD_GROUPS, PODS, RESOURCE_CLAIMS

REQUESTS = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d.example", "pool": "p", "device": "g"}]}}
TEMPLATE = {
    "metadata": {"name": "t", "namespace": "default"},
    "spec": {"metadata": {"labels": {"a": "b"}}, "spec": REQUESTS},
}


def a_pod(name: str = "p", node: str = "", **claim: str) -> dict[str, Any]:
    spec = {
        "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", **(claim or {"resourceClaimTemplateName": "t"})}],
        "restartPolicy": "Never",
        **({"nodeName": node} if node else {}),
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def hold(cluster: Cluster, claim: str, *pods: dict[str, Any]) -> None:
    """What a scheduler writes."""
    await cluster.patch(RESOURCE_CLAIMS, claim, {"metadata": {"finalizers": [FINALIZER]}})
    held = [{"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in pods]
    await cluster.patch(RESOURCE_CLAIMS, claim, {"status": {"allocation": ALLOCATION, "reservedFor": held}}, "status")


def test_a_claim_is_made_for_a_pod_and_named_in_its_status() -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.run()
        pod = await cluster.make(PODS, a_pod())
        await cluster.settle()
        events = await cluster.all(EVENTS)
        assert [(one["reason"], one["type"]) for one in events] == [("FailedResourceClaimCreation", "Warning")]
        await cluster.make(CLAIM_TEMPLATES, deepcopy(TEMPLATE))
        await cluster.settle()
        (claim,) = await cluster.all(RESOURCE_CLAIMS)
        metadata = claim["metadata"]
        assert metadata["name"].startswith("p-gpu-")
        assert metadata["labels"] == {"a": "b"}
        assert metadata["annotations"] == {POD_CLAIM: "gpu"}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"], "controller": True}
        assert metadata["ownerReferences"] == [owner]
        (pod,) = await cluster.all(PODS)
        assert pod["status"]["resourceClaimStatuses"] == [{"name": "gpu", "resourceClaimName": metadata["name"]}]

    serve(case)


def a_group(**claim: str) -> dict[str, Any]:
    claims = [{"name": "gpu", **(claim or {"resourceClaimTemplateName": "t"})}]
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": claims}
    return {"metadata": {"name": "crew", "namespace": "default"}, "spec": spec}


def a_member(name: str, node: str = "", **claim: str) -> dict[str, Any]:
    pod = a_pod(name, node, **claim)
    pod["spec"]["schedulingGroup"] = {"podGroupName": "crew"}
    return pod


def test_pods_of_a_group_get_the_one_claim_that_is_made_for_it() -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.run()
        await cluster.make(CLAIM_TEMPLATES, deepcopy(TEMPLATE))
        for name in ("a", "b"):
            await cluster.make(PODS, a_member(name))
        await cluster.settle()
        assert await cluster.all(RESOURCE_CLAIMS) == []  # which claims are the group's, nobody knows yet
        group = await cluster.make(POD_GROUPS, a_group())
        await cluster.settle()
        owners = [claim["metadata"]["ownerReferences"][0] for claim in await cluster.all(RESOURCE_CLAIMS)]
        assert [(owner["kind"], owner["uid"]) for owner in owners] == [("PodGroup", group["metadata"]["uid"])]
        (group,) = await cluster.all(POD_GROUPS)
        (shared,) = group["status"]["resourceClaimStatuses"]
        assert shared["name"] == "gpu"
        for pod in await cluster.all(PODS):
            assert pod["status"]["resourceClaimStatuses"] == [shared]

    serve(case)


def test_a_claim_is_held_by_its_group_until_that_is_gone() -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.run()
        await cluster.make(CLAIM_TEMPLATES, deepcopy(TEMPLATE))
        group = await cluster.make(POD_GROUPS, a_group())
        await cluster.make(NODES, {"metadata": {"name": "n"}})
        await cluster.make(PODS, a_member("a", "n"))
        await cluster.settle()
        (claim,) = await cluster.all(RESOURCE_CLAIMS)
        name, uid = claim["metadata"]["name"], group["metadata"]["uid"]
        await cluster.patch(RESOURCE_CLAIMS, name, {"metadata": {"finalizers": [FINALIZER]}})
        held = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "crew", "uid": uid}
        status = {"status": {"allocation": ALLOCATION, "reservedFor": [held]}}
        await cluster.patch(RESOURCE_CLAIMS, name, status, "status")
        await cluster.settle()
        (claim,) = await cluster.all(RESOURCE_CLAIMS)
        assert claim["status"]["reservedFor"] == [held]  # not for the pod, although something has bound it
        await cluster.patch(PODS, "a", {"status": {"phase": "Succeeded"}}, "status")
        await cluster.settle()
        (claim,) = await cluster.all(RESOURCE_CLAIMS)
        assert claim["status"]["reservedFor"] == [held]
        await cluster.api.delete(cluster.api.target(*POD_GROUPS, "default", "crew"))
        await cluster.settle()
        assert await cluster.all(RESOURCE_CLAIMS) == []

    serve(case)


def test_a_claim_that_was_deleted_is_made_again() -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.run()
        await cluster.make(CLAIM_TEMPLATES, deepcopy(TEMPLATE))
        await cluster.make(PODS, a_pod())
        await cluster.settle()
        (first,) = await cluster.all(RESOURCE_CLAIMS)
        await cluster.api.delete(cluster.api.target(*RESOURCE_CLAIMS, "default", first["metadata"]["name"]))
        await cluster.settle()
        (second,) = await cluster.all(RESOURCE_CLAIMS)
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        (pod,) = await cluster.all(PODS)
        assert pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"] == second["metadata"]["name"]

    serve(case)


def test_the_claim_of_a_pod_that_finished_is_deleted_with_its_devices() -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.run()
        await cluster.make(CLAIM_TEMPLATES, deepcopy(TEMPLATE))
        pod = await cluster.make(PODS, a_pod())
        await cluster.settle()
        (claim,) = await cluster.all(RESOURCE_CLAIMS)
        await hold(cluster, claim["metadata"]["name"], pod)
        await cluster.settle()
        (claim,) = await cluster.all(RESOURCE_CLAIMS)
        assert claim["status"]["allocation"] == ALLOCATION
        await cluster.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, "status")
        await cluster.settle()
        assert not await cluster.all(RESOURCE_CLAIMS)

    serve(case)


def test_a_shared_claim_is_given_back_with_its_last_pod() -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.run()
        await cluster.make(RESOURCE_CLAIMS, {"metadata": {"name": "shared", "namespace": "default"}, "spec": REQUESTS})
        pods = [await cluster.make(PODS, a_pod(name, resourceClaimName="shared")) for name in ("p", "q")]
        await hold(cluster, "shared", *pods)
        await cluster.settle()
        await cluster.api.delete(cluster.api.target(*PODS, "default", "p"), DeletionOptions(grace_s=0))
        await cluster.settle()
        (claim,) = await cluster.all(RESOURCE_CLAIMS)
        assert [one["name"] for one in claim["status"]["reservedFor"]] == ["q"]
        assert claim["status"]["allocation"] == ALLOCATION
        await cluster.api.delete(cluster.api.target(*PODS, "default", "q"), DeletionOptions(grace_s=0))
        await cluster.settle()
        (claim,) = await cluster.all(RESOURCE_CLAIMS)
        assert claim["status"] == {}
        assert "finalizers" not in claim["metadata"]

    serve(case)


def test_a_claim_that_is_deleted_while_it_is_held_stays_until_it_is_not() -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.run()
        await cluster.make(RESOURCE_CLAIMS, {"metadata": {"name": "shared", "namespace": "default"}, "spec": REQUESTS})
        pod = await cluster.make(PODS, a_pod(resourceClaimName="shared"))
        await hold(cluster, "shared", pod)
        await cluster.api.delete(cluster.api.target(*RESOURCE_CLAIMS, "default", "shared"))
        await cluster.settle()
        (claim,) = await cluster.all(RESOURCE_CLAIMS)
        assert claim["status"]["reservedFor"]
        await cluster.api.delete(cluster.api.target(*PODS, "default", "p"), DeletionOptions(grace_s=0))
        await cluster.settle()
        assert not await cluster.all(RESOURCE_CLAIMS)

    serve(case)


def test_an_allocation_before_its_first_holder_stays() -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.run()
        await cluster.make(RESOURCE_CLAIMS, {"metadata": {"name": "shared", "namespace": "default"}, "spec": REQUESTS})
        await hold(cluster, "shared")
        await cluster.settle()
        (claim,) = await cluster.all(RESOURCE_CLAIMS)
        assert claim["status"]["allocation"] == ALLOCATION
        assert claim["metadata"]["finalizers"] == [FINALIZER]

    serve(case)


def test_a_pod_that_something_else_has_bound_holds_its_allocated_claim() -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.run()
        await cluster.make(RESOURCE_CLAIMS, {"metadata": {"name": "shared", "namespace": "default"}, "spec": REQUESTS})
        await hold(cluster, "shared")
        await cluster.make(NODES, {"metadata": {"name": "n"}})
        pod = await cluster.make(PODS, a_pod(node="n", resourceClaimName="shared"))
        await cluster.settle()
        (claim,) = await cluster.all(RESOURCE_CLAIMS)
        assert [one["uid"] for one in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]

    serve(case)


def test_a_holder_of_another_kind_is_kept() -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.run()
        await cluster.make(RESOURCE_CLAIMS, {"metadata": {"name": "shared", "namespace": "default"}, "spec": REQUESTS})
        other = {"apiGroup": "example.com", "resource": "things", "name": "x", "uid": "u"}
        gone = {"resource": "pods", "name": "gone", "uid": "v"}
        status = {"allocation": ALLOCATION, "reservedFor": [other, gone]}
        await cluster.patch(RESOURCE_CLAIMS, "shared", {"status": status}, "status")
        await cluster.settle()
        (claim,) = await cluster.all(RESOURCE_CLAIMS)
        assert claim["status"]["reservedFor"] == [other]
        with pytest.raises(ApiError):
            await cluster.patch(RESOURCE_CLAIMS, "shared", {"status": {"allocation": None}}, "status")

    serve(case)
