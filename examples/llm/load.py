"""Requests to the stand-in, open loop: `python examples/llm/load.py HOST:PORT REQUESTS-PER-SECOND SECONDS`."""

from __future__ import annotations

import asyncio
import random
import sys


async def ask(address: str) -> None:
    """One request on a connection of its own."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    path = f"/v1/completions?prompt_tokens={random.randint(50, 400)}&max_tokens={random.randint(10, 40)}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: llm\r\n\r\n".encode())
    await reader.readuntil(b"}\n")
    writer.close()


async def main(address: str, per_s: float, seconds: float) -> None:
    """Send at random times; nobody waits for anybody."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + seconds
    async with asyncio.TaskGroup() as group:
        while loop.time() < end_s:
            group.create_task(ask(address))
            await asyncio.sleep(random.expovariate(per_s))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
