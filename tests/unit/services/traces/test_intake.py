"""Turns and room of senders."""

from __future__ import annotations

import asyncio
import threading

import pytest

from cotenant.model.errors import Transient
from cotenant.services.traces.intake import INLINE_WEIGHT, Intake


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
        await asyncio.wait_for(request(9), 10)
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
