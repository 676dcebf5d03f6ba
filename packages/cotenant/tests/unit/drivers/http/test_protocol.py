"""One connection: what is kept, what is refused, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.fakes.servers.http_servers import LOOPBACK, Raw, head
from tests.fakes.waiting import patience

from cotenant.drivers.http.limits import DEFAULTS, ServerLimits
from cotenant.drivers.http.messages import (
    Application,
    BodyRefused,
    Disconnected,
    HttpAnswer,
    Receive,
    Scope,
    Send,
    connection_of,
    read_body,
    send_answer,
)
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.traffic import ServerTraffic

GET = head("GET", "/")


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send_answer(send, HttpAnswer(200, b"hello"))


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    try:
        await send_answer(send, HttpAnswer(200, await read_body(scope, receive)))
    except BodyRefused as refused:
        await send_answer(send, refused.answer)


def run(
    app: Application,
    case: Callable[[HttpServer], Awaitable[None]],
    limits: ServerLimits = DEFAULTS,
    loop: str = "asyncio",
    **more: Any,
) -> HttpServer:
    """A case against a server. Gives the server, stopped."""

    async def main() -> HttpServer:
        server = HttpServer(app, LOOPBACK, limits=limits, **more)
        await server.start()
        try:
            await case(server)
        finally:
            await server.stop()
        return server

    factory = asyncio.new_event_loop if loop == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(asyncio.wait_for(main(), patience(30)))


LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


@LOOPS
@pytest.mark.parametrize("reads", [1, 7, 10_000])
def test_requests_are_answered_in_order_however_they_are_read(loop: str, reads: int) -> None:
    async def case(server: HttpServer) -> None:
        client = await Raw.open(server.address)
        data = b"".join(head("POST", "/", f"Content-Length: {i}") + b"a" * i for i in range(5))
        for start in range(0, len(data), reads):
            client.send(data[start : start + reads])
            if reads > 1 or start % 50 == 0:
                await asyncio.sleep(0)
        for i in range(5):
            assert await client.answer() == (200, b"a" * i)
        client.close()

    server = run(echo, case, loop=loop)
    assert server.traffic.requests == {200: 5}
    assert server.traffic.connections == 0


def test_a_client_that_reads_nothing_is_disconnected_and_its_application_learns_it() -> None:
    ended: list[bool] = []

    async def case(server: HttpServer) -> None:
        client = await Raw.open(server.address)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.send(GET)
        while not server.traffic.refusals:
            await asyncio.sleep(0)
        client.close()

    async def watching(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        gone = asyncio.ensure_future(receive())
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            await asyncio.sleep(0)
        assert (await gone)["type"] == "http.disconnect"
        ended.append(True)

    server = run(watching, case, replace(DEFAULTS, write_stall_s=0.1))
    assert server.traffic.refusals == {"slow reader": 1}
    assert ended == [True]


def test_more_connections_than_allowed_are_refused_and_those_in_use_are_kept() -> None:
    async def case(server: HttpServer) -> None:
        first = await Raw.open(server.address)
        first.send(GET)
        await begun.wait()
        second = await Raw.open(server.address)
        assert (await second.rest()).startswith(b"HTTP/1.1 503 ")
        go.set()
        assert await first.answer() == (200, b"hello")
        first.close()
        second.close()

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await go.wait()
        await hello(scope, receive, send)

    begun, go = asyncio.Event(), asyncio.Event()
    server = run(waiting, case, replace(DEFAULTS, connections=1, linger_s=0.1))
    assert server.traffic.refusals == {"connections": 1}


@LOOPS
@pytest.mark.parametrize("speaks", [True, False], ids=["between requests", "silent from the start"])
def test_idle_connections_make_room_for_a_new_one(loop: str, speaks: bool) -> None:
    async def case(server: HttpServer) -> None:
        held = [await Raw.open(server.address) for _ in range(8)]
        for raw in held if speaks else ():
            raw.send(GET)
            assert await raw.answer() == (200, b"hello")
        for _ in range(20):
            client = await Raw.open(server.address)
            client.send(GET)
            assert await client.answer() == (200, b"hello")
            held.append(client)
        assert server.traffic.connections <= 9
        for raw in held:
            raw.close()

    server = run(hello, case, replace(DEFAULTS, connections=8), loop=loop)
    assert set(server.traffic.refusals) == {"idle"}


@LOOPS
def test_a_refusal_can_be_read_by_a_client_that_sends_everything_first(loop: str) -> None:
    async def case(server: HttpServer) -> None:
        client = await Raw.open(server.address)
        client.send(b"GET / HTTP/1.1\r\nx: " + b"y" * (4 << 20))
        await client.writer.drain()
        assert (await client.rest()).startswith(b"HTTP/1.1 431 ")
        client.close()

    run(hello, case, loop=loop)


def test_an_answer_before_the_end_of_the_body_keeps_the_connection() -> None:
    # aiohttp sends a head and its body in two writes: a refusal after the head must not break the next request.
    async def case(server: HttpServer) -> None:
        client = await Raw.open(server.address)
        for _ in range(3):
            client.send(head("POST", "/", "Content-Length: 4"))
            assert await client.answer() == (200, b"hello")
            client.send(b"body")
        assert (await client.rest()) == b""  # idle
        client.close()

    run(hello, case, replace(DEFAULTS, idle_s=0.1))


def test_a_stop_completes_what_is_in_progress_and_closes_what_is_idle() -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        await go.wait()
        await send_answer(send, HttpAnswer(200, b"done"))

    async def main() -> None:
        server = HttpServer(slow, LOOPBACK)
        await server.start()
        idle, busy = await Raw.open(server.address), await Raw.open(server.address)
        busy.send(GET)
        await asked.wait()
        stopping = asyncio.create_task(server.stop())
        assert await idle.rest() == b""
        go.set()
        answer = await busy.rest()
        assert answer.endswith(b"done")
        assert b"connection: close" in answer
        await stopping
        with pytest.raises(ConnectionError):
            await Raw.open(server.address)
        idle.close()
        busy.close()

    asyncio.run(asyncio.wait_for(main(), patience(30)))


def test_a_stop_does_not_wait_for_ever() -> None:
    ended: list[str] = []

    async def hangs(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def case(server: HttpServer) -> None:
        client = await Raw.open(server.address)
        client.send(GET)
        while server.traffic.in_flight == 0:
            await asyncio.sleep(0)

    run(hangs, case, replace(DEFAULTS, stop_within_s=0.05))
    assert ended == ["cancelled"]


def test_an_upgrade_is_answered_as_http_and_the_connection_ends() -> None:
    async def case(server: HttpServer) -> None:
        client = await Raw.open(server.address)
        client.send(head("GET", "/", "Connection: Upgrade", "Upgrade: websocket"))
        assert (await client.rest()).endswith(b"hello")
        client.close()

    run(hello, case)


def test_an_application_can_drop_its_connection() -> None:
    async def drops(scope: Scope, receive: Receive, send: Send) -> None:
        connection = connection_of(scope)
        assert connection is not None
        connection.abort()
        with pytest.raises(Disconnected):
            await read_body(scope, receive)
        assert connection_of(scope) is None

    async def case(server: HttpServer) -> None:
        client = await Raw.open(server.address)
        client.send(head("POST", "/", "Content-Length: 4"))
        assert await client.rest() == b""
        client.close()

    run(drops, case)


def test_dates_only_where_they_are_asked_for() -> None:
    for has_dates in (True, False):

        async def case(server: HttpServer, has_dates: bool = has_dates) -> None:
            client = await Raw.open(server.address)
            client.send(head("GET", "/", "Connection: close"))
            assert (b"\r\ndate: " in await client.rest()) is has_dates
            client.close()

        run(hello, case, has_dates=has_dates)


def test_requests_are_counted_however_they_end() -> None:
    asked = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/fails":
            raise RuntimeError("a defect")
        if scope["path"] == "/hangs":
            asked.set()
            await receive()
            await receive()  # until the client disconnects
            return
        await send_answer(send, HttpAnswer(204))

    async def case(server: HttpServer) -> None:
        for path, status in (("/", 204), ("/fails", 500), ("/", 204)):
            client = await Raw.open(server.address)
            client.send(head("GET", path))
            assert (await client.answer())[0] == status
            client.close()
        client = await Raw.open(server.address)
        client.send(head("GET", "/hangs"))
        await asked.wait()
        assert server.traffic.in_flight == 1
        client.send(b"GET /next")  # the head of another request, which does not end
        client.close()
        while server.traffic.connections:
            await asyncio.sleep(0)
        assert server.traffic.in_flight == 0

    traffic = ServerTraffic("test", lambda scope: scope["query_string"] == b"watch=1")
    server = run(app, case, traffic=traffic)
    assert server.traffic.requests == {204: 2, 500: 1, 0: 1}
