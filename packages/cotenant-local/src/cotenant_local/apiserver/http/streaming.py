"""Watches over HTTP: event lines as a chunked body until the timeout, a slow reader, or server shutdown.

Thousands of events per second to many watchers, some of which stop reading. Ready lines are sent as one chunk, the same
bytes for all JSON watchers; the store ends a watch whose buffer overflows, and a send without progress is aborted. A
watch from before the retained history gets 200 and an ERROR event with the 410, as from the real server. Tables are
rendered per watcher.
Limits: no WebSocket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant.model.json_object import JsonObject
from cotenant_local.apiserver.columns.tables import TableBuilder
from cotenant_local.apiserver.contract import ListOptions, RequestTarget, Resource
from cotenant_local.apiserver.http.encoding import rendering
from cotenant_local.apiserver.http.encoding.accept import Representation, ResponseForm, not_acceptable
from cotenant_local.apiserver.http.exchange import ClientGone, Exchange
from cotenant_local.apiserver.http.protocols import ApiProtocol, WatchProtocol

_EXPIRED = 410


class Streams:
    """The open watches of a server."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: set[WatchProtocol] = set()

    def __len__(self) -> int:
        return len(self._open)

    def close(self) -> None:
        """End all watches."""
        for watch in tuple(self._open):
            watch.close()

    async def run(
        self,
        exchange: Exchange,
        api: ApiProtocol,
        target: RequestTarget,
        options: ListOptions,
        representation: Representation,
        include: str,
    ) -> None:
        """Serve one watch to its end. Raises ApiError only before the stream has started."""
        if representation.is_yaml:
            raise not_acceptable()
        try:
            watch = api.watch(target, options)
        except ApiError as error:
            if error.code != _EXPIRED:
                raise
            await exchange.start(200, [(b"content-type", b"application/json")])
            await exchange.send(b'{"type":"ERROR","object":%s}\n' % rendering.encode(error.status()))
            return
        change = (
            Shaper(target.resource, representation, include, self._clock)
            if representation.form is not ResponseForm.OBJECT
            else None
        )
        self._open.add(watch)
        disconnect = asyncio.ensure_future(_close_when_gone(exchange, watch))
        try:
            await exchange.start(200, [(b"content-type", b"application/json")])
            await exchange.send(b"", is_more=True)
            while chunk := await watch.chunk():
                await exchange.send(chunk if change is None else change.lines(chunk), is_more=True)
            if not disconnect.done():
                await exchange.send(b"")
        except ClientGone:
            return
        finally:
            disconnect.cancel()
            watch.close()
            self._open.discard(watch)


async def _close_when_gone(exchange: Exchange, watch: WatchProtocol) -> None:
    await exchange.wait_until_gone()
    watch.close()


class Shaper:
    """Converts JSON events into events of Tables or metadata."""

    def __init__(
        self, resource: Resource, representation: Representation, include: str, clock: Callable[[], float]
    ) -> None:
        self._wanted = representation
        self._table = TableBuilder(resource, include, representation.group_version)
        self._clock = clock
        self._has_definitions = True  # the next event is the first

    def lines(self, chunk: bytes) -> bytes:
        """Convert each event line."""
        return b"".join(self._line(line) for line in chunk.splitlines())

    def _line(self, line: bytes) -> bytes:
        event: JsonObject = rendering.decode(line)
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            return line + b"\n"
        metadata = obj.get("metadata", {})
        shown: JsonObject
        if self._wanted.form is ResponseForm.METADATA:
            version = f"meta.k8s.io/{self._wanted.group_version}"
            shown = {"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": metadata}
        else:
            version_only = {"resourceVersion": metadata.get("resourceVersion", "")}
            if kind == "BOOKMARK":
                rows = []
                if annotations := metadata.get("annotations"):
                    version_only["annotations"] = annotations
                    rows = [{"cells": [], "object": obj}]
            else:
                rows = [self._table.row(obj, self._clock())]
            shown = self._table.document(rows, version_only, has_definitions=self._has_definitions)
            self._has_definitions = False
        return rendering.encode({"type": kind, "object": shown}) + b"\n"
