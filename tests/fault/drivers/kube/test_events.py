"""Writing Events: never in the way, whatever the server says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.fakes.waiting import patience

from cotenant.drivers.kube.kinds.parts import ObjectReference
from cotenant.drivers.kube.record.writer import TRIES, EventWriter


def pod(name: str = "p") -> ObjectReference:
    return ObjectReference(kind="Pod", namespace="d", name=name, uid=f"u-{name}")


def write(talking: Any, handler: Any, *said: tuple[str, str], capacity: int = 100) -> tuple[Any, EventWriter]:
    async def no_sleep(seconds: float) -> None:
        await asyncio.sleep(0)

    async def main() -> tuple[Any, EventWriter]:
        async with talking(handler) as (server, client):
            writer = EventWriter(
                client, "us", "host", qps=1e6, burst=100, capacity=capacity, workers=2, now=lambda: 1e9, sleep=no_sleep
            )
            task = asyncio.create_task(writer.run())
            for name, message in said:
                writer.record(pod(name), "Normal", "Scheduled", message)
                if message.startswith("wait"):
                    assert await writer.flush(patience(5))
            assert await writer.flush(patience(5))
            task.cancel()
            await asyncio.wait((task,))
            return server, writer

    return asyncio.run(main())


async def okay(exchange: Any) -> None:
    await exchange.answer({"metadata": {}, "involvedObject": {}, "reason": "", "message": "", "type": ""}, 201)


def test_creates_then_counts(talking: Any) -> None:
    server, writer = write(talking, okay, ("p", "wait"), ("p", "wait"), ("q", "m"))
    first, second, third = server.requests
    assert (first.method, second.method, third.method) == ("POST", "PATCH", "POST")
    name = json.loads(first.body)["metadata"]["name"]
    assert second.path == f"/api/v1/namespaces/d/events/{name}"
    assert json.loads(second.body)["count"] == 2
    assert writer.written == 3


def test_an_event_that_has_vanished_is_written_anew(talking: Any) -> None:
    async def forgetful(exchange: Any) -> None:
        if exchange.request.method == "PATCH":
            await exchange.status(404, "NotFound")
        else:
            await okay(exchange)

    server, writer = write(talking, forgetful, ("p", "wait"), ("p", "wait"))
    assert [request.method for request in server.requests] == ["POST", "PATCH", "POST"]
    assert writer.correlator.dropped == 0


def test_failures_that_pass_are_tried_again(talking: Any) -> None:
    failures = 1

    async def shaky(exchange: Any) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            await exchange.status(503, "ServiceUnavailable")
        else:
            await okay(exchange)

    server, writer = write(talking, shaky, ("p", "m"))
    assert len(server.requests) == 2
    assert (writer.written, writer.correlator.dropped) == (1, 0)


def test_failures_that_stay_are_dropped_and_counted(talking: Any) -> None:
    async def down(exchange: Any) -> None:
        await exchange.status(503, "ServiceUnavailable")

    server, writer = write(talking, down, ("p", "m"))
    assert len(server.requests) == TRIES
    assert (writer.written, writer.correlator.dropped) == (0, 1)


def test_refusals_are_dropped_at_once(talking: Any) -> None:
    async def forbid(exchange: Any) -> None:
        await exchange.status(403, "Forbidden")

    server, writer = write(talking, forbid, ("p", "m"), ("q", "m"))
    assert len(server.requests) == 2
    assert writer.correlator.dropped == 2


def test_recording_never_waits_and_drops_what_is_too_much(talking: Any) -> None:
    said = [(f"p{i}", "m") for i in range(50)]
    _, writer = write(talking, okay, *said, capacity=10)
    assert writer.written == 10
    assert writer.correlator.dropped == 40
