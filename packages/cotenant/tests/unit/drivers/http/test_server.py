"""How connections are held."""

import asyncio
import socket

import pytest
from tests.fakes.waiting import patience

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.messages import HttpAnswer, Receive, Scope, Send, send_answer
from cotenant.drivers.http.server import HttpServer


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send_answer(send, HttpAnswer(200, b"hello"))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_no_delay_on_what_is_accepted(loop: str) -> None:
    # An answer is two writes: with Nagle's algorithm and delayed acknowledgements every call takes 40 ms more (seen).
    factory = asyncio.new_event_loop if loop == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    seen: list[int] = []

    async def live() -> None:
        server = HttpServer(hello, Address("127.0.0.1", 0))
        stop = asyncio.Event()
        running = asyncio.create_task(server.run(stop))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"hello")
        (connection,) = server._state.connections
        assert connection.transport is not None
        accepted = connection.transport.get_extra_info("socket")
        seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()
        stop.set()
        await running

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(live())
    assert seen[0] != 0


async def polite(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers when the body is over."""
    size = 0
    while True:
        part = await receive()
        size += len(part.get("body", b""))
        if not part.get("more_body"):
            break
    await send_answer(send, HttpAnswer(200, f"{size} bytes".encode()))


def said(*parts: bytes) -> bytes:
    """What comes back on one connection."""

    async def live() -> bytes:
        server = HttpServer(polite, Address("127.0.0.1", 0))
        stop = asyncio.Event()
        running = asyncio.create_task(server.run(stop))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port)
        answer = asyncio.create_task(reader.read())
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.001)  # a read of its own
            return await answer
        except ConnectionError:
            answer.cancel()
            return b""
        finally:
            writer.close()
            stop.set()
            await running

    return asyncio.run(asyncio.wait_for(live(), patience(20)))


@pytest.mark.parametrize(
    ("start", "more", "end"),
    [
        (b"GET / HTTP/1.1\r\nConnection: close\r\n", b"x: %s\r\n", b"\r\n"),
        (b"GET /", b"%s", b" HTTP/1.1\r\nConnection: close\r\n\r\n"),
        (b"POST / HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"x: %s\r\n", b"\r\n"),
    ],
    ids=["headers", "path", "trailers"],
)
def test_a_head_or_trailers_may_be_long_but_not_without_bound(start: bytes, more: bytes, end: bytes) -> None:
    part = more % (b"a" * 4000)
    assert said(start, *[part] * 10, end).startswith(b"HTTP/1.1 200 ")
    assert said(start, *[part] * 200, end).startswith(b"HTTP/1.1 431 ")


def test_a_large_body_is_no_large_head() -> None:
    one = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + b"b" * 300_000
    last = one.replace(b"Host: x", b"Host: x\r\nConnection: close")
    assert said(one + one[:50], one[50:], last).count(b"300000 bytes") == 3
