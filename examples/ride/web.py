"""A small HTTP/1.1 server and client over asyncio with keep-alive and pipelining; every call is a span."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

Handler = Callable[[dict[str, str]], Awaitable[Any]]


class Peer:
    """Another service at HOST:PORT, over connections that are kept."""

    def __init__(self, name: str, address: str, tracer: trace.Tracer, *, store: bool = False) -> None:
        self._name, self._tracer, self._store = name, tracer, store
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def get(self, path: str) -> Any:
        """The decoded JSON of a GET."""
        attributes = (
            {"db.system": "ride-store", "db.namespace": self._name} if self._store else {"peer.service": self._name}
        )
        with self._tracer.start_as_current_span(
            f"GET {urlsplit(path).path}", kind=SpanKind.CLIENT, attributes=attributes
        ):
            headers: dict[str, str] = {}
            if not self._store:
                propagate.inject(headers)
            lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
            if self._idle:
                reader, writer = self._idle.pop()
            else:
                reader, writer = await asyncio.open_connection(self._host, self._port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {self._name}\r\n{lines}\r\n".encode())
            status, _, body = await _message(reader)
            self._idle.append((reader, writer))
            if " 200 " not in status:
                raise RuntimeError(f"{self._name} answered {status}")
            return json.loads(body)


async def serve(name: str, address: str, handlers: dict[str, Handler], tracer: trace.Tracer | None) -> None:
    """Answer GETs of `handlers` for ever. Without a tracer no span is made: a store is seen by its callers only."""

    async def answer(first: str, headers: dict[str, str]) -> tuple[int, Any]:
        parts = urlsplit(first.split(" ")[1])
        handler = handlers.get(parts.path)
        if handler is None:
            return 404, {"error": "not found"}
        asked = dict(parse_qsl(parts.query))
        if tracer is None:
            return 200, await handler(asked)
        context = propagate.extract(headers)
        with tracer.start_as_current_span(f"GET {parts.path}", context=context, kind=SpanKind.SERVER) as span:
            try:
                return 200, await handler(asked)
            except Exception as error:
                span.set_status(Status(StatusCode.ERROR, str(error)))
                return 500, {"error": str(error)}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                first, headers, _ = await _message(reader)
                status, body = await answer(first, headers)
                data = json.dumps(body).encode()
                writer.write(b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    host, _, port = address.rpartition(":")
    server = await asyncio.start_server(connected, host, int(port))
    port_number = server.sockets[0].getsockname()[1]
    print(f"{name}: http://{host}:{port_number}", flush=True)
    await server.serve_forever()


def arguments(count: int) -> list[str]:
    """The command's arguments, each HOST:PORT: of this process, then of those that it calls."""
    given = sys.argv[1:]
    if len(given) != count:
        raise SystemExit(f"expected {count} addresses HOST:PORT")
    return given


async def _message(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {
        key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in head[1:] if line)
    }
    length = int(headers.get("content-length", "0"))
    return head[0], headers, await reader.readexactly(length) if length else b""
