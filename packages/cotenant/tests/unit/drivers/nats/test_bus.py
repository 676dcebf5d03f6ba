"""The bus of one process, directly and by NATS's protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.fakes.servers.bus_contract import CONTRACT

from cotenant.drivers.nats.broker import Broker
from cotenant.drivers.nats.client import BusAccess, connect
from cotenant.drivers.nats.contract import Bus, BusMessage
from cotenant.drivers.nats.memory import MAX_WAITING, MemoryBus
from cotenant.drivers.nats.subjects import check_subject, matches
from cotenant.model.errors import InvalidInput, Permanent, Transient

Case = Callable[[Bus, Bus], Awaitable[None]]


@pytest.mark.parametrize("case", CONTRACT)
def test_contract_within_the_process(case: Case) -> None:
    async def play() -> None:
        bus = MemoryBus()
        await case(bus, bus)
        await bus.close()

    asyncio.run(play())


@pytest.mark.parametrize("case", CONTRACT)
@pytest.mark.parametrize("is_server", [True, False])
def test_contract_over_loopback(case: Case, is_server: bool) -> None:
    """`is_server`: what is asked is within the process, as an embedded controller is."""
    pytest.importorskip("nats", reason="nats-py is not installed")

    async def play() -> None:
        bus = MemoryBus()
        broker = Broker(bus, "token")
        await broker.start()
        here = await connect(BusAccess(broker.url, "here", "token"))
        there = bus if is_server else await connect(BusAccess(broker.url, "there", "token"))
        await case(here, there)
        await here.close()
        await there.close()
        await broker.close()

    asyncio.run(play())


def test_a_wrong_token_is_refused_and_so_is_who_does_not_say_one() -> None:
    pytest.importorskip("nats", reason="nats-py is not installed")

    async def play() -> None:
        broker = Broker(MemoryBus(), "token")
        await broker.start()
        with pytest.raises(Permanent, match="refuses here"):
            await connect(BusAccess(broker.url, "here", "wrong"))
        reader, writer = await asyncio.open_connection("127.0.0.1", int(broker.url.rpartition(":")[2]))
        assert (await reader.readline()).startswith(b"INFO ")
        writer.write(b"SUB hb.* 1\r\n")
        assert await reader.read() == b"-ERR 'Authorization Violation'\r\n"
        writer.close()
        await broker.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    "sent",
    [
        b"NONSENSE\r\n",
        b"PUB\r\n",
        b"PUB a\r\n",
        b"PUB a -5\r\n",
        b"PUB a 9999999\r\n",
        b"HPUB a 9 2\r\nx\r\n",
        b"SUB\r\n",
        b"PUB a..b 0\r\n\r\n",
        b"x" * 20000,
    ],
)
def test_what_is_not_the_protocol_ends_that_connection_alone(sent: bytes) -> None:
    async def play() -> None:
        bus = MemoryBus()
        broker = Broker(bus, "token")
        await broker.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(broker.url.rpartition(":")[2]))
        writer.write(b'CONNECT {"auth_token":"token"}\r\n' + sent)
        async with asyncio.timeout(60):
            await reader.read()
        writer.close()
        other, writer = await asyncio.open_connection("127.0.0.1", int(broker.url.rpartition(":")[2]))
        writer.write(b'CONNECT {"auth_token":"token"}\r\nPING\r\n')
        await other.readline()
        assert await other.readline() == b"PONG\r\n"
        writer.close()
        await broker.close()

    asyncio.run(play())


def test_who_is_slow_loses_the_oldest_and_holds_up_nobody() -> None:
    async def play() -> None:
        bus = MemoryBus()
        came: list[bytes] = []

        async def received(message: BusMessage) -> None:
            came.append(message.data)

        subscription = await bus.subscribe("a", received)
        for i in range(MAX_WAITING + 3):
            await bus.publish("a", b"%d" % i)
        await asyncio.sleep(0)
        assert subscription.dropped == 3
        assert came[0] == b"3"
        assert len(came) == MAX_WAITING
        await bus.close()

    asyncio.run(play())


def test_nobody_at_the_other_end_is_said_after_a_while() -> None:
    pytest.importorskip("nats", reason="nats-py is not installed")
    with pytest.raises(Transient, match="no bus answers at nats"):
        asyncio.run(connect(BusAccess("nats://127.0.0.1:1", "here"), within_s=0.05))


@pytest.mark.parametrize("subject", ["", "a..b", "a b", "a.*", "a.>", "a\r\nPUB b"])
def test_subjects_that_are_refused(subject: str) -> None:
    with pytest.raises(InvalidInput):
        check_subject(subject)


@pytest.mark.parametrize(
    ("pattern", "subject", "is_matched"),
    [
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        ("a.b", "a.b", True),
        ("*.b", "a.c", False),
    ],
)
def test_patterns(pattern: str, subject: str, is_matched: bool) -> None:
    assert matches(pattern, subject) is is_matched
