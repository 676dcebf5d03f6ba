"""The frontend: the nearest of the free drivers for a customer."""

from __future__ import annotations

import asyncio

from telemetry import tracer
from web import Peer, arguments, serve


def main() -> None:
    """The process."""
    own, customer, driver, route = arguments(4)
    traces = tracer("frontend")
    customers, drivers, routes = (
        Peer("customer", customer, traces),
        Peer("driver", driver, traces),
        Peer("route", route, traces),
    )

    async def dispatch(asked: dict[str, str]) -> object:
        rider = await customers.get(f"/customer?id={int(asked['customer'])}")
        near = await drivers.get(f"/drivers?near={rider['place']}")
        times = await asyncio.gather(
            *(routes.get(f"/route?from={entry['place']}&to={rider['place']}") for entry in near)
        )
        nearest, time = min(zip(near, times, strict=True), key=lambda pair: pair[1]["minutes"])
        return {"customer": rider["name"], "driver": nearest["name"], "minutes": time["minutes"]}

    async def ready(asked: dict[str, str]) -> object:
        return {"ready": True}

    asyncio.run(serve("frontend", own, {"/dispatch": dispatch, "/ready": ready}, traces))


if __name__ == "__main__":
    main()
