"""The paths of the OpenAPI documents: the verbs of each resource, their parameters, bodies and responses.

Kubectl finds a kind's schema, and whether `--dry-run=server` and `--validate` are supported, in the paths of its
resource. Operations are described once in a neutral form and written in either version.
Source: Kubernetes API reference, `x-kubernetes-action` and `x-kubernetes-group-version-kind`.
Limits: parameters have no long descriptions.
"""

from __future__ import annotations

from typing import NamedTuple

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.contract import Resource, ResourceScope
from cotenant_local.apiserver.http.openapi.schemas import META, V2

_JSON_YAML = ["application/json", "application/yaml"]
_PATCHES = ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"]
_STRATEGIC = "application/strategic-merge-patch+json"
_WRITE = (("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"))
_LIST = (
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
)
_DELETE = (
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
)
_NONE: tuple[tuple[str, str], ...] = ()
_VERB_NAMES = {"get": "read", "list": "list", "post": "create", "put": "replace", "patch": "patch", "delete": "delete"}

# subresource: ((group, version, kind), definition, methods)
_SUBRESOURCES = {
    "scale": (("autoscaling", "v1", "Scale"), "io.k8s.api.autoscaling.v1.Scale", ("get", "put", "patch")),
    "binding": (("", "v1", "Binding"), "io.k8s.api.core.v1.Binding", ("post",)),
    "eviction": (("policy", "v1", "Eviction"), "io.k8s.api.policy.v1.Eviction", ("post",)),
    "token": (
        ("authentication.k8s.io", "v1", "TokenRequest"),
        "io.k8s.api.authentication.v1.TokenRequest",
        ("post",),
    ),
    "finalize": (None, "", ("put",)),
}


class PathOperation(NamedTuple):
    """One method on one path."""

    method: str
    action: str  # x-kubernetes-action
    request: str  # definition of the body, empty for none
    response: str  # definition of the response
    query: tuple[tuple[str, str], ...]
    is_body_required: bool = True


def root_of(resource: Resource) -> str:
    """`/api/v1`, `/apis/apps/v1`."""
    return f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"


def roots(resource: Resource, item: str, list_name: str) -> set[str]:
    """The definitions referenced by a resource's paths."""
    found = {item, list_name, META + "Status", META + "DeleteOptions", META + "Patch"}
    for subresource in resource.subresources:
        definition = _SUBRESOURCES.get(subresource, (None, "", ()))[1]
        if definition:
            found.add(definition)
    return found


def paths(resource: Resource, item: str, list_name: str, prefix: str) -> dict[str, Manifest]:
    """All paths of a resource. `item` and `list_name` are definition names."""
    base = root_of(resource)
    is_namespaced = resource.scope is ResourceScope.NAMESPACED
    within = f"{base}/namespaces/{{namespace}}" if is_namespaced else base
    verbs = resource.verbs
    collection = [
        PathOperation("get", "list", "", list_name, _LIST) if "list" in verbs else None,
        PathOperation("post", "post", item, item, _WRITE) if "create" in verbs else None,
        PathOperation(
            "delete",
            "deletecollection",
            META + "DeleteOptions",
            META + "Status",
            _LIST[1:-1] + _DELETE,
            is_body_required=False,
        )
        if "deletecollection" in verbs
        else None,
    ]
    single = [
        PathOperation("get", "get", "", item, _NONE) if "get" in verbs else None,
        PathOperation("put", "put", item, item, _WRITE) if "update" in verbs else None,
        PathOperation("patch", "patch", META + "Patch", item, (*_WRITE, ("force", "boolean")))
        if "patch" in verbs
        else None,
        PathOperation("delete", "delete", META + "DeleteOptions", META + "Status", _DELETE, is_body_required=False)
        if "delete" in verbs
        else None,
    ]
    own = (resource.group, resource.version, resource.kind)
    found: dict[str, Manifest] = {}

    def add(path: str, operations: list[PathOperation | None], suffix: str, gvk: tuple[str, str, str]) -> None:
        present = [one for one in operations if one is not None]
        if not present:
            return
        entry: Manifest = {one.method: _operation(one, resource, suffix, gvk, prefix) for one in present}
        named = [
            _parameter(name, "path", "string", prefix, is_required=True)
            for name in ("name", "namespace")
            if f"{{{name}}}" in path
        ]
        entry["parameters"] = [*named, _parameter("pretty", "query", "string", prefix)]
        found[path] = entry

    add(f"{within}/{resource.plural}", collection, "Namespaced" if is_namespaced else "", own)
    add(f"{within}/{resource.plural}/{{name}}", single, "Namespaced" if is_namespaced else "", own)
    if is_namespaced and "list" in verbs:
        add(f"{base}/{resource.plural}", [collection[0]], "ForAllNamespaces", own)
    for subresource in sorted(resource.subresources):
        gvk, definition, methods = _SUBRESOURCES.get(subresource, (None, "", ("get", "put", "patch")))
        body = definition or item
        operations: list[PathOperation | None] = []
        for method in methods:
            request = {"get": "", "patch": META + "Patch"}.get(method, body)
            query = _NONE if method == "get" else (*_WRITE, ("force", "boolean")) if method == "patch" else _WRITE
            operations.append(PathOperation(method, method, request, body, query))
        add(f"{within}/{resource.plural}/{{name}}/{subresource}", operations, subresource.capitalize(), gvk or own)
    return found


def _parameter(name: str, where: str, kind: str, prefix: str, *, is_required: bool = False) -> Manifest:
    entry: Manifest = {"name": name, "in": where}
    if is_required:
        entry["required"] = True
    if prefix == V2:
        entry["type"] = kind
        entry["uniqueItems"] = True
    else:
        entry["schema"] = {"type": kind, "uniqueItems": True}
    return entry


def _operation(one: PathOperation, resource: Resource, suffix: str, gvk: tuple[str, str, str], prefix: str) -> Manifest:
    group = resource.group.split(".", 1)[0].capitalize() or "Core"
    word = (
        one.action if one.action == "deletecollection" else _VERB_NAMES["list" if one.action == "list" else one.method]
    )
    entry: Manifest = {
        "description": f"{word} {resource.kind}",
        "operationId": f"{word}{group}{resource.version.capitalize()}{suffix}{resource.kind}",
        "tags": [f"{group.lower()}_{resource.version}"],
        "parameters": [_parameter(name, "query", kind, prefix) for name, kind in one.query],
        "x-kubernetes-action": one.action,
        "x-kubernetes-group-version-kind": {"group": gvk[0], "kind": gvk[2], "version": gvk[1]},
    }
    answer = {"$ref": prefix + one.response}
    patches = _PATCHES if resource.is_custom else [*_PATCHES, _STRATEGIC]
    if prefix == V2:
        entry["consumes"] = patches if one.method == "patch" else ["*/*"]
        entry["produces"] = _JSON_YAML
        entry["schemes"] = ["https"]
        if one.request:
            body: Manifest = {"name": "body", "in": "body", "schema": {"$ref": prefix + one.request}}
            if one.is_body_required:
                body["required"] = True
            entry["parameters"].insert(0, body)
        entry["responses"] = {
            "200": {"description": "OK", "schema": answer},
            "401": {"description": "Unauthorized"},
        }
    else:
        if one.request:
            media = patches if one.method == "patch" else ["*/*"]
            content = {name: {"schema": {"$ref": prefix + one.request}} for name in media}
            entry["requestBody"] = (
                {"content": content, "required": True} if one.is_body_required else {"content": content}
            )
        entry["responses"] = {
            "200": {"description": "OK", "content": {name: {"schema": answer} for name in _JSON_YAML}},
            "401": {"description": "Unauthorized"},
        }
    return entry
