"""A store: rows of one table, by id or near a place. Arguments: the table (customers or drivers), HOST:PORT."""

from __future__ import annotations

import asyncio
import random
import sys

from web import serve

ROWS = 40
PLACES = 24 * 24  # as the grid of route.py has
NEAR = 6


def main() -> None:
    """The process."""
    table, address = sys.argv[1:]
    drawn = random.Random(table)
    rows = [{"id": n, "name": f"{table[:-1]} {n}", "place": drawn.randrange(PLACES)} for n in range(ROWS)]

    async def get(asked: dict[str, str]) -> object:
        return rows[int(asked["id"]) % ROWS]

    async def near(asked: dict[str, str]) -> object:
        place = int(asked["place"])
        return [row["id"] for row in sorted(rows, key=lambda row: abs(int(row["place"]) - place))[:NEAR]]

    asyncio.run(serve(table, address, {"/get": get, "/near": near}, None))


if __name__ == "__main__":
    main()
