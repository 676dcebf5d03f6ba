"""How long a log that is followed stands still after nats-server was killed and is there again.

The reader asks as `cotenant logs --follow` does, with a question under way when the server dies; who answers is another
process's share of the bus. Counted from the moment at which the new server takes connections until a line written after
it is read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import time
from statistics import median

from cotenant.drivers.nats.client import BusAccess, connect
from cotenant.drivers.nats.contract import Bus, BusMessage
from cotenant.model.fleet.logs import LogCursor, LogPage, ReadLogs, ShownLine
from cotenant.services.fleet.log_reading import next_page
from cotenant.services.fleet.rpc import Dispatcher, RpcVerb


async def measure(command: str, port: int, rounds: int) -> list[float]:
    """Seconds of each round."""
    server = await _started(command, port)
    asking = await connect(BusAccess(f"nats://127.0.0.1:{port}", "reader"), within_s=30)
    answering = await connect(BusAccess(f"nats://127.0.0.1:{port}", "controller"), within_s=30)
    written = asyncio.Event()

    async def logs(request: ReadLogs, _: BusMessage) -> LogPage:
        try:
            async with asyncio.timeout(request.wait_s):
                await written.wait()
        except TimeoutError:
            return LogPage((), LogCursor("ring", 0, 0), True)
        return LogPage((ShownLine(time.time_ns(), "stdout", "here"),), LogCursor("ring", 0, 0), True)

    dispatcher = Dispatcher({"logs": RpcVerb(ReadLogs, logs)}, answering)
    await answering.subscribe("fleet.*.rpc.*", dispatcher.received)
    await answering.flush(30.0)
    times: list[float] = []
    try:
        for _ in range(rounds):
            written.clear()
            following = asyncio.create_task(_followed(asking))
            await asyncio.sleep(0.5)
            server.kill()
            server.wait()
            await asyncio.sleep(0.5)
            server = await _started(command, port)
            began = time.perf_counter()
            written.set()
            await following
            times.append(time.perf_counter() - began)
    finally:
        server.kill()
        server.wait()
        await dispatcher.close()
        await asking.close()
        await answering.close()
    return times


async def _followed(bus: Bus) -> None:
    request = ReadLogs("web-1", cursor=LogCursor("ring", 0, 0), wait_s=5.0)
    while not (await next_page(bus, "reader", request, 60.0)).lines:
        pass


async def _started(command: str, port: int) -> subprocess.Popen[bytes]:
    server = subprocess.Popen([command, "-a", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    while True:
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                return server
        await asyncio.sleep(0.01)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--server", default="nats-server", help="the server's command")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    times = asyncio.run(measure(given.server, given.port, given.rounds))
    result = {"rounds": len(times), "median_s": round(median(times), 2), "max_s": round(max(times), 2)}
    if given.json:
        print(json.dumps({"bench": "fleet_reconnect", **result}))
        return
    load = os.getloadavg()[0]
    print(
        f"a line is read {result['median_s']} s after the server is back, {result['max_s']} s at most (load {load:.1f})"
    )


if __name__ == "__main__":
    main()
