"""A process of the fleet on its bus, from the connection to the signal that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cotenant.drivers.nats.client import BusAccess, connect
from cotenant.drivers.nats.contract import Bus
from cotenant.services.running import run_until_signal


def run_connected(access: BusAccess, work: Callable[[Bus, asyncio.Event], Awaitable[None]]) -> None:
    """Connect, for as long as it takes, and run `work` until a signal sets its event; the connection is closed after
    it.
    """

    async def main(stop: asyncio.Event) -> None:
        connecting = asyncio.create_task(connect(access))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({connecting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not connecting.done():
            connecting.cancel()
            return
        bus = await connecting
        try:
            await work(bus, stop)
        finally:
            await bus.close()

    run_until_signal(main)
