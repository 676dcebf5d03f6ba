"""The lateness monitor of the plant's core, a process of its own: sleeps to absolute times and records how late it
woke, until SIGTERM.

    python -m cotenant_lab.experiments.site.lateness

What delayed a request, the run queue under study or a hypervisor that took the core? With real-time priority no work of
the normal or the idle class can delay the monitor, so its lateness is the core's, not the queue's. It wakes every 2 ms;
times that passed while it was stalled are recorded too, each with its own lateness, so a stall shows in every window
that it touched. First output line: whether it has its priority (without, it exits); last line: the greatest lateness of
each window.
Limits: a stall of less than 3 ms may fall between two wake-ups; it uses one to two hundredths of the core, in all arms
equally.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic_ns, sleep

from cotenant.model.errors import Permanent
from cotenant_lab.experiments.measures.windows import WINDOW_US
from cotenant_lab.experiments.site import realtime
from cotenant_lab.experiments.site.site import Site, SiteProcess, in_plant

GROUP = in_plant("witness")
STEP_US = 2_000
_RATION_US = 100_000  # of real time in each second: the top group's less the generator's


@dataclass(frozen=True, slots=True)
class Lateness:
    """The monitor's greatest lateness, microseconds, window by window from `first` on."""

    first: int
    late_us: Sequence[int]

    def at(self, index: int) -> int | None:
        """The lateness in the window of this index; None where it did not run the whole window."""
        place = index - self.first
        return self.late_us[place] if 0 <= place < len(self.late_us) else None


@dataclass(frozen=True, slots=True)
class LatenessMonitor:
    """A running lateness monitor."""

    site: Site
    child: SiteProcess

    def end(self) -> Lateness:
        """Stop it and return its record. Raises `Permanent` where it had exited by itself."""
        self.child.process.terminate()
        line = self.child.process.stdout.read() if self.child.process.stdout else b""
        self.site.stop(self.child)
        if not line:
            raise Permanent(f"the lateness monitor exited early: {self.child.last_line()}")
        decoded = json.loads(line)
        return Lateness(decoded["first"], decoded["late_us"])


def prepare(site: Site) -> None:
    """Create its group, with permission for real-time priority."""
    site.make_plant("witness")
    site.cgroups.allow_realtime(GROUP, _RATION_US)


def start(site: Site) -> LatenessMonitor | None:
    """Start it and wait until it runs; None where it cannot have real-time priority. Raises `Permanent` where it
    does not start.
    """
    child = site.start_python(GROUP, "cotenant_lab.experiments.site.lateness", pipe=True)
    line = child.process.stdout.readline() if child.process.stdout else b""
    if not line:
        child.process.wait(10)
        raise Permanent(f"the lateness monitor exited early: {child.last_line()}")
    if json.loads(line)["realtime"]:
        return LatenessMonitor(site, child)
    site.stop(child)
    return None


def observe(now_ns: Callable[[], int], sleep_s: Callable[[float], None], is_over: Callable[[], bool]) -> Lateness:
    """Monitor from the next window on until `is_over`, which is called once per window."""
    window_ns, step_ns = WINDOW_US * 1000, STEP_US * 1000
    first = now_ns() // window_ns + 1
    late_us: list[int] = []
    while not is_over():
        start_ns = (first + len(late_us)) * window_ns
        min_ns = 0
        for due_ns in range(start_ns, start_ns + window_ns, step_ns):
            left_ns = due_ns - now_ns()
            if left_ns > 0:
                sleep_s(left_ns / 1e9)
                left_ns = due_ns - now_ns()
            if left_ns < min_ns:
                min_ns = left_ns
        late_us.append(-min_ns // 1000)
    return Lateness(first, late_us)


def main() -> None:
    """The process's entry point."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    has_priority = realtime.take()
    print(json.dumps({"realtime": has_priority}), flush=True)
    if has_priority:
        seen = observe(monotonic_ns, sleep, lambda: bool(ended))
        print(json.dumps({"first": seen.first, "late_us": seen.late_us}), flush=True)


if __name__ == "__main__":
    main()
