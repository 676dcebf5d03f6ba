"""What a server serves: the versions of kinds, and the fields of its pods.

Discovery tells the resources of each version of a group; the OpenAPI document of the core group, which the index names
by a hash of its contents, tells the fields.

Source: Kubernetes documentation "The Kubernetes API" (discovery, OpenAPI V3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import UNREADABLE, Forbidden, NotFound, Unavailable
from cotenant.drivers.kube.kinds.pod.coverage import Definition

T = TypeVar("T")

OPENAPI = "/openapi/v3"
_CORE = "api/v1"


class _Document(msgspec.Struct):
    server_url: str = msgspec.field(default="", name="serverRelativeURL")


class _Index(msgspec.Struct):
    paths: dict[str, _Document] = msgspec.field(default_factory=dict)


class _Components(msgspec.Struct):
    schemas: dict[str, Definition] = msgspec.field(default_factory=dict)


class _OpenApi(msgspec.Struct):
    components: _Components = msgspec.field(default_factory=_Components)


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct):
    versions: list[_Version] = msgspec.field(default_factory=list)


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] = msgspec.field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CoreDocument:
    """The definitions of the core group; `name` changes with them."""

    name: str
    definitions: Mapping[str, Definition] = field(default_factory=dict)


async def openapi_index(client: Client) -> bytes:
    """The index of the OpenAPI documents: it changes with everything that is served. Raises the client's errors."""
    return await client.request("GET", OPENAPI)


async def core_document(client: Client, index: bytes, known: str = "") -> CoreDocument | None:
    """The OpenAPI document of the core group; None if it is the one named `known`. Raises the client's errors."""
    found = _decoded(_Index, index).paths.get(_CORE)
    url = found.server_url if found is not None else f"{OPENAPI}/{_CORE}"
    if url == known:
        return None
    return CoreDocument(url, _decoded(_OpenApi, await client.request("GET", url)).components.schemas)


async def served_versions(client: Client, group: str, plurals: Iterable[str]) -> dict[str, set[str]]:
    """The versions in which resources of a group are served, by plural; none where the group is not there, or discovery
    is not permitted.
    """
    wanted = set(plurals)
    served: dict[str, set[str]] = {}
    try:
        versions = _decoded(_Group, await client.request("GET", f"/apis/{group}")).versions
        for entry in versions:
            listed = _decoded(_Resources, await client.request("GET", f"/apis/{group}/{entry.version}"))
            for resource in listed.resources:
                if resource.name in wanted:
                    served.setdefault(resource.name, set()).add(entry.version)
    except (NotFound, Forbidden):
        pass
    return served


def _decoded(form: type[T], body: bytes) -> T:
    try:
        return msgspec.json.decode(body, type=form)
    except UNREADABLE as error:
        raise Unavailable(f"the answer is no {form.__name__.strip('_')}: {error}") from error
