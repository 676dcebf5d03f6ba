"""The server against misbehaving clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.fakes.waiting import patience

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.limits import ServerLimits
from cotenant.model.errors import InvalidInput
from cotenant_local.apiserver.assembly import assemble
from cotenant_local.apiserver.http.app import ApiServerApp
from cotenant_local.apiserver.http.auth import Credentials
from cotenant_local.apiserver.http.server import LIMITS, ApiServer
from cotenant_local.apiserver.storage.store import Store

Client = Callable[[bytes], Awaitable[bytes]]


def run(case: Callable[[ApiServer, Client], Awaitable[None]], limits: ServerLimits = LIMITS) -> None:
    async def main() -> None:
        api = assemble(Store())
        await api.bootstrap()
        server = ApiServer(ApiServerApp(api, Credentials("t")), limits=limits)
        await server.start()

        async def send(raw: bytes) -> bytes:
            """Everything the server sends until it closes the connection."""
            reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port)
            writer.write(raw)
            try:
                return await asyncio.wait_for(reader.read(), patience(20))
            finally:
                writer.close()

        try:
            await case(server, send)
        finally:
            await server.stop()
            await api.close()

    asyncio.run(main())


def request(line: str, *headers: str, body: bytes = b"") -> bytes:
    head = [f"{line} HTTP/1.1", "host: x", "authorization: Bearer t", "connection: close", *headers, "", ""]
    return "\r\n".join(head).encode() + body


def test_without_a_certificate_the_server_listens_on_loopback_only() -> None:
    with pytest.raises(InvalidInput, match="needs a certificate"):
        ApiServer(ApiServerApp.__new__(ApiServerApp), Address("0.0.0.0", 0))


def test_non_http_input_is_refused() -> None:
    async def case(server: ApiServer, send: Client) -> None:
        assert (await send(b"nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400 ")

    run(case)


def test_an_unbounded_request_head_is_refused() -> None:
    async def case(server: ApiServer, send: Client) -> None:
        told = await send(b"GET / HTTP/1.1\r\nx: " + b"y" * (LIMITS.head_bytes + 10))
        assert told.startswith(b"HTTP/1.1 431 ")
        assert b'"kind":"Status"' in told

    run(case)


def test_a_request_head_timeout_gives_a_status() -> None:
    async def case(server: ApiServer, send: Client) -> None:
        told = await send(b"GET / HT")
        assert told.startswith(b"HTTP/1.1 408 ")
        assert b'"reason":"Timeout"' in told

    run(case, replace(LIMITS, head_within_s=0.05))


def test_a_declared_body_over_the_limit_is_refused_before_it_is_sent() -> None:
    async def case(server: ApiServer, send: Client) -> None:
        told = await send(
            request("POST /api/v1/namespaces", "content-type: application/json", "content-length: 99999999")
        )
        assert told.startswith(b"HTTP/1.1 413 ")
        assert b'"reason":"RequestEntityTooLarge"' in told

    run(case)


def test_errors_are_statuses() -> None:
    async def case(server: ApiServer, send: Client) -> None:
        for line, code in (
            ("GET /nope", b"404"),
            ("POST /version", b"405"),
            ("GET /api/v1/x", b"404"),
            ("PUT /api", b"405"),
        ):
            told = await send(request(line))
            assert told.split(b" ", 2)[1] == code, line
            assert b'"kind":"Status"' in told

    run(case)


def test_metrics_count_requests() -> None:
    async def case(server: ApiServer, send: Client) -> None:
        await send(request("GET /api/v1/pods"))
        told = await send(request("GET /metrics"))
        assert b'apiserver_request_total{code="200",resource="pods",verb="list"} 1.0' in told

    run(case)


def test_stopping_ends_watches() -> None:
    async def main() -> None:
        api = assemble(Store())
        await api.bootstrap()
        server = ApiServer(ApiServerApp(api, Credentials("t")))
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port)
        writer.write(request("GET /api/v1/pods?watch=true"))
        assert b"200" in await reader.readline()
        await server.stop()
        rest = await asyncio.wait_for(reader.read(), patience(10))
        assert rest.endswith(b"0\r\n\r\n")
        writer.close()
        await api.close()

    asyncio.run(main())
