"""Drivers near a place: one search in the store, then each of them, one after another, as in HotROD."""

from __future__ import annotations

import asyncio

from telemetry import tracer
from web import Peer, arguments, serve


def main() -> None:
    """The process."""
    own, store = arguments(2)
    traces = tracer("driver")
    drivers = Peer("drivers", store, traces, store=True)

    async def near(asked: dict[str, str]) -> object:
        found = await drivers.get(f"/near?place={int(asked['near'])}")
        return [await drivers.get(f"/get?id={entry}") for entry in found[:3]]

    asyncio.run(serve("driver", own, {"/drivers": near}, traces))


if __name__ == "__main__":
    main()
