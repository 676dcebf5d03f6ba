"""One HTTP request and its response, on plain ASGI.

A framework's request and response objects cost more than the verb they carry, and a client that stops sending or
reading must not hold the server. A slotted object that picks the few headers that matter in one pass; bodies are read
within the server's limits (`drivers/http`), which also disconnects a client that reads nothing.
Limits: headers are Latin-1; the last of a repeated header is used.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.drivers.http.messages import BodyRefused, Disconnected, Receive, Scope, Send, connection_of, read_body
from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.http.bodies import MAX_BODY_BYTES, too_large

Header = tuple[bytes, bytes]


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
        b"impersonate-group",
        b"impersonate-uid",
        b"impersonate-user",
    }
)


class ClientGone(Exception):
    """The client disconnected."""


class Exchange:
    """A request and its response."""

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
        """A header's text, empty if absent."""
        value = self.headers.get(name)
        return value.decode("latin-1") if value else ""

    async def body(self) -> bytes:
        """The whole body. Raises ApiError 408 or 413, ClientGone."""
        try:
            return await read_body(self.scope, self._receive, MAX_BODY_BYTES)
        except BodyRefused as refused:
            if refused.answer.status == 413:
                raise too_large() from None
            raise ApiError(408, "Timeout", "the request's body did not arrive in time") from None
        except Disconnected:
            raise ClientGone from None

    async def wait_until_gone(self) -> None:
        """Return when the client has disconnected (used by streams; the body must have been read)."""
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
        """Send a piece of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": is_more})

    def abort(self) -> None:
        """Drop the connection and any unsent data."""
        connection = connection_of(self.scope)
        if connection is not None:
            connection.abort()

    async def answer(self, code: int, content_type: bytes, body: bytes, extra: Iterable[Header] = ()) -> None:
        """Send a complete response."""
        headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *extra]
        self.started = True
        self.code = code
        headers.append(_NO_CACHE)
        await self._send({"type": "http.response.start", "status": code, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})
