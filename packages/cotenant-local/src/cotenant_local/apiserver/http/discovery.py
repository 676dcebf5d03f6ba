"""Discovery: the served groups, versions and resources.

Every client starts here, kubectl caches it, and a CustomResourceDefinition must appear and disappear immediately. The
documents are built from the registry, in the plain and in the aggregated form, once per registry revision.
Source: Kubernetes API concepts, "Discovery API" (aggregated: apidiscovery.k8s.io/v2, with v2beta1 for clients of 1.26
to 1.29).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.contract import Resource, ResourceScope
from cotenant_local.apiserver.http.encoding.accept import clauses
from cotenant_local.apiserver.http.protocols import RegistryProtocol
from cotenant_local.apiserver.http.reviews import REVIEWS

# subresource: group, version and kind of its body (empty: the resource's own), verbs
_SUBRESOURCES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "scale": ("autoscaling", "v1", "Scale", ("get", "patch", "update")),
    "binding": ("", "v1", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
    "finalize": ("", "", "", ("update",)),
}
_DEFAULT_SUBRESOURCE = ("", "", "", ("get", "patch", "update"))
_VERSION = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")


def version_rank(version: str) -> tuple[int, int, int, str]:
    """The sort key of an API version: GA first, then beta, then alpha, newer first, others last by name."""
    match = _VERSION.match(version)
    if match is None:
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), version)


class ApiGroup:
    """A group's served versions, the preferred one first."""

    def __init__(self, name: str, resources: Iterable[Resource]) -> None:
        self.name = name
        self.versions: dict[str, list[Resource]] = {}
        for resource in resources:
            self.versions.setdefault(resource.version, []).append(resource)
        self.versions = dict(sorted(self.versions.items(), key=lambda item: version_rank(item[0])))
        for served in self.versions.values():
            served.sort(key=lambda resource: resource.plural)

    def summary(self) -> Manifest:
        """The group's entry in /apis."""
        versions = [{"groupVersion": f"{self.name}/{version}", "version": version} for version in self.versions]
        return {"name": self.name, "versions": versions, "preferredVersion": versions[0]}


def groups(registry: RegistryProtocol, computed: Iterable[Resource] = ()) -> dict[str, ApiGroup]:
    """Core ("") and other built-in groups in the order in which they were added, then custom ones by version and name,
    as a kube-apiserver has them: the first group with a kind is what `kubectl get` of its short form means. Groups that
    only have reviews or `computed` resources come last.
    """
    by_group: dict[str, list[Resource]] = {}
    added = tuple(registry.resources())
    custom = sorted((entry for entry in added if entry.is_custom), key=lambda entry: (entry.version, entry.group))
    for resource in (*(entry for entry in added if not entry.is_custom), *custom):
        by_group.setdefault(resource.group, []).append(resource)
    for review in REVIEWS.values():
        present = by_group.setdefault(review.group, [])
        if not any(one.plural == review.plural and one.version == review.version for one in present):
            present.append(review)
    for resource in computed:
        by_group.setdefault(resource.group, []).append(resource)
    return {name: ApiGroup(name, resources) for name, resources in by_group.items()}


def _storage_hash(resource: Resource) -> str:
    digest = hashlib.sha256(f"{resource.group}/{resource.version}/{resource.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _legacy(resource: Resource) -> list[Manifest]:
    entry: Manifest = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.scope is ResourceScope.NAMESPACED,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if "list" in resource.verbs:
        entry["storageVersionHash"] = _storage_hash(resource)
    entries = [entry]
    for subresource in sorted(resource.subresources):
        group, version, kind, verbs = _SUBRESOURCES.get(subresource, _DEFAULT_SUBRESOURCE)
        below: Manifest = {
            "name": f"{resource.plural}/{subresource}",
            "singularName": "",
            "namespaced": entry["namespaced"],
            "kind": kind or resource.kind,
            "verbs": list(verbs),
        }
        if kind and (group, version) != (resource.group, resource.version):
            below["group"], below["version"] = group, version
        entries.append(below)
    return entries


def resource_list(group: ApiGroup, version: str) -> Manifest:
    """The APIResourceList of a group version."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group.name}/{version}" if group.name else version,
        "resources": [entry for resource in group.versions[version] for entry in _legacy(resource)],
    }


def _aggregated(resource: Resource) -> Manifest:
    entry: Manifest = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": resource.scope.value,
        "singularResource": resource.singular,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    below = []
    for subresource in sorted(resource.subresources):
        group, version, kind, verbs = _SUBRESOURCES.get(subresource, _DEFAULT_SUBRESOURCE)
        if not kind:
            group, version, kind = resource.group, resource.version, resource.kind
        response = {"group": group, "version": version, "kind": kind}
        below.append({"subresource": subresource, "responseKind": response, "verbs": list(verbs)})
    if below:
        entry["subresources"] = below
    return entry


def aggregated_list(served: Iterable[ApiGroup], version: str) -> Manifest:
    """The APIGroupDiscoveryList of some groups, in apidiscovery.k8s.io/`version`."""
    items = [
        {
            "metadata": {"name": group.name} if group.name else {},
            "versions": [
                {
                    "version": name,
                    "resources": [_aggregated(resource) for resource in resources],
                    "freshness": "Current",
                }
                for name, resources in group.versions.items()
            ],
        }
        for group in served
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def aggregated_version(accept: str) -> str:
    """The version of the aggregated form in the first matching clause of an Accept header; empty for the plain form."""
    for media, parameters in clauses(accept):
        if media in ("*/*", "application/*"):
            return ""
        if media != "application/json":
            continue
        if not parameters.get("as"):
            return ""
        if parameters["as"] == "APIGroupDiscoveryList" and parameters.get("g") == "apidiscovery.k8s.io":
            version = parameters.get("v", "")
            if version in ("v2", "v2beta1"):
                return version
    return ""


class ApiDiscovery:
    """The discovery documents, built once per registry revision."""

    def __init__(self, registry: RegistryProtocol, encode: Callable[[Manifest], bytes]) -> None:
        self._registry = registry
        self._computed: tuple[Resource, ...] = ()
        self._encode = encode
        self._revision = -1
        self._groups: dict[str, ApiGroup] = {}
        self._documents: dict[tuple[str, str], bytes] = {}

    def add(self, resources: Iterable[Resource]) -> None:
        """Show resources that are served without being stored."""
        self._computed = (*self._computed, *resources)
        self._revision = -1

    def document(self, path: str, accept: str, address: str) -> tuple[bytes, bytes] | None:
        """Content type and body for a discovery path, None if it is not one or nothing is served there."""
        if self._revision != self._registry.revision:
            self._revision = self._registry.revision
            self._groups = groups(self._registry, self._computed)
            self._documents = {}
        path = path.rstrip("/")
        form = aggregated_version(accept) if path in ("/api", "/apis") else ""
        body = self._documents.get((path, form))
        if body is None:
            document = self._build(path, form, address)
            if document is None:
                return None
            body = self._documents[(path, form)] = self._encode(document)
        content_type = "application/json" + (
            f";g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList" if form else ""
        )
        return content_type.encode(), body

    def _build(self, path: str, form: str, address: str) -> Manifest | None:
        core = self._groups.get("")
        others = [group for name, group in self._groups.items() if name]
        if path == "/api":
            if form:
                return aggregated_list([core] if core else [], form)
            return {
                "kind": "APIVersions",
                "versions": list(core.versions) if core else [],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
            }
        if path == "/apis":
            if form:
                return aggregated_list(others, form)
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group.summary() for group in others]}
        parts = path.split("/")
        if len(parts) == 3 and parts[1] == "api":
            return resource_list(core, parts[2]) if core and parts[2] in core.versions else None
        if len(parts) in (3, 4) and parts[1] == "apis":
            group = self._groups.get(parts[2]) if parts[2] else None
            if group is None:
                return None
            if len(parts) == 3:
                return {"kind": "APIGroup", "apiVersion": "v1", **group.summary()}
            return resource_list(group, parts[3]) if parts[3] in group.versions else None
        return None
