"""Logs on one host: how many lines a second one core follows, searches and makes ready to be sent, and what a flood
without a reader keeps in memory.

Lines are those of a usual service: about 80 characters, every one with a trace id. The flood is what 10,000 lines a
second write within a minute, to a file that is rotated, followed by the product's own tail and ring.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cotenant.drivers.logs.patterns import searcher
from cotenant.drivers.logs.tail import Tail
from cotenant.engine.logs.log_page import LogReading
from cotenant.engine.logs.log_stream import LogStream
from cotenant.engine.logs.ring import LogRing
from cotenant.model.fleet.logs import LogPage, ReadLogs
from cotenant.services.fleet.functions.logs.kept import KeptLog
from cotenant.services.fleet.functions.logs.sending import next_batch

_RING = 4 << 20
_PER_S, _SECONDS = 10_000, 60


def docker_line(number: int) -> str:
    """A record of Docker's json-file."""
    return json.dumps({"log": f"{text(number)}\n", "stream": "stdout", "time": f"{at(number)}"}) + "\n"


def cri_line(number: int) -> str:
    """A record of CRI."""
    return f"{at(number)} stdout F {text(number)}\n"


def text(number: int) -> str:
    """What the program wrote."""
    return f"GET /api/item/{number} 200 12ms trace_id={number + 1:032x} user=bob"


def at(number: int) -> str:
    """When."""
    return f"2026-01-01T00:{number // 60_000 % 60:02d}:{number // 1000 % 60:02d}.{number % 1000:03d}123456Z"


def followed(folder: Path, line: Callable[[int], str], count: int) -> float:
    """Lines a second of one core, from the file into the ring."""
    path = folder / f"{line.__name__}.log"
    with path.open("w") as stream:
        stream.writelines(line(number) for number in range(count))
    tail, log = Tail(path, None, 1 << 40), LogStream(LogRing(_RING, 1e9))
    began, taken = time.process_time(), 0
    while (piece := tail.poll()) is not None:
        taken += log.feed(piece)
    took = time.process_time() - began
    tail.close()
    assert taken == count
    return count / took


def kept_log(folder: Path, count: int) -> KeptLog:
    """A log with a full ring."""
    path = folder / "kept.log"
    with path.open("w") as stream:
        stream.writelines(cri_line(number) for number in range(count))
    log = KeptLog(("web-1",), {"service.instance.id": "web-1"}, 1 << 30, 1e9)
    tail, stream_ = Tail(path, None, 1 << 40), LogStream(log.ring)
    while (piece := tail.poll()) is not None:
        stream_.feed(piece)
    tail.close()
    return log


def searched(log: KeptLog) -> float:
    """Lines a second that an expression is looked for in."""
    reading = LogReading(log.ring, "r", ReadLogs("web-1"), searcher(r"item/\d+77 .*user=(alice|carol)"))
    began = time.process_time()
    while not reading.step():
        pass
    page: LogPage = reading.page(0)
    assert not page.lines
    return len(log.ring) / (time.process_time() - began)


def sent(log: KeptLog) -> float:
    """Lines a second that are made into OTLP requests, with their trace ids."""
    began, count = time.process_time(), 0
    while (batch := next_batch([log])) is not None:
        batch.was_sent()
        count += 1
    assert count
    return len(log.ring) / (time.process_time() - began)


def flooded(folder: Path) -> tuple[int, int, int]:
    """Bytes that the ring keeps at most, lines that were dropped, and growth of this process in KiB."""
    path = folder / "flood.log"
    tail, log = Tail(path, None, 1 << 40), LogStream(LogRing(_RING, 1e9))
    most = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stream = path.open("w")
    for second in range(_SECONDS):
        if second % 10 == 9:
            stream.close()
            path.rename(folder / "flood.log.1")
            stream = path.open("w")
        stream.writelines(docker_line(second * _PER_S + number) for number in range(_PER_S))
        stream.flush()
        for _ in range(2):
            while (piece := tail.poll()) is not None:
                log.feed(piece)
        most = max(most, log.ring.size_bytes)
    stream.close()
    tail.close()
    assert log.lost == 0
    assert log.ring.last == _PER_S * _SECONDS
    return most, log.ring.dropped, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def main() -> None:
    """Run once and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=300_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        most, dropped, grown_kib = flooded(folder)
        result = {
            "docker_lines_per_s": round(followed(folder, docker_line, given.lines)),
            "cri_lines_per_s": round(followed(folder, cri_line, given.lines)),
        }
        log = kept_log(folder, given.lines)
        result |= {"searched_lines_per_s": round(searched(log)), "sent_lines_per_s": round(sent(log))}
    result |= {"flood_ring_bytes": most, "flood_dropped_lines": dropped, "flood_grown_kib": grown_kib}
    if given.json:
        print(json.dumps({"bench": "fleet_logs", **result}))
        return
    print(f"one core (load {os.getloadavg()[0]:.1f}):")
    for key, value in result.items():
        print(f"  {key.replace('_', ' ')}: {value:,}")


if __name__ == "__main__":
    main()
