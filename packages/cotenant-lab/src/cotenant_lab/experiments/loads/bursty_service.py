"""A service with bursts of work: requests at random times, each a fixed amount of CPU; reports the latency of each from
its due time.

    python -m cotenant_lab.experiments.loads.bursty_service --start-us T --seconds S --gap-ms G --work-ms W --seed N

A quota that the mean use never reaches still stops a service in the middle of a request. Exponential gaps, equal work,
one queue; latency from the due time, so waiting behind a throttled request counts. One line of JSON at the end: [due,
latency] in microseconds.
Limits: one thread.
"""

from __future__ import annotations

import argparse
import json
from time import sleep, thread_time

from cotenant_lab.experiments.loads.open_loop import due_times
from cotenant_lab.experiments.site.site import now_us


def serve(start_us: int, seconds: float, gap_ms: float, work_ms: float, seed: int) -> list[tuple[int, int]]:
    """Work from `start_us` of the monotonic clock for `seconds`; (due since the start, latency), microseconds."""
    next_due = due_times(1000 / gap_ms, seed, start_us)
    done = []
    while (due := next_due()) < start_us + seconds * 1e6:
        sleep(max(0, due - now_us()) / 1e6)
        stop = thread_time() + work_ms / 1000
        while thread_time() < stop:
            pass
        done.append((due - start_us, now_us() - due))
    return done


def main() -> None:
    """The process's entry point."""
    parser = argparse.ArgumentParser()
    for name in ("--start-us", "--seed"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--seconds", "--gap-ms", "--work-ms"):
        parser.add_argument(name, type=float, required=True)
    given = parser.parse_args()
    done = serve(given.start_us, given.seconds, given.gap_ms, given.work_ms, given.seed)
    print(json.dumps({"requests": done}), flush=True)


if __name__ == "__main__":
    main()
