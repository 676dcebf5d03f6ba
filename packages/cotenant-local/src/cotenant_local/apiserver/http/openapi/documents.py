"""/openapi/v2 and /openapi/v3: the schemas of all kinds, for kubectl explain, apply, validation and dry runs.

The documents are megabytes, and CustomResourceDefinitions change them while the server runs. Built on first use, kept
until the registry's revision changes, with ETags; v3 is split by group version, and the index names each part with a
hash of its inputs, so that caching clients fetch only what changed. v2 is served as JSON and in gnostic's protobuf.
Building happens in a thread.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.contract import ListOptions, RequestTarget, Resource
from cotenant_local.apiserver.http.encoding.accept import clauses, not_acceptable
from cotenant_local.apiserver.http.exchange import Exchange
from cotenant_local.apiserver.http.health import MAJOR, MINOR
from cotenant_local.apiserver.http.openapi import gnostic
from cotenant_local.apiserver.http.openapi import paths as openapi_paths
from cotenant_local.apiserver.http.openapi.schemas import V2, V3, builtin, closure, custom, custom_name, list_of
from cotenant_local.apiserver.http.protocols import ApiProtocol
from cotenant_local.apiserver.http.reviews import REVIEWS

_encode = msgspec.json.Encoder().encode
_GVK = "x-kubernetes-group-version-kind"
_INFO = {"title": "Kubernetes", "version": f"v{MAJOR}.{MINOR}.0"}
_CRDS = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
_V2_MEDIA = {"application/json", "*/*", "application/*"}

Structurals = dict[tuple[str, str, str], Manifest]  # group, version, kind -> openAPIV3Schema


class DocumentInputs:
    """The inputs of the documents, at one revision of the registry."""

    def __init__(
        self, resources: tuple[Resource, ...], definitions: dict[str, Manifest], structurals: Structurals
    ) -> None:
        self._definitions = definitions
        self._structurals = structurals
        reviews = [one for one in REVIEWS.values() if one not in resources]
        self.by_root: dict[str, list[Resource]] = {}
        for resource in (*resources, *reviews):
            self.by_root.setdefault(openapi_paths.root_of(resource), []).append(resource)
        self._names: dict[tuple[str, str, str], str] = {}
        for name, definition in definitions.items():
            for entry in definition.get(_GVK, ()):
                self._names.setdefault((entry["group"], entry["version"], entry["kind"]), name)
        self._generated: dict[str, Callable[[str], Manifest]] = {}

    def _item(self, resource: Resource) -> str:
        name = self._names.get((resource.group, resource.version, resource.kind))
        if name is not None and not resource.is_custom:
            return name
        name = custom_name(resource)
        structural = self._structurals.get((resource.group, resource.version, resource.kind), {})
        self._generated[name] = lambda prefix: custom(resource, structural, prefix)
        return name

    def _list(self, resource: Resource, item: str) -> str:
        kind = resource.list_kind or resource.kind + "List"
        name = self._names.get((resource.group, resource.version, kind))
        if name is not None and not resource.is_custom:
            return name
        name = item + "List"
        self._generated[name] = lambda prefix: list_of(resource, item, prefix)
        return name

    def _lookup(self, prefix: str) -> Callable[[str], Manifest | None]:
        def lookup(name: str) -> Manifest | None:
            built = self._generated.get(name)
            if built is not None:
                return built(prefix)
            definition = self._definitions.get(name)
            return None if definition is None else builtin(name, definition, prefix)

        return lookup

    def _parts(self, resources: list[Resource], prefix: str) -> tuple[dict[str, Manifest], dict[str, Manifest]]:
        paths: dict[str, Manifest] = {}
        roots: set[str] = set()
        for resource in resources:
            item = self._item(resource)
            list_name = self._list(resource, item)
            paths.update(openapi_paths.paths(resource, item, list_name, prefix))
            roots |= openapi_paths.roots(resource, item, list_name)
        return dict(sorted(paths.items())), closure(sorted(roots), self._lookup(prefix), prefix)

    def v2(self) -> dict[str, object]:
        """The OpenAPI v2 document."""
        paths, definitions = self._parts([one for group in self.by_root.values() for one in group], V2)
        return {"swagger": "2.0", "info": _INFO, "paths": paths, "definitions": definitions}

    def v3(self, root: str) -> bytes:
        """The document of one group version (`/apis/apps/v1`), encoded."""
        paths, schemas = self._parts(self.by_root[root], V3)
        return _encode({"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}})

    def v3_hash(self, root: str) -> str:
        """A hash of the inputs of a group version's document."""
        digest = hashlib.sha256(f"{_INFO['version']} {len(self._definitions)}".encode())
        for one in self.by_root[root]:
            facts = (one.plural, one.kind, one.list_kind, one.scope, sorted(one.verbs), sorted(one.subresources))
            digest.update(repr(facts).encode())
            digest.update(_encode(self._structurals.get((one.group, one.version, one.kind), {})))
        return digest.hexdigest().upper()


class OpenApi:
    """Serves the documents."""

    def __init__(self, api: ApiProtocol, definitions: Callable[[], dict[str, Manifest]]) -> None:
        self._api = api
        self._definitions = definitions
        self._revision = -1
        self._source: DocumentInputs | None = None
        self._built: dict[str, tuple[bytes, bytes]] = {}  # key -> body, ETag
        self._lock = asyncio.Lock()

    async def _current(self) -> DocumentInputs:
        revision = self._api.registry.revision
        if self._source is None or self._revision != revision:
            structurals = await self._structural_schemas()
            resources = self._api.registry.resources()
            self._source = await asyncio.to_thread(lambda: DocumentInputs(resources, self._definitions(), structurals))
            self._revision = revision
            self._built = {}
        return self._source

    async def _structural_schemas(self) -> Structurals:
        resource = self._api.registry.find(*_CRDS)
        found: Structurals = {}
        if resource is None:
            return found
        page = await self._api.list(RequestTarget(resource), ListOptions())
        for item in page.items:
            spec = msgspec.json.decode(item.raw).get("spec", {})
            for version in spec.get("versions", ()):
                schema = (version.get("schema") or {}).get("openAPIV3Schema")
                if schema:
                    found[(spec.get("group", ""), version.get("name", ""), spec.get("names", {}).get("kind", ""))] = (
                        schema
                    )
        return found

    async def _document(self, key: str, build: Callable[[DocumentInputs], bytes]) -> tuple[bytes, bytes]:
        async with self._lock:
            source = await self._current()
            built = self._built.get(key)
            if built is None:
                body = await asyncio.to_thread(build, source)
                etag = f'"{hashlib.sha256(body).hexdigest().upper()}"'.encode()
                built = self._built[key] = (body, etag)
            return built

    async def serve(self, exchange: Exchange) -> None:
        """Answer a request below /openapi. Raises ApiError 404, 406."""
        path = exchange.path.rstrip("/")
        if path == "/openapi/v2":
            content_type, body, etag = await self._v2(exchange.header(b"accept"))
        elif path == "/openapi/v3":
            body, etag = await self._document("v3", _index)
            content_type = b"application/json"
        elif path.startswith("/openapi/v3/"):
            root = path.removeprefix("/openapi/v3")
            accepted = {clause.media for clause in clauses(exchange.header(b"accept"))}
            if accepted and not accepted & _V2_MEDIA:
                raise not_acceptable()
            async with self._lock:
                source = await self._current()
            if root not in source.by_root:
                raise ApiError(404, "NotFound", "the server could not find the requested resource")
            body, etag = await self._document(root, lambda source: source.v3(root))
            content_type = b"application/json"
        else:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        headers = [(b"etag", etag), (b"vary", b"Accept")]
        if exchange.headers.get(b"if-none-match") == etag:
            await exchange.answer(304, content_type, b"", headers)
        else:
            await exchange.answer(200, content_type, body, headers)

    async def _v2(self, accept: str) -> tuple[bytes, bytes, bytes]:
        for media, _ in clauses(accept or "*/*"):
            if media == gnostic.MEDIA_TYPE:
                body, etag = await self._document("v2.pb", lambda source: gnostic.document(source.v2()))
                return gnostic.CONTENT_TYPE, body, etag
            if media in _V2_MEDIA:
                body, etag = await self._document("v2", lambda source: _encode(source.v2()))
                return b"application/json", body, etag
        raise not_acceptable()


def _index(source: DocumentInputs) -> bytes:
    paths = {
        root.lstrip("/"): {"serverRelativeURL": f"/openapi/v3{root}?hash={source.v3_hash(root)}"}
        for root in sorted(source.by_root)
    }
    return _encode({"paths": paths})
