"""Discovery and OpenAPI."""

from __future__ import annotations

from typing import Any

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def served(kube: Any, path: str) -> dict[str, Any]:
    return {one["name"]: one for one in kube.get(path)["resources"]}


def test_groups_and_versions(kube: Any) -> None:
    assert kube.get("/api")["versions"] == ["v1"]
    groups = {group["name"]: group["preferredVersion"]["groupVersion"] for group in kube.get("/apis")["groups"]}
    for name in ("apps", "batch", "policy"):
        assert groups[name] == f"{name}/v1"
    assert kube.get("/apis/apps")["kind"] == "APIGroup"


def test_resources_have_short_names_and_categories(kube: Any) -> None:
    core = served(kube, "/api/v1")
    pods = core["pods"]
    assert (pods["kind"], pods["singularName"], pods["namespaced"]) == ("Pod", "pod", True)
    assert pods["shortNames"] == ["po"]
    assert pods["categories"] == ["all"]
    assert set(pods["verbs"]) == {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    assert core["nodes"]["namespaced"] is False
    assert (core["pods/eviction"]["group"], core["pods/eviction"]["kind"]) == ("policy", "Eviction")
    assert core["pods/binding"]["kind"] == "Binding"
    scale = served(kube, "/apis/apps/v1")["deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


def test_aggregated_discovery_lists_the_same_resources(kube: Any) -> None:
    answer = kube.request("GET", "/apis", headers={"accept": _AGGREGATED})
    assert answer.header("content-type") == _AGGREGATED
    groups = {item["metadata"]["name"]: item for item in answer.json["items"]}
    (version,) = groups["apps"]["versions"]
    deployments = {one["resource"]: one for one in version["resources"]}["deployments"]
    assert deployments["responseKind"]["kind"] == "Deployment"
    assert deployments["scope"] == "Namespaced"
    assert deployments["shortNames"] == ["deploy"]
    assert {one["subresource"] for one in deployments["subresources"]} == {"scale", "status"}
    core = kube.ok("GET", "/api", headers={"accept": _AGGREGATED})
    assert any(one["resource"] == "pods" for one in core["items"][0]["versions"][0]["resources"])


def test_openapi_v2_has_the_fields_kubectl_reads(kube: Any) -> None:
    document = kube.get("/openapi/v2")
    deployment = document["definitions"]["io.k8s.api.apps.v1.Deployment"]
    gvk = {"group": "apps", "kind": "Deployment", "version": "v1"}
    assert deployment["x-kubernetes-group-version-kind"] == [gvk]
    containers = document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == gvk
    for name in ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "io.k8s.apimachinery.pkg.api.resource.Quantity"):
        assert document["definitions"][name]["type"] == "string"


def test_openapi_v2_in_protobuf(kube: Any) -> None:
    media = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = kube.request("GET", "/openapi/v2", headers={"accept": media})
    assert answer.code == 200
    assert answer.body.startswith(b"\n\x032.0")  # Document.swagger
    assert b"io.k8s.api.apps.v1.Deployment" in answer.body


def test_openapi_v3_is_indexed_by_group_version(kube: Any) -> None:
    index = kube.get("/openapi/v3")["paths"]
    path, _, query = index["apis/apps/v1"]["serverRelativeURL"].partition("?")
    assert query.startswith("hash=")
    answer = kube.request("GET", path)
    schemas = answer.json["components"]["schemas"]
    replicas = schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["replicas"]
    assert (replicas["type"], replicas["format"]) == ("integer", "int32")
    listed = answer.json["paths"]["/apis/apps/v1/deployments"]["get"]
    assert listed["x-kubernetes-action"] == "list"
    parameters = answer.json["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]["parameters"]
    assert {"dryRun", "fieldValidation", "fieldManager", "force"} <= {one["name"] for one in parameters}
    again = kube.request("GET", path, headers={"if-none-match": answer.header("etag")})
    assert again.code == 304
