"""Periodic batch work: the same amount of CPU time in each period, at a phase of its own.

    python -m cotenant_lab.experiments.loads.phased_batch --start-us T --seconds S --period-ms P --phase-ms F --work-ms
    W --seed N

Suspects with the same mean use must differ in when they run, and only in that. Work is CPU time of its own thread, so
that each does the same however long it has to wait; the start of each burst varies by a sixteenth of the period.
Limits: work that is not done when the next period begins delays it.
"""

from __future__ import annotations

import argparse
from random import Random
from time import sleep, thread_time

from cotenant_lab.experiments.site.site import now_us

_WAVER = 16


def work(start_us: int, seconds: float, period_ms: int, phase_ms: int, work_ms: int, seed: int) -> None:
    """Burn `work_ms` of CPU time in each period of the monotonic clock from `start_us` on, for `seconds`."""
    random = Random(seed)
    end_us = start_us + seconds * 1e6
    begin_us = start_us + phase_ms * 1000
    while begin_us < end_us:
        due_us = begin_us + random.uniform(-1, 1) * period_ms * 1000 / _WAVER
        sleep(max(0.0, due_us - now_us()) / 1e6)
        stop = thread_time() + work_ms / 1000
        while thread_time() < stop:
            pass
        begin_us += period_ms * 1000
    sleep(max(0.0, end_us - now_us()) / 1e6)


def main() -> None:
    """The process's entry point."""
    parser = argparse.ArgumentParser()
    for name in ("--start-us", "--period-ms", "--phase-ms", "--work-ms", "--seed"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    work(given.start_us, given.seconds, given.period_ms, given.phase_ms, given.work_ms, given.seed)


if __name__ == "__main__":
    main()
