"""Objects of any kind as mappings: found by apiVersion and kind, read, applied, patched and deleted.

The server's discovery says under which path a kind is served; a kind that is not known there is looked for once more,
since its definition may have been applied just before.
Source: Kubernetes documentation, "API discovery" and "Server-Side Apply".
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

import msgspec

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import UNREADABLE, NotFound, Unavailable
from cotenant.model.json_object import JsonMapping, JsonObject

T = TypeVar("T")

APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
_PAGE = 500


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind as the server has it."""

    api_version: str
    plural: str
    is_namespaced: bool

    def path(self, namespace: str = "", name: str = "") -> str:
        """The URL path of the collection or of one object."""
        path = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        if self.is_namespaced and namespace:
            path += f"/namespaces/{quote(namespace, safe='')}"
        path += f"/{self.plural}"
        return f"{path}/{quote(name, safe='')}" if name else path


class _Resource(msgspec.Struct, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _Resources(msgspec.Struct, frozen=True):
    resources: list[_Resource] = []


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    preferred_version: _Version = _Version()


class _ListMeta(msgspec.Struct, frozen=True):
    continue_: str = msgspec.field(default="", name="continue")


class _Listed(msgspec.Struct, frozen=True):
    items: list[dict[str, object]] = []
    metadata: _ListMeta = _ListMeta()


class Objects:
    """Objects of one server."""

    def __init__(self, client: Client, field_manager: str) -> None:
        self._client = client
        self._manager = field_manager
        self._known: dict[str, dict[str, ServedKind]] = {}

    async def served(self, api_version: str, kind: str) -> ServedKind | None:
        """A kind's place, None where the server has none such."""
        found = self._known.get(api_version, {}).get(kind)
        if found is None:
            self._known[api_version] = await self._discovered(api_version)
            found = self._known[api_version].get(kind)
        return found

    async def served_in_group(self, group: str, kind: str) -> ServedKind | None:
        """As `served`, in the version that the server prefers."""
        if not group:
            return await self.served("v1", kind)
        try:
            answer = await self._client.request("GET", f"/apis/{group}")
        except NotFound:
            return None
        return await self.served(_decoded(_Group, answer).preferred_version.group_version, kind)

    async def get(self, place: ServedKind, namespace: str, name: str) -> JsonObject | None:
        """One object, None where there is none."""
        try:
            return _mapping(await self._client.request("GET", place.path(namespace, name)))
        except NotFound:
            return None

    async def every(
        self, place: ServedKind, namespace: str, query: Mapping[str, str] | None = None
    ) -> list[JsonObject]:
        """All objects of a namespace that a query matches."""
        found: list[JsonObject] = []
        asked = {**(query or {}), "limit": str(_PAGE)}
        while True:
            listed = _decoded(_Listed, await self._client.request("GET", place.path(namespace), query=asked))
            found += listed.items
            if not listed.metadata.continue_:
                return found
            asked["continue"] = listed.metadata.continue_

    async def apply(self, place: ServedKind, document: JsonMapping) -> JsonObject:
        """Server-side apply, as the manager of all fields that the document has, whoever had them before."""
        metadata = document["metadata"]
        answer = await self._client.request(
            "PATCH",
            place.path(metadata.get("namespace") or "", metadata["name"]),
            msgspec.json.encode(document),
            query={"fieldManager": self._manager, "force": "true"},
            content_type=APPLY_PATCH,
        )
        return _mapping(answer)

    async def merge(self, place: ServedKind, namespace: str, name: str, patch: JsonMapping) -> JsonObject:
        """A merge patch."""
        answer = await self._client.request(
            "PATCH",
            place.path(namespace, name),
            msgspec.json.encode(patch),
            query={"fieldManager": self._manager},
            content_type=MERGE_PATCH,
        )
        return _mapping(answer)

    async def create(self, place: ServedKind, namespace: str, document: JsonMapping) -> JsonObject:
        """A new object; raises `AlreadyExists`."""
        body = msgspec.json.encode(document)
        return _mapping(await self._client.request("POST", place.path(namespace), body))

    async def delete(self, place: ServedKind, namespace: str, name: str, uid: str = "") -> None:
        """Delete an object and, after it, what it owns; nothing where it is gone."""
        options: JsonObject = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        with suppress(NotFound):
            await self._client.request("DELETE", place.path(namespace, name), msgspec.json.encode(options))

    async def _discovered(self, api_version: str) -> dict[str, ServedKind]:
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            listed = _decoded(_Resources, await self._client.request("GET", path))
        except NotFound:
            return {}
        return {
            one.kind: ServedKind(api_version, one.name, one.namespaced)
            for one in listed.resources
            if "/" not in one.name
        }


def _decoded(form: type[T], body: bytes) -> T:
    try:
        return msgspec.json.decode(body, type=form)
    except UNREADABLE as error:
        raise Unavailable(f"the answer is no {form.__name__.strip('_')}: {error}") from error


def _mapping(body: bytes) -> JsonObject:
    try:
        return msgspec.json.decode(body, type=dict)
    except UNREADABLE as error:
        raise Unavailable(f"the answer is no object: {error}", maybe_done=True) from error
