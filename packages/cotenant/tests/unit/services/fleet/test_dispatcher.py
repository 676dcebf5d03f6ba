"""Requests that are asked again while they are under way: they act once, and take no room from others."""

from __future__ import annotations

import asyncio

import pytest

from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import Transient
from cotenant.model.fleet.requests import Describe
from cotenant.services.fleet import rpc
from cotenant.services.fleet.rpc import Dispatcher, RpcVerb, call


def test_one_that_is_asked_again_acts_once_and_leaves_room_for_others() -> None:
    acted: list[str] = []
    go_on = asyncio.Event()

    async def slow(_: Describe, __: object) -> str:
        acted.append("slow")
        await go_on.wait()
        return "done"

    async def quick(_: Describe, __: object) -> str:
        return "here"

    async def play() -> None:
        bus = MemoryBus()
        dispatcher = Dispatcher({"slow": RpcVerb(Describe, slow), "quick": RpcVerb(Describe, quick)}, bus)
        await bus.subscribe("guid.a.rpc.*", dispatcher.received)
        asked = [
            asyncio.create_task(call(bus, "guid.a.rpc.slow", Describe(), str, 60.0, "key"))
            for _ in range(rpc.MAX_AT_ONCE + 10)
        ]
        assert await call(bus, "guid.a.rpc.quick", Describe(), str, 60.0) == "here"
        assert acted == ["slow"]
        go_on.set()
        assert {await task for task in asked[-rpc._MAX_WAITING :]} == {"done"}
        for task in asked:
            task.cancel()
        assert await call(bus, "guid.a.rpc.slow", Describe(), str, 60.0, "key") == "done"
        assert acted == ["slow"]
        await dispatcher.close()

    asyncio.run(play())


def test_more_than_a_process_does_at_once_are_refused() -> None:
    async def slow(_: Describe, __: object) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def play() -> None:
        bus = MemoryBus()
        dispatcher = Dispatcher({"slow": RpcVerb(Describe, slow)}, bus)
        await bus.subscribe("guid.a.rpc.*", dispatcher.received)
        asked = [
            asyncio.create_task(call(bus, "guid.a.rpc.slow", Describe(), str, 60.0, f"key{k}"))
            for k in range(rpc.MAX_AT_ONCE)
        ]
        await asyncio.sleep(0)
        with pytest.raises(Transient, match="256 requests are under way here"):
            await call(bus, "guid.a.rpc.slow", Describe(), str, 60.0, "one more")
        await dispatcher.close()
        for task in asked:
            task.cancel()

    asyncio.run(play())
