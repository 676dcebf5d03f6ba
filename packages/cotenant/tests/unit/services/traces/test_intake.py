"""Turns and room of senders."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack, suppress

import grpc
import pytest
from tests.fakes.servers.jaeger_datagrams import CLIENT_SPAN, SERVER_SPAN
from tests.fakes.waiting import patience

from cotenant.drivers.http.address import Address
from cotenant.drivers.jaeger.udp_server import JaegerUdpServer
from cotenant.drivers.otlp.decoding import MAX_BYTES
from cotenant.drivers.otlp.grpc_server import METHOD, OtlpGrpcServer
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.errors import Transient
from cotenant.services.traces.app import MAX_DATAGRAMS, TracesApp
from cotenant.services.traces.intake import INLINE_WEIGHT, Intake
from cotenant.services.traces.metrics import TraceMetrics


def test_senders_take_turns_however_many_requests_one_of_them_has() -> None:
    order: list[str] = []

    async def scenario() -> None:
        intake = Intake()

        async def request(sender: str) -> None:
            async with intake.turn(sender):
                order.append(sender)
                await asyncio.sleep(0)

        await asyncio.gather(*(request("greedy") for _ in range(20)), request("small"), request("other"))
        intake.close()

    asyncio.run(scenario())
    assert order.index("small") <= 2
    assert order.index("other") <= 3
    assert len(order) == 22


def test_a_request_that_gives_up_does_not_keep_its_turn() -> None:
    async def scenario() -> None:
        intake, held = Intake(), asyncio.Event()
        done: list[int] = []

        async def request(number: int) -> None:
            async with intake.turn("a"):
                if number == 0:
                    await held.wait()
                done.append(number)

        tasks = [asyncio.create_task(request(number)) for number in range(4)]
        await asyncio.sleep(0)
        tasks[1].cancel()  # waits
        held.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks[2].cancel()  # perhaps has just been given its turn
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(request(9), patience(10))
        assert (done[0], done[-1]) == (0, 9)
        intake.close()

    asyncio.run(scenario())


def test_no_sender_takes_all_the_room() -> None:
    intake = Intake(max_bytes=100)
    with intake.room("greedy", 70):
        with pytest.raises(Transient, match="70 bytes of the same sender wait, 70 of all"), intake.room("greedy", 20):
            pass
        with intake.room("other", 20):
            pass
    with intake.room("greedy", 70):
        pass
    assert intake.refused == 1
    intake.close()


def test_what_takes_long_is_decoded_beside_the_event_loop() -> None:
    async def scenario() -> tuple[bool, bool]:
        intake = Intake()
        here = threading.get_ident()
        found = [await intake.work(weight, threading.get_ident) == here for weight in (10, INLINE_WEIGHT + 1)]
        intake.close()
        return found[0], found[1]

    assert asyncio.run(scenario()) == (True, False)


def test_a_part_of_the_room_is_kept_from_addresses() -> None:
    intake = Intake(max_bytes=100)
    with ExitStack() as held:
        for number in range(100):
            with suppress(Transient):
                held.enter_context(intake.room(f"10.0.0.{number}", 5, is_proven=False))
        with intake.room("shop", 20):
            pass
    intake.close()


def application() -> TracesApp:
    engine = TraceEngine(0.0, span_tags)
    return TracesApp(engine, TraceMetrics(engine), lambda: 2e9)


def test_a_turn_is_of_the_proven_namespace_whatever_the_addresses_and_of_each_collector() -> None:
    async def scenario() -> list[str]:
        app, order = application(), list[str]()

        async def export(address: str, namespace: str) -> None:
            await app.export(b"", address, namespace)
            order.append(namespace or address)

        app.intake._is_busy = True
        senders = [*((f"10.0.0.{n}", "shop") for n in range(9)), ("10.1.0.1", "*"), ("10.1.0.2", "*"), ("10.2.0.1", "")]
        tasks = [asyncio.create_task(export(*sender)) for sender in senders]
        await asyncio.sleep(0)
        app.intake._next()
        await asyncio.gather(*tasks)
        app.intake.close()
        return order

    order = asyncio.run(scenario())
    assert order[:4] == ["shop", "*", "*", "10.2.0.1"]


def test_datagrams_of_one_address_leave_room_for_others_and_wait_for_their_turn() -> None:
    outcomes: list[str] = []

    async def scenario() -> None:
        app = application()
        server = JaegerUdpServer(app.export_datagram, outcomes.append)
        app.intake._is_busy = True
        for number in range(MAX_DATAGRAMS + 10):
            server._received(CLIENT_SPAN, "10.0.0.1")
            if number % 100 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert set(outcomes) == {"UNAVAILABLE"}
        refused = len(outcomes)
        server._received(SERVER_SPAN, "10.0.0.2")
        await asyncio.sleep(0)
        assert len(outcomes) == refused
        app.intake._next()
        while server._taking:
            await asyncio.sleep(0)
        assert outcomes.count("UNAVAILABLE") == refused
        assert outcomes[refused + 1] == "OK"
        app.intake.close()

    asyncio.run(scenario())
    assert outcomes.count("OK") + outcomes.count("UNAVAILABLE") == len(outcomes)
    assert len(outcomes) == MAX_DATAGRAMS + 11


def test_calls_beyond_the_bound_are_refused_and_bodies_are_bounded_after_decompression() -> None:
    async def scenario() -> None:
        go, begun = asyncio.Event(), asyncio.Event()

        async def export(body: bytes, sender: str) -> tuple[int, str]:
            begun.set()
            await go.wait()
            return 0, ""

        server = OtlpGrpcServer(export, Address.parse("--grpc", "127.0.0.1:0"), max_calls=1)
        await server.start()
        try:
            async with grpc.aio.insecure_channel(str(server.address)) as channel:
                call = channel.unary_unary(METHOD)
                first = call(b"")
                await begun.wait()
                assert await call(b"").code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                go.set()
                assert await first.code() is grpc.StatusCode.OK
                packed = call(bytes(MAX_BYTES + 1), compression=grpc.Compression.Gzip)
                assert await packed.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        finally:
            await server.stop()

    asyncio.run(scenario())
