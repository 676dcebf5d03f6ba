"""The way of a request: from the bytes of an export of its spans to the replica's signal at its node's agent.

The trace process's application serves on loopback in this thread, and an agent's link listens to it. Requests are
slower than their objective allows; the first compile kernels and are not counted.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.fakes.servers.spans import EPOCH_S, Given, request_of

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.traces.objective import ServiceObjective
from cotenant.model.traces.spans import SpanKind
from cotenant.services.agent.trace_link import TraceLink
from cotenant.services.reporting.signals import SignalLine
from cotenant.services.traces.app import TracesApp
from cotenant.services.traces.metrics import TraceMetrics
from tools.walk.recorder import Walk, recording

_WARM, _COUNTED = 2, 3
_OBJECTIVE = ServiceObjective("shop/cart-latency", "shop", "cart", threshold_us=80_000)


def walk() -> Walk:
    """The shortest of some requests' ways."""
    return min(asyncio.run(_walks()), key=lambda way: (len(way.files), way.changes))


async def _walks() -> list[Walk]:
    now_s = float(EPOCH_S + 10)
    engine = TraceEngine(now_s, span_tags)
    application = TracesApp(engine, TraceMetrics(engine), lambda: now_s)
    engine.objectives.set(_OBJECTIVE, now_s)
    server = HttpServer(application, Address("127.0.0.1", 0))
    await server.start()
    link, came = TraceLink(server.url, "n1"), asyncio.Event()

    def line(found: SignalLine) -> None:
        if found.signals:
            came.set()

    running = asyncio.create_task(link.run(lambda: [("shop/cart-1", "u1")], line))
    try:
        while not len(application.streams):
            await asyncio.sleep(0.01)
        ways = []
        for number in range(_WARM + _COUNTED):
            way = Walk()
            came.clear()
            served = Given(1, 0, "GET", SpanKind.SERVER, 0, 100, "cart", "shop", "n1", pod="cart-1", trace=number + 1)
            body = request_of([served])
            with recording(way):
                await _post(server.url, body)
                while not came.is_set():  # compiling may take so long that the link is to be opened again
                    application.streams.publish()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(came.wait(), 1.0)
                    now_s += 1
            ways.append(way)
            await asyncio.sleep(0.3)  # what follows an answer is over before the next request comes
        return ways[_WARM:]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await link.close()
        application.streams.close()
        await server.stop()


async def _post(url: str, body: bytes) -> None:
    """By plain sockets: a client of ours would count as part of the way."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        "POST /v1/traces HTTP/1.1",
        f"Host: {host}",
        "Content-Type: application/x-protobuf",
        f"Content-Length: {len(body)}",
    )
    writer.write("\r\n".join((*head, "", "")).encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    if b" 200 " not in answer.split(b"\r\n", 1)[0]:
        raise RuntimeError(f"the export was refused: {answer[:200]!r}")
