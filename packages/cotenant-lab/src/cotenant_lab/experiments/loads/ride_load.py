"""The load on an application of the loop, a process of its own: open-loop requests, a line each second, all latencies
by second at the end.

    python -m cotenant_lab.experiments.loads.ride_load --port P --rate R --seconds S --seed N --objective-us T \\
        [--path /dispatch?customer={}]

Callers do not wait for one another, so a stalled frontend must not slow the load down. Due times drawn beforehand, GETs
pipelined over several connections.
Limits: an answer that is not 200 ends it.
"""

from __future__ import annotations

import argparse
import json
import socket

from cotenant.model.errors import Permanent
from cotenant_lab.experiments.loads import open_loop
from cotenant_lab.experiments.loads.reporting import ReplyReporter, ReportedSlots
from cotenant_lab.experiments.site import realtime
from cotenant_lab.experiments.site.site import now_us

CONNECTIONS = 16
SLOT_US = 500_000
CUSTOMERS = 40
PATH = "/dispatch?customer={}"
_LEAD_US = 50_000


class Dispatch:
    """GETs of a path for one customer after another."""

    def __init__(self, path: str = PATH) -> None:
        self._path = path

    def request(self, number: int) -> bytes:
        """The bytes of the request."""
        path = self._path.replace("{}", str(number * 17 % CUSTOMERS))
        return f"GET {path} HTTP/1.1\r\nHost: loop\r\n\r\n".encode()

    def replies(self, received: bytearray) -> int:
        """Remove complete answers. Raises `Permanent` for one that is not 200."""
        count = 0
        while (end := received.find(b"\r\n\r\n")) >= 0:
            head = bytes(received[:end])
            if not head.startswith(b"HTTP/1.1 200"):
                raise Permanent(f"the frontend answered: {head[:80].decode(errors='replace')}")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            if len(received) < end + 4 + length:
                break
            del received[: end + 4 + length]
            count += 1
        return count


def main() -> None:
    """The process's entry point."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--objective-us", type=int, required=True)
    parser.add_argument("--path", default=PATH)
    given = parser.parse_args()
    realtime.take()
    sockets = [socket.create_connection(("127.0.0.1", given.port)) for _ in range(CONNECTIONS)]
    for entry in sockets:
        entry.setblocking(False)
        entry.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    began = now_us() + _LEAD_US
    reporter = ReplyReporter(given.objective_us, began)
    tally = ReportedSlots(SLOT_US, began, reporter)
    due = open_loop.due_times(given.rate, given.seed, began)
    open_loop.run(sockets, Dispatch(given.path), due, tally, began + int(given.seconds * 1e6), reporter.each_loop)
    slots = [[slot.index, slot.latency.pairs()] for slot in tally.slots()]
    print(json.dumps({"began_us": began, "slots": slots}), flush=True)


if __name__ == "__main__":
    main()
