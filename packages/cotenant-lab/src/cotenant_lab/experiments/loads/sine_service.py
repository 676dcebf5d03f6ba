"""The sine-wave service: a process that does exactly the CPU work that a sine demands, as far as it gets the CPU.

    python -m cotenant_lab.experiments.loads.sine_service --start-us T --seconds S --low L --high H --period P
    --patience Q

The demand must not depend on the machine's speed or on other work. Work is CPU time of its own thread; every 10 ms what
the sine asks for by then joins a queue, and what has waited longer than `patience` seconds is dropped, as requests time
out. One line of JSON at the end: CPU seconds demanded, done, dropped.
Limits: one thread; a step of work is at most 2 ms, so drops are late by that.
"""

from __future__ import annotations

import argparse
import json
from collections import deque
from time import monotonic, sleep, thread_time

from cotenant_lab.experiments.loads.sine_demand import SineDemand

STEP_S = 0.01
_SLICE_S = 0.002


def serve(demand: SineDemand, start_s: float, seconds: float, patience_s: float) -> dict[str, float]:
    """Work from `start_s` of the monotonic clock for `seconds`; CPU seconds demanded, done and dropped."""
    queue: deque[list[float]] = deque()  # [demanded at, CPU seconds left]
    asked, done, dropped = 0.0, 0.0, 0.0
    sleep(max(0.0, start_s - monotonic()))
    while (at := monotonic() - start_s) < seconds:
        due = at - at % STEP_S
        if (total := demand.work_s(due)) > asked:
            queue.append([due, total - asked])
            asked = total
        while queue and queue[0][0] < at - patience_s:
            dropped += queue.popleft()[1]
        if not queue:
            sleep(max(0.0, due + STEP_S - (monotonic() - start_s)))
            continue
        began = thread_time()
        stop = began + min(_SLICE_S, queue[0][1])
        while (now := thread_time()) < stop:
            pass
        queue[0][1] -= now - began
        done += now - began
        if queue[0][1] <= 0:
            queue.popleft()
    return {"asked_s": asked, "done_s": done, "dropped_s": dropped}


def main() -> None:
    """The process's entry point."""
    parser = argparse.ArgumentParser()
    for name in ("--start-us", "--seconds", "--low", "--high", "--period", "--patience"):
        parser.add_argument(name, type=float, required=True)
    given = parser.parse_args()
    demand = SineDemand(given.low, given.high, given.period)
    print(json.dumps(serve(demand, given.start_us / 1e6, given.seconds, given.patience)), flush=True)


if __name__ == "__main__":
    main()
