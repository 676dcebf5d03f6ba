"""A service that reports the latency of its requests while it runs, and whose load may grow at an instant.

    python -m cotenant_lab.experiments.loads.windowed_service --start-us T --seconds S --gap-ms G --work-ms W --seed N
        --windows FILE --window-ms M --objective-us O [--grow-at-us T --growth F]

Attribution needs the latency that a service reports, window by window, and a trouble whose cause is the service's own
load. Exponential gaps, equal work, one queue, latency from the due time; at the end of each window one line of JSON
with its end, requests, p99 and requests over the objective is appended to a file. From `--grow-at-us` on requests are
`--growth` times as frequent.
Limits: one thread; a window ends with the first request after its time.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import sleep, thread_time

from cotenant_lab.experiments.measures.statistics import quantile
from cotenant_lab.experiments.site.site import now_us


def serve(given: argparse.Namespace) -> None:
    """Work from `start_us` of the monotonic clock for `seconds`, writing a line per window."""
    random = Random(given.seed)
    end_us, due = given.start_us + given.seconds * 1e6, float(given.start_us)
    window_us = given.window_ms * 1000
    window_end, latencies = given.start_us + window_us, list[int]()
    with Path(given.windows).open("a", buffering=1) as file:
        while True:
            factor = given.growth if given.grow_at_us and due >= given.grow_at_us else 1.0
            due += random.expovariate(factor * 1000 / given.gap_ms) * 1e6
            if due >= end_us or now_us() >= end_us:
                return
            sleep(max(0.0, due - now_us()) / 1e6)
            stop = thread_time() + given.work_ms / 1000
            while thread_time() < stop:
                pass
            now = now_us()
            latencies.append(round(now - due))
            if now >= window_end:
                file.write(line(now, now - window_end + window_us, latencies, given.objective_us) + "\n")
                window_end, latencies = now + window_us, []


def line(end_us: int, window_us: int, latencies: Sequence[int], objective_us: int) -> str:
    """One window as a line of JSON."""
    return json.dumps(
        {
            "end_us": end_us,
            "window_us": window_us,
            "requests": len(latencies),
            "p99_us": round(quantile(latencies, 0.99)),
            "over": sum(latency > objective_us for latency in latencies),
        }
    )


def main() -> None:
    """The process's entry point."""
    parser = argparse.ArgumentParser()
    for name in ("--start-us", "--seed", "--window-ms", "--objective-us"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--seconds", "--gap-ms", "--work-ms"):
        parser.add_argument(name, type=float, required=True)
    parser.add_argument("--windows", required=True)
    parser.add_argument("--grow-at-us", type=int, default=0)
    parser.add_argument("--growth", type=float, default=1.0)
    serve(parser.parse_args())


if __name__ == "__main__":
    main()
