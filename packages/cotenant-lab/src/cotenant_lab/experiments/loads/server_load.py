"""The load on a server, a process of its own: open-loop requests, a report each second, and all latencies at the end.

    python -m cotenant_lab.experiments.loads.server_load --server KIND --items N --socket PATH --rate R --seconds S
    --seed N --objective-us T

The load must run pinned away from the server, and the regulator must get the service's latency while it runs. A line of
JSON per second with the requests answered in it, their p99 and how many were slower than the objective; at the end one
line with every slot's histogram. It takes real-time priority where allowed, because it needs a tenth of its core and
the agent beside it would add to the latencies.
Limits: as `servers.py`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from cotenant_lab.experiments.loads import open_loop
from cotenant_lab.experiments.loads.reporting import ReplyReporter, ReportedSlots
from cotenant_lab.experiments.loads.servers import SERVERS, connect
from cotenant_lab.experiments.measures.windows import WINDOW_US
from cotenant_lab.experiments.site import realtime
from cotenant_lab.experiments.site.site import now_us

CONNECTIONS = 8
_LEAD_US = 50_000


def main() -> None:
    """The process's entry point."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", choices=tuple(SERVERS), required=True)
    parser.add_argument("--items", type=int, required=True)
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
    reporter = ReplyReporter(given.objective_us, began)
    tally = ReportedSlots(WINDOW_US, began, reporter)
    due = open_loop.due_times(given.rate, given.seed, began)
    wire = SERVERS[given.server].wire(given.items)
    open_loop.run(sockets, wire, due, tally, began + int(given.seconds * 1e6), reporter.each_loop)
    first = began // WINDOW_US
    windows = [[first + slot.index, slot.latency.pairs(), slot.lag.pairs()] for slot in tally.slots()]
    print(json.dumps({"began_us": began, "windows": windows, "realtime": is_realtime}), flush=True)


if __name__ == "__main__":
    main()
