"""`cotenant profile code --slow`: which frames hold the time of the slow requests of a program.

Samples its threads over time, waits until the traces of that time are finished, and joins them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cotenant.drivers.stacks.programs import python_processes
from cotenant.drivers.stacks.py_spy import record_timeline
from cotenant.engine.profiling.slow_frames import RequestSpan, SlowFrames, slow_frames
from cotenant.engine.profiling.timelines import merged_timeline
from cotenant.engine.traces.open_spans import QUIET_S
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.stacks import StackTimeline
from cotenant.services.profiling.code import MICROSECONDS, python_ones
from cotenant.services.profiling.output import NO_OUTPUT, Output

Requests = Callable[[str, int, int], tuple[list[RequestSpan], int]]
"""Those of a name that touch a time, in ns, and how many more there are."""

FINISHED_S = QUIET_S + 6.0  # until a request's trace can be seen: exporters send up to five seconds late
_PERIODS = 2  # of sampling: how far a change of the stack may be from the begin of a span
_LATE_NS = 5_000_000  # and how much later than it says py-spy's time began


@dataclass(frozen=True, slots=True)
class SlowProfile:
    """`more`: requests that were not looked at, beyond the bound of an answer."""

    target: str
    of: str
    pids: tuple[int, ...]
    seconds: int
    rate_hz: int
    found: SlowFrames
    more: int = 0
    written: str = ""


@dataclass(frozen=True, slots=True)
class SlowQuestion:
    """`of`: whose requests, by instance, pod or service; empty: the target's."""

    target: str
    seconds: int = 10
    rate_hz: int = 100
    of: str = ""
    slowest: float = 0.1
    min_ms: float = 0.0

    def check(self) -> None:
        """Raises `InvalidInput`."""
        if not 0.0 < self.slowest <= 1.0:
            raise InvalidInput("--slowest", self.slowest, "a share of the requests, above 0 and at most 1")
        if not 0.0 <= self.min_ms <= 1e9:
            raise InvalidInput("--min-ms", self.min_ms, "0 or more")
        if self.target.isdecimal() and not self.of:
            hint = "a process id names no requests"
            raise InvalidInput("--of", self.of, "the guid, pod or service whose requests they are", hint)


def profile_slow(
    question: SlowQuestion,
    ask: Requests,
    output: Output = NO_OUTPUT,
    find: Callable[[str], list[int]] = python_processes,
    take: Callable[[int, int, int], StackTimeline] = record_timeline,
    sleep: Callable[[float], None] = time.sleep,
) -> SlowProfile:
    """Sample and join. Raises `InvalidInput`, `Permanent`, `Transient`, `Unsupported`."""
    question.check()
    output.check()
    pids = python_ones(question.target, question.seconds, question.rate_hz, find)
    of = question.of or question.target
    ask(of, 0, 0)  # nobody waits in vain for a process that does not answer
    with ThreadPoolExecutor(len(pids)) as threads:
        taken = list(threads.map(lambda pid: take(pid, question.seconds, question.rate_hz), pids))
    sleep(FINISHED_S)
    return joined(question, pids, merged_timeline(taken), ask, output)


def joined(
    question: SlowQuestion, pids: Sequence[int], timeline: StackTimeline, ask: Requests, output: Output
) -> SlowProfile:
    """The requests of that time joined with it. Raises `Permanent` where there are none."""
    of = question.of or question.target
    requests, more = ask(of, timeline.begin_ns, timeline.end_ns)
    tolerance_ns = _PERIODS * 1_000_000_000 // question.rate_hz + _LATE_NS
    found = slow_frames(timeline, requests, tolerance_ns, question.slowest, round(question.min_ms * 1e6))
    if not found.requests:
        hint = f", {found.outside} reach beyond it" if found.outside else ""
        raise Permanent(f"no kept trace has a request of {of} within these {question.seconds} s{hint}")
    at_s, length_s = timeline.begin_ns / 1e9, (timeline.end_ns - timeline.begin_ns) / 1e9
    written = output.write(found.stacks, {"service.instance.id": of}, at_s, length_s, MICROSECONDS)
    return SlowProfile(question.target, of, tuple(pids), question.seconds, question.rate_hz, found, more, written)
