"""What every bus of the fleet keeps to, whoever provides it: two connections to the same one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.fakes.waiting import soon

from cotenant.drivers.nats.contract import Bus, BusMessage, BusService, NoResponder


async def delivers_in_order(here: Bus, there: Bus) -> None:
    came: list[tuple[str, bytes, str]] = []

    async def received(message: BusMessage) -> None:
        came.append((message.subject, message.data, message.headers.get("Kind", "")))

    subscription = await there.subscribe("a.*.c", received)
    await round_trip(there)
    for i in range(50):
        await here.publish("a.b.c", b"%d" % i, {"Kind": "number"})
    await here.publish("a.c", b"not this one")
    await soon("all came", lambda: len(came) == 50)
    assert came == [("a.b.c", b"%d" % i, "number") for i in range(50)]
    await subscription.unsubscribe()
    await round_trip(there)
    await here.publish("a.b.c", b"nobody hears this")
    await round_trip(here)
    assert len(came) == 50


async def answers(here: Bus, there: Bus) -> None:
    async def received(message: BusMessage) -> None:
        await there.publish(message.reply, message.data + b"!", {"Kind": "answer"})

    await there.serve(BusService("greeter", "1.0.0", {}, "greet.one", ["hello", "bye"]), received)
    await round_trip(there)
    answer = await here.request("greet.one.hello", b"you", timeout_s=60.0)
    assert (answer.data, answer.headers["Kind"]) == (b"you!", "answer")
    assert (await here.request("greet.one.bye", b"", timeout_s=60.0)).data == b"!"


async def says_at_once_that_nobody_listens(here: Bus, there: Bus) -> None:
    with pytest.raises(NoResponder, match="nobody answers on no"):
        await here.request("no.such", b"", timeout_s=60.0)


async def ends_a_wait(here: Bus, there: Bus) -> None:
    async def silent(_: BusMessage) -> None:
        pass

    await there.subscribe("silent", silent)
    await round_trip(there)
    with pytest.raises(TimeoutError):
        await here.request("silent", b"", timeout_s=0.05)


async def shares_a_queue(here: Bus, there: Bus) -> None:
    came: list[str] = []

    def member(name: str) -> Callable[[BusMessage], Awaitable[None]]:
        async def received(message: BusMessage) -> None:
            came.append(name)

        return received

    await there.subscribe("work", member("first"), "queue")
    await here.subscribe("work", member("second"), "queue")
    await there.subscribe("work", member("other"))
    await round_trip(here)
    await round_trip(there)
    for _ in range(40):
        await here.publish("work", b"")
    await soon("all came", lambda: len(came) == 80)
    assert came.count("other") == 40


async def carries_large_messages(here: Bus, there: Bus) -> None:
    async def received(message: BusMessage) -> None:
        await there.publish(message.reply, message.data)

    await there.subscribe("large", received)
    await round_trip(there)
    data = bytes(range(256)) * 2048
    assert (await here.request("large", data, timeout_s=60.0)).data == data


async def goes_on_after_a_handler_failed(here: Bus, there: Bus) -> None:
    came: list[bytes] = []

    async def received(message: BusMessage) -> None:
        came.append(message.data)
        raise RuntimeError("a defect")

    await there.subscribe("fragile", received)
    await round_trip(there)
    await here.publish("fragile", b"1")
    await here.publish("fragile", b"2")
    await soon("both came", lambda: came == [b"1", b"2"])


async def round_trip(bus: Bus) -> None:
    """The bus has all that this connection said before."""
    came = asyncio.Event()

    async def received(_: BusMessage) -> None:
        came.set()

    subscription = await bus.subscribe(f"round.trip.{id(came)}", received)
    await bus.publish(f"round.trip.{id(came)}", b"")
    await came.wait()
    await subscription.unsubscribe()


CONTRACT = (
    delivers_in_order,
    answers,
    says_at_once_that_nobody_listens,
    ends_a_wait,
    shares_a_queue,
    carries_large_messages,
    goes_on_after_a_handler_failed,
)
