"""A small HTTP server that says exactly what a test scripts: bytes as they are, cut where the test cuts them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from cotenant.drivers.http.ports import HeldPort, hold_port
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    pairs: tuple[tuple[str, str], ...] = ()  # headers that come twice are here twice


class Exchange:
    """One request, and the means to answer it."""

    def __init__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self._writer = writer

    async def answer(self, body: Any = None, code: int = 200, headers: tuple[str, ...] = ()) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        head = [f"HTTP/1.1 {code} X", "Content-Type: application/json", f"Content-Length: {len(raw)}", *headers]
        await self.send("\r\n".join(head).encode() + b"\r\n\r\n" + raw)

    async def status(self, code: int, reason: str, message: str = "", **more: Any) -> None:
        await self.answer({"kind": "Status", "code": code, "reason": reason, "message": message, **more}, code)

    async def begin(self) -> None:
        """Start a stream."""
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, raw: bytes) -> None:
        await self.send(b"%x\r\n%s\r\n" % (len(raw), raw))

    async def end(self) -> None:
        """End a stream properly."""
        await self.send(b"0\r\n\r\n")

    async def send(self, raw: bytes) -> None:
        self._writer.write(raw)
        await self._writer.drain()

    def cut(self) -> None:
        """Drop the connection as it is."""
        self._writer.close()


Handler = Callable[[Exchange], Awaitable[None]]


@dataclass
class ScriptedServer:
    """Gives each request to `handler`; remembers them all."""

    handler: Handler
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    held: HeldPort = field(default_factory=hold_port)  # also while nobody listens
    listening: asyncio.Server | None = None
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.held.port

    async def listen(self) -> None:
        """Take connections; a second time at the same port."""
        self.listening = await asyncio.start_server(self.serve, "127.0.0.1", self.port, reuse_address=True)

    def hang_up(self) -> None:
        """Stop listening, and drop every connection."""
        if self.listening is not None:
            self.listening.close()
        for writer in self.writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.rstrip().split("\r\n")
                method, target, _ = first.split(" ")
                pairs = [(k.lower(), v.strip()) for k, v in (line.split(":", 1) for line in lines)]
                headers = dict(pairs)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                parts = urlsplit(target)
                query = {k: v[0] for k, v in parse_qs(parts.query).items()}
                request = Request(method, parts.path, query, headers, body, tuple(pairs))
                self.requests.append(request)
                await self.handler(Exchange(request, writer))
        writer.close()


@contextlib.asynccontextmanager
async def _serving(handler: Handler) -> Any:
    script = ScriptedServer(handler)
    await script.listen()
    try:
        yield script
    finally:
        script.hang_up()
        script.held.close()


@contextlib.asynccontextmanager
async def _talking(handler: Handler, credentials: Any = None, **options: Any) -> Any:
    async with _serving(handler) as server:
        access = Access(f"http://127.0.0.1:{server.port}", credentials or FixedCredential(Credential("Bearer t")))
        async with Client(access, **({"qps": inf, "burst": 1, "in_flight": 8} | options)) as client:
            yield server, client


@pytest.fixture
def serving() -> Any:
    """`async with serving(handler) as server`."""
    return _serving


@pytest.fixture
def talking() -> Any:
    """`async with talking(handler, **client options) as (server, client)`."""
    return _talking
