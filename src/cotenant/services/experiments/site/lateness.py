"""The witness of the plant's core, a process of its own: sleeps to absolute times and notes how late it woke, until SIGTERM.

    python -m cotenant.services.experiments.site.lateness

Problem: who delayed a request, the run queue that is examined or a hypervisor that took the core? Choice: with real-time priority no work of the ordinary
or the idle class can delay it, so its lateness is the core's, not the queue's. It looks every 2 ms; times that passed while it was away are noted too,
each with its own lateness, so a stall stands in every window that it touched. First line: whether it has its priority (without, it ends); last line: the
greatest lateness of each window. Limits: a stall of less than 3 ms may fall between two looks; it uses one to two hundredths of the core, in all arms alike.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic_ns, sleep

from cotenant.model.errors import Permanent
from cotenant.services.experiments.measures.windows import WINDOW_US
from cotenant.services.experiments.site import realtime
from cotenant.services.experiments.site.site import Child, Site, in_plant

GROUP = in_plant("witness")
STEP_US = 2_000
_RATION_US = 100_000  # of real time in each second: what the generator's leaves of the top group's


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late the witness was at most, microseconds, window by window from `first` on."""

    first: int
    late_us: Sequence[int]

    def at(self, index: int) -> int | None:
        """In the window of this index; None where it did not look the whole window long."""
        place = index - self.first
        return self.late_us[place] if 0 <= place < len(self.late_us) else None


@dataclass(frozen=True, slots=True)
class LatenessMonitor:
    """A running one."""

    site: Site
    child: Child

    def end(self) -> Lateness:
        """End it; what it saw. Raises `Permanent` where it had ended by itself."""
        self.child.process.terminate()
        line = self.child.process.stdout.read() if self.child.process.stdout else b""
        self.site.stop(self.child)
        if not line:
            raise Permanent(f"the witness ended early: {self.child.last_words()}")
        told = json.loads(line)
        return Lateness(told["first"], told["late_us"])


def prepare(site: Site) -> None:
    """Make its group, with leave to take real-time priority."""
    site.make_plant("witness")
    site.cgroups.allow_realtime(GROUP, _RATION_US)


def start(site: Site) -> LatenessMonitor | None:
    """Start it and wait until it looks; None where it may not have real-time priority. Raises `Permanent` where it does not start."""
    child = site.start_python(GROUP, "cotenant.services.experiments.site.lateness", pipe=True)
    line = child.process.stdout.readline() if child.process.stdout else b""
    if not line:
        child.process.wait(10)
        raise Permanent(f"the witness ended early: {child.last_words()}")
    if json.loads(line)["realtime"]:
        return LatenessMonitor(site, child)
    site.stop(child)
    return None


def observe(now_ns: Callable[[], int], sleep_s: Callable[[float], None], is_over: Callable[[], bool]) -> Lateness:
    """Look, from the next window on, until `is_over`, which is asked once a window."""
    window_ns, step_ns = WINDOW_US * 1000, STEP_US * 1000
    first = now_ns() // window_ns + 1
    late_us: list[int] = []
    while not is_over():
        start_ns = (first + len(late_us)) * window_ns
        least_ns = 0
        for due_ns in range(start_ns, start_ns + window_ns, step_ns):
            left_ns = due_ns - now_ns()
            if left_ns > 0:
                sleep_s(left_ns / 1e9)
                left_ns = due_ns - now_ns()
            if left_ns < least_ns:
                least_ns = left_ns
        late_us.append(-least_ns // 1000)
    return Lateness(first, late_us)


def main() -> None:
    """The process."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    has_priority = realtime.take()
    print(json.dumps({"realtime": has_priority}), flush=True)
    if has_priority:
        seen = observe(monotonic_ns, sleep, lambda: bool(ended))
        print(json.dumps({"first": seen.first, "late_us": seen.late_us}), flush=True)


if __name__ == "__main__":
    main()
