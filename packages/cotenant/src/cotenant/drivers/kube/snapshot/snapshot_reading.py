"""Reads a copy of a cluster with lists alone.

A stranger's cluster is read once: nothing is watched, nothing is written, and the rate is that of the client
(`--limit-qps`). Kinds are listed one after another in pages. A page token that has expired starts its kind again; an
error that may pass is tried again after what the server says; a kind that may not be listed, or that fails for good, is
named and the others are read. Only nodes and pods are indispensable. An API server decides on the right before it
looks whether it serves the kind, so of a refused kind the list of what is served is asked for: one that is not
installed is absent, not denied.
Limits: pages of different kinds are of different moments, a few seconds apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import UNREADABLE, Forbidden, Gone, NotFound, Refused, Unavailable
from cotenant.drivers.kube.kinds.workload.declarations import joined
from cotenant.drivers.kube.snapshot.declared import PACKAGED, as_copied
from cotenant.drivers.kube.snapshot.kinds import COPIED, CopiedKind, copied_workloads
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot, KindRead, KindReading, ObjectCutter
from cotenant.model.errors import CotenantError, Transient
from cotenant.model.groups.workload_kind import WorkloadKind
from cotenant.model.json_object import JsonValue

ITEMS = 500  # of a page
ATTEMPTS = 5  # of a page
RESTARTS = 3  # of a kind
LONGEST_PAUSE_S = 30.0

Progress = Callable[[str, int], None]
"""The kind that is being read, and how many objects were read in all."""


class _Meta(msgspec.Struct):
    token: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct):
    metadata: _Meta | None = None
    items: list[JsonValue] | None = None


class _Version(msgspec.Struct):
    version: str = msgspec.field(default="", name="gitVersion")


async def read_snapshot(
    client: Client,
    now_s: float,
    progress: Progress = lambda kind, objects: None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    own: Sequence[WorkloadKind] = (),
) -> ClusterSnapshot:
    """Read every kind. `own`: declared kinds beside those of the package. Raises the client's errors for nodes and pods
    only.
    """
    objects: dict[str, list[bytes]] = {}
    kinds: list[KindRead] = []
    for key, copied in {**COPIED, **copied_workloads(own)}.items():
        before = sum(map(len, objects.values()))
        progress(copied.kind.plural, before)
        try:
            found, malformed = await _listed(client, copied, before, progress, sleep)
        except NotFound:
            kinds.append(KindRead(key, KindReading.ABSENT))
        except CotenantError as error:
            if copied.needed:
                raise
            is_denied = isinstance(error, Forbidden)
            if is_denied and not await _is_served(client, copied):
                kinds.append(KindRead(key, KindReading.ABSENT))
                continue
            kinds.append(KindRead(key, KindReading.DENIED if is_denied else KindReading.FAILED, str(error)))
        else:
            objects[key] = found
            kinds.append(KindRead(key, KindReading.READ, malformed=malformed))
    source = f"the API server {client.access.server}"
    workloads = joined(PACKAGED, map(as_copied, own))
    return ClusterSnapshot(now_s, objects, tuple(kinds), await _server_version(client), source, workloads=workloads)


async def _listed(
    client: Client,
    copied: CopiedKind,
    before: int,
    progress: Progress,
    sleep: Callable[[float], Awaitable[None]],
) -> tuple[list[bytes], int]:
    """The objects of a kind, and how many were none. `before`: objects read of other kinds."""
    restarts = 0
    while True:
        try:
            return await _pages(client, copied, before, progress, sleep)
        except Gone:  # the token of a page expired
            restarts += 1
            if restarts >= RESTARTS:
                raise


async def _pages(
    client: Client,
    copied: CopiedKind,
    before: int,
    progress: Progress,
    sleep: Callable[[float], Awaitable[None]],
) -> tuple[list[bytes], int]:
    cutter = ObjectCutter(copied)
    found: list[bytes] = []
    query, seen = {"limit": str(ITEMS)}, {""}
    while True:
        page = await _page(client, copied.kind.path(), query, sleep)
        found += [line for line in map(cutter.cut, page.items or ()) if line is not None]
        progress(copied.kind.plural, before + len(found))
        token = (page.metadata.token if page.metadata is not None else None) or ""
        if not token:
            return found, cutter.malformed
        if token in seen:
            raise Unavailable(f"{copied.kind.plural}: the server sends the same page again and again")
        seen.add(token)
        query["continue"] = token


async def _page(client: Client, path: str, query: dict[str, str], sleep: Callable[[float], Awaitable[None]]) -> _List:
    attempts = 0
    while True:
        try:
            body = await client.request("GET", path, query=query)
        except Transient as error:
            attempts += 1
            if attempts >= ATTEMPTS:
                raise
            await sleep(min(LONGEST_PAUSE_S, max(error.retry_after_s, 0.5 * 2**attempts)))
            continue
        try:
            return msgspec.json.decode(body, type=_List)
        except UNREADABLE as error:
            raise Unavailable(f"the answer to a list of {path} is no list: {error}") from error


class _Served(msgspec.Struct):
    name: str = ""


class _ServedList(msgspec.Struct):
    resources: list[_Served] = []


async def _is_served(client: Client, copied: CopiedKind) -> bool:
    """Whether the server has the kind; where it does not say, it has."""
    group = copied.kind.path().removesuffix(f"/{copied.kind.plural}")
    try:
        served = msgspec.json.decode(await client.request("GET", group), type=_ServedList)
    except NotFound:
        return False
    except (Refused, Transient, *UNREADABLE):
        return True
    return any(resource.name == copied.kind.plural for resource in served.resources)


async def _server_version(client: Client) -> str:
    """The server's version; empty where it does not say, which no figure depends on."""
    try:
        return msgspec.json.decode(await client.request("GET", "/version"), type=_Version).version
    except (Refused, Transient, *UNREADABLE):
        return ""
