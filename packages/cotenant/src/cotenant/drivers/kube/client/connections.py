"""A pool of keep-alive HTTP/1.1 connections with one request at a time on each, for small and frequent requests such as
binds.

A scheduler makes a thousand small requests a second, and a general client spends three times as much on each as its
parsing and writing cost (docs/adr/0010 has the figures). A protocol on httptools' parser; a request is one write of
prepared headers and the body; a response is its status, its body and Retry-After. A connection that misbehaves in any
way is closed and never used again.
Limits: no proxies, redirects, pipelining, trailers or bodies that end with the connection: the client uses aiohttp
where those may come. A GET is repeated once where a kept connection turns out to be closed before any byte of a
response; nothing else is.
Source: RFC 9112.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from ssl import SSLContext
from typing import cast

import httptools

from cotenant.drivers.http.exact_reads import ReadBuffer
from cotenant.drivers.kube.client.errors import Unavailable
from cotenant.model.errors import InvalidInput

CONNECT_S = 10.0
# Servers close what is idle, after 5 s at the earliest that we know of (uvicorn); a write that meets the closing is
# lost and may not be repeated.
IDLE_S = 4.0


@dataclass(frozen=True, slots=True)
class Response:
    """The response to a request."""

    status: int
    body: bytes
    retry_after: str


class _Connection(asyncio.Protocol):
    """One connection. The parser calls the `on_` methods."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.waiter: asyncio.Future[Response] | None = None
        self.used = False  # has served a request before
        self.free_s = 0.0  # since when it is idle, in the loop's time
        self.heard = False  # any byte of the current response
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._retry_after = ""

    @property
    def open(self) -> bool:
        """Whether it can send a request."""
        return self.transport is not None and not self.transport.is_closing()

    def send(self, raw: bytes, waiter: asyncio.Future[Response]) -> None:
        """Send a request; the response goes to the waiter."""
        self.waiter = waiter
        self.heard = False
        if self.transport is not None:
            self.transport.write(raw)

    def close(self) -> None:
        """Drop the connection, and the response in flight with it."""
        self.waiter = None
        if self.transport is not None:
            self.transport.abort()

    def expire(self) -> None:
        """The response has taken too long."""
        self._fail(TimeoutError("no answer in time"))
        self.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._fail(ConnectionResetError(str(exc) if exc is not None else "the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        if self.waiter is None:
            self.close()  # no request is in flight: the data cannot be a response
            return
        self.heard = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"the answer is no HTTP: {error}"))
            self.close()

    def on_message_begin(self) -> None:
        if self.waiter is None:
            self.close()  # a second response
        self._parts = []
        self._retry_after = ""

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(name) == 11 and name.lower() == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        waiter = self.waiter
        if status < 200 or waiter is None:
            return  # an interim response
        self.waiter = None
        self.used = True
        parts, self._parts = self._parts, []
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if not self._parser.should_keep_alive() and self.transport is not None:
            self.transport.close()
        if not waiter.done():
            waiter.set_result(Response(status, body, self._retry_after))

    def _fail(self, error: Exception) -> None:
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)


class ConnectionPool:
    """Connections to one server, as many as there are requests at once; the caller limits that."""

    def __init__(self, host: str, port: int, tls: SSLContext | None, server_name: str, timeout_s: float) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._server_name = (server_name or host) if tls is not None else None
        self._timeout_s = timeout_s
        self._free: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._reads = ReadBuffer()
        self._retired = False

    async def exchange(self, method: str, target: str, head: bytes, body: bytes | None) -> Response:
        """One request. `head` is the headers, each line ended. `Unavailable` says whether it may have taken effect."""
        if not (target.isascii() and target.isprintable()) or " " in target:
            raise InvalidInput("path", target, "an encoded URL path")
        length = b"Content-Length: %d\r\n\r\n" % len(body) if body is not None else b"\r\n"
        raw = f"{method} {target} HTTP/1.1\r\n".encode("ascii") + head + length + (body or b"")
        doing = f"{method} {target}"
        while True:
            connection = await self._acquire(doing)
            fresh = not connection.used
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[Response] = loop.create_future()
            timer = loop.call_later(self._timeout_s, connection.expire)
            self._busy.add(connection)
            try:
                connection.send(raw, waiter)
                answer = await waiter
            except OSError as error:  # ConnectionError and TimeoutError are
                if method == "GET" and not fresh and not connection.heard and isinstance(error, ConnectionError):
                    continue
                raise Unavailable(f"{doing}: {error}", maybe_done=method != "GET") from error
            except BaseException:
                connection.close()
                raise
            finally:
                timer.cancel()
                self._busy.discard(connection)
            if self._retired:
                connection.close()
            elif connection.open:
                connection.free_s = loop.time()
                self._free.append(connection)
            return answer

    def retire(self) -> None:
        """Let requests in flight end, and reuse no connection: a pool with other TLS settings takes over."""
        self._retired = True
        for connection in self._free:
            connection.close()
        self._free.clear()

    def close(self) -> None:
        """Drop every connection; requests in flight fail."""
        for connection in (*self._free, *self._busy):
            connection.expire()
        self._free.clear()

    async def _acquire(self, doing: str) -> _Connection:
        oldest_s = asyncio.get_running_loop().time() - IDLE_S
        while self._free:
            connection = self._free.pop()
            if connection.open and connection.free_s >= oldest_s:
                return connection
            connection.close()
        try:
            async with asyncio.timeout(CONNECT_S):
                made = _Connection()
                await asyncio.get_running_loop().create_connection(
                    self._reads.before(lambda: made),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._server_name,
                )
                return made
        except OSError as error:
            said = str(error) or f"no connection to {self._host}:{self._port} within {CONNECT_S:g} s"
            raise Unavailable(f"{doing}: {said}") from error
