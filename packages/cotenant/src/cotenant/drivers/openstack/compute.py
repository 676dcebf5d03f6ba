"""Requests to Nova. openstacksdk finds the cloud (clouds.yaml, $OS_*), authenticates and retries; bodies are read as
Nova writes them, since the library's objects rename fields from version to version.

The library blocks, so each call runs in a thread.
Source: OpenStack Compute API reference.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from cotenant.model.errors import Permanent, Unsupported
from cotenant.model.json_object import JsonMapping, JsonObject, JsonValue

if TYPE_CHECKING:
    from openstack.compute.v2._proxy import Proxy

_MICROVERSION = "2.64"  # flavors in servers (2.47), and a server group's one policy (2.64)
_LIBRARIES = frozenset({"openstack", "keystoneauth1"})


class _Answer(Protocol):
    status_code: int
    text: str

    def json(self) -> JsonValue: ...


class Compute:
    """Nova of one cloud, as the cloud's user sees it."""

    def __init__(self, cloud: str) -> None:
        self._cloud = cloud
        self._proxy: Proxy | None = None

    async def servers(self, *, everywhere: bool = False) -> list[JsonMapping]:
        """All servers with details; `everywhere`: of all projects."""
        return await self._pages("/servers/detail", "servers", {"all_tenants": "1"} if everywhere else {})

    async def flavors(self) -> list[JsonMapping]:
        """Names and ids of sizes."""
        return await self._pages("/flavors", "flavors", {})

    async def groups(self) -> list[JsonMapping]:
        """Server groups of the project."""
        return list((await self._request("GET", "/os-server-groups")).get("server_groups") or ())

    async def act(self, uid: str, action: JsonMapping) -> None:
        """One action on a server. Raises `Permanent` where Nova refuses."""
        await self._request("POST", f"/servers/{uid}/action", action)

    async def set_metadata(self, uid: str, key: str, value: str) -> None:
        """One key; an empty value deletes it."""
        if value:
            await self._request("POST", f"/servers/{uid}/metadata", {"metadata": {key: value}})
        else:
            await self._request("DELETE", f"/servers/{uid}/metadata/{key}")

    async def _pages(self, path: str, name: str, query: dict[str, str]) -> list[JsonMapping]:
        found: list[JsonMapping] = []
        asked = dict(query)
        while True:
            answer = await self._request("GET", path, query=asked)
            page = answer.get(name) or []
            found += page
            links = answer.get(f"{name}_links") or ()
            if not page or not any(link.get("rel") == "next" for link in links):
                return found
            asked["marker"] = str(page[-1]["id"])

    async def _request(
        self, method: str, path: str, body: JsonMapping | None = None, query: dict[str, str] | None = None
    ) -> JsonObject:
        return await asyncio.to_thread(self._exchange, method, path, body, query)

    def _exchange(self, method: str, path: str, body: JsonMapping | None, query: dict[str, str] | None) -> JsonObject:
        try:
            proxy = self._connected()
            answer: _Answer = proxy.request(path, method, json=body, params=query, microversion=_MICROVERSION)
            if answer.status_code >= 400:
                raise Permanent(f"Nova answers {answer.status_code}: {_said(answer)}")
            content = answer.json() if method == "GET" else {}
        except Exception as error:  # the libraries have several roots of errors
            if type(error).__module__.partition(".")[0] in _LIBRARIES:
                raise Permanent(f"OpenStack: {error}") from error
            raise
        if not isinstance(content, dict):
            raise Permanent(f"Nova's answer to {path} is no object")
        return content

    def _connected(self) -> Proxy:
        if self._proxy is None:
            try:
                import openstack
            except ImportError:
                raise Unsupported("a list of servers", "openstacksdk: pip install openstacksdk") from None
            self._proxy = openstack.connect(cloud=self._cloud).compute
        return self._proxy


def _said(answer: _Answer) -> str:
    try:
        content = answer.json()
    except ValueError:
        return answer.text[:200]
    for fault in content.values() if isinstance(content, dict) else ():
        if isinstance(fault, dict) and fault.get("message"):
            return str(fault["message"])
    return answer.text[:200]
