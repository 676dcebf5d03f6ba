"""The load on Redis, a process of its own: open-loop requests, a report each second, and all latencies at the end.

    python -m cotenant_lab.experiments.loads.redis_load --socket PATH --rate R --seconds S --seed N --objective-us T

The load must run pinned away from the server, and the regulator must get the service's latency while it runs. A line of
JSON per second with the requests answered in it, their p99 and how many were slower than the objective; at the end one
line with every slot's histogram. The request is LPOS over a list: one small packet each way and tens of microseconds of
the server's CPU, like a small query. It takes real-time priority where allowed, because it needs a tenth of its core
and the agent beside it would add to the latencies.
Limits: Unix sockets, one list.
"""

from __future__ import annotations

import argparse
import json
import socket
from pathlib import Path

from cotenant.model.errors import Permanent
from cotenant_lab.experiments.loads import open_loop
from cotenant_lab.experiments.loads.reporting import ReportedSlots, Reporter
from cotenant_lab.experiments.measures.windows import WINDOW_US
from cotenant_lab.experiments.site import realtime
from cotenant_lab.experiments.site.site import now_us

CONNECTIONS = 8
_KEY, _ABSENT = "list", "none"
_LEAD_US = 50_000


def command(*words: str) -> bytes:
    """A request in Redis' protocol (RESP)."""
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()) for word in words]
    return b"".join(parts)


class SearchList:
    """LPOS of a missing item: the server scans the whole list and answers in one line."""

    def __init__(self) -> None:
        self._request = command("LPOS", _KEY, _ABSENT)

    def request(self, number: int) -> bytes:
        """The bytes of the request, always the same."""
        return self._request

    def replies(self, received: bytearray) -> int:
        """Remove complete lines; an error begins with a minus."""
        count = 0
        while (end := received.find(b"\r\n")) >= 0:
            if received[:1] == b"-":
                raise Permanent(f"the server answered: {received[1:end].decode(errors='replace')}")
            del received[: end + 2]
            count += 1
        return count


def connect(path: Path) -> socket.socket:
    """A blocking connection. Raises OSError where no server listens."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def fill(path: Path, items: int) -> None:
    """Create a list of this many items of 8 bytes."""
    with connect(path) as connection:
        for first in range(0, items, 500):
            words = [f"it{number:06d}" for number in range(first, min(items, first + 500))]
            connection.sendall(command("RPUSH", _KEY, *words))
            if not connection.recv(64).startswith(b":"):
                raise Permanent("the server did not take the list")


def main() -> None:
    """The process's entry point."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--objective-us", type=int, required=True)
    given = parser.parse_args()
    is_realtime = realtime.take()
    sockets = [connect(given.socket) for _ in range(CONNECTIONS)]
    for entry in sockets:
        entry.setblocking(False)
    # The slots are windows of the clock, aligned with the lateness monitor's.
    began = -(-(now_us() + _LEAD_US) // WINDOW_US) * WINDOW_US
    reporter = Reporter(given.objective_us, began)
    tally = ReportedSlots(WINDOW_US, began, reporter)
    due = open_loop.due_times(given.rate, given.seed, began)
    open_loop.run(sockets, SearchList(), due, tally, began + int(given.seconds * 1e6), reporter.each_loop)
    first = began // WINDOW_US
    windows = [[first + slot.index, slot.latency.pairs(), slot.lag.pairs()] for slot in tally.slots()]
    print(json.dumps({"began_us": began, "windows": windows, "realtime": is_realtime}), flush=True)


if __name__ == "__main__":
    main()
