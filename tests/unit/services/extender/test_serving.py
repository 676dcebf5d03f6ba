"""How connections are held."""

import asyncio
import socket

import pytest

from cotenant.services.extender.serving import Address, Listener
from cotenant.services.reporting.asgi import Answer, Receive, Scope, Send, send_answer


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send_answer(send, Answer(200, b"hello"))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_no_delay_on_what_is_accepted(loop: str) -> None:
    # An answer is two writes: with Nagle's algorithm and delayed acknowledgements every call takes 40 ms more (seen).
    factory = asyncio.new_event_loop if loop == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    seen: list[int] = []

    async def live() -> None:
        listener = Listener(hello, Address("127.0.0.1", 0))
        stop = asyncio.Event()
        running = asyncio.create_task(listener.run(stop))
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.address.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"hello")
        (connection,) = listener._server.server_state.connections
        assert connection.transport is not None
        accepted = connection.transport.get_extra_info("socket")
        seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()
        stop.set()
        await running

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(live())
    assert seen[0] != 0
