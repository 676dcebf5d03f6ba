"""Customers, from their store."""

from __future__ import annotations

import asyncio

from telemetry import tracer
from web import Peer, arguments, serve


def main() -> None:
    """The process."""
    own, store = arguments(2)
    traces = tracer("customer")
    customers = Peer("customers", store, traces, store=True)

    async def customer(asked: dict[str, str]) -> object:
        return await customers.get(f"/get?id={int(asked['id'])}")

    asyncio.run(serve("customer", own, {"/customer": customer}, traces))


if __name__ == "__main__":
    main()
