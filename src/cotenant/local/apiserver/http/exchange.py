"""One HTTP request and its answer, on plain ASGI.

Problem: a framework's request and response objects cost more than the verb they carry, and a client that stops sending or reading must
not hold the server. Choice: a slotted object that picks the few headers that matter in one pass; bodies are read with a size and a time
limit; sends are timed, and a client that does not read for that long is cut off (through the transport, where the server lends it).
Limits: headers are Latin-1; of a repeated one the last counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from cotenant.local.apiserver.contract import ApiError
from cotenant.local.apiserver.http.bodies import MAX_BODY_BYTES, too_large

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

BODY_TIMEOUT_S = 30.0
SEND_TIMEOUT_S = 30.0
SLICE_BYTES = 256 << 10

_NO_CACHE = (b"cache-control", b"no-cache, private")
_WANTED_HEADERS = frozenset(
    {
        b"authorization",
        b"accept",
        b"accept-encoding",
        b"content-type",
        b"content-length",
        b"user-agent",
        b"if-none-match",
    }
)


class ClientGone(Exception):
    """The client closed, or reads nothing any more."""


class Exchange:
    """A request and its answer."""

    __slots__ = ("_receive", "_send", "code", "headers", "method", "path", "query_string", "scope", "started")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query_string: bytes = scope["query_string"]
        self._receive = receive
        self._send = send
        self.headers = {name: value for name, value in scope["headers"] if name in _WANTED_HEADERS}
        self.started = False
        self.code = 0

    def header(self, name: bytes) -> str:
        """A header's text, empty where absent."""
        value = self.headers.get(name)
        return value.decode("latin-1") if value else ""

    async def body(self) -> bytes:
        """The whole body. Raises ApiError 408 or 413, ClientGone."""
        declared = self.headers.get(b"content-length")
        if declared and declared.isdigit() and int(declared) > MAX_BODY_BYTES:
            raise too_large()
        message = await self._next_part()
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            return body
        parts = [body]
        size = len(body)
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                while message.get("more_body"):
                    message = await self._next_part()
                    part: bytes = message.get("body", b"")
                    size += len(part)
                    if size > MAX_BODY_BYTES:
                        raise too_large()
                    parts.append(part)
        except TimeoutError:
            raise ApiError(408, "Timeout", "the request's body did not arrive in time") from None
        return b"".join(parts)

    async def _next_part(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        return message

    async def wait_until_gone(self) -> None:
        """Return when the client has closed its side (used by streams; the body must have been read)."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return

    async def start(self, code: int, headers: list[Header]) -> None:
        """Send the status line and the headers."""
        self.started = True
        self.code = code
        headers.append(_NO_CACHE)
        await self._send({"type": "http.response.start", "status": code, "headers": headers})

    async def send(self, body: bytes, *, is_more: bool = False) -> None:
        """Send a piece of the body. Raises ClientGone when the client reads nothing for `SEND_TIMEOUT_S`."""
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._send({"type": "http.response.body", "body": body, "more_body": is_more})
        except TimeoutError:
            self.abort()
            raise ClientGone from None

    def abort(self) -> None:
        """Drop the connection with whatever has not been sent."""
        transport = (self.scope.get("extensions") or {}).get("cotenant.transport")
        if transport is not None:
            transport.abort()

    async def answer(self, code: int, content_type: bytes, body: bytes, extra: Iterable[Header] = ()) -> None:
        """Send a whole answer."""
        headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *extra]
        self.started = True
        self.code = code
        headers.append(_NO_CACHE)
        await self._send({"type": "http.response.start", "status": code, "headers": headers})
        if len(body) <= SLICE_BYTES:
            await self._send({"type": "http.response.body", "body": body})
        else:
            await self.send(body)
