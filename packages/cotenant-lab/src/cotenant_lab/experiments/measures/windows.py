"""Short windows of a measured load, and which of them were calm: no lateness monitor on either core was late.

A hypervisor that takes a core for milliseconds several times a second dominates the tail of every arm, at another rate
in each, and is unrelated to the kernel's run queue. As testers of wake-up latency do, processes with real-time priority
on both cores record how late they woke, and a window counts where neither was late by more than `LATE_US`, in it or in
the one before, whose end may reach into it. A request belongs to the window in which it was due. Which windows count
never depends on the latencies.
Limits: anything that delays a real-time process is left out, including interrupts and the kernel's own work; a stall
that fell between two wake-ups stays in, and so does the effect of the next window's stall on a request at the very end
of a calm one.

Source: the idea of cyclictest (rt-tests): sleep to absolute times, record the lateness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import median
from typing import Any

from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant_lab.experiments.loads.open_loop import Slot
from cotenant_lab.experiments.measures.histogram import Histogram

WINDOW_US = 50_000
LATE_US = 1_000
TIMES_ALONE = 3.0  # a round whose p99 alone is above this many times the median was disturbed
MIN_CALM = 0.2  # of a block's windows; with fewer it is run again
MIN_REQUESTS = 500  # in calm windows, likewise


@dataclass(frozen=True, slots=True)
class MeasuredWindow:
    """The measurements of one window of the monotonic clock."""

    index: int  # windows of `WINDOW_US` since the clock's zero
    late_us: int | None  # greatest lateness on the plant's core; None where the monitor did not run
    latency: Histogram  # of the requests that were due in it
    lag: Histogram  # due to sent: the generator is the lateness monitor of its own core

    @property
    def is_late_on_plant(self) -> bool:
        """Whether the plant's monitor was late, or did not run."""
        return self.late_us is None or self.late_us > LATE_US

    @property
    def is_late_on_load(self) -> bool:
        """Whether the generator was late."""
        return self.lag.above(LATE_US) > 0

    def to_list(self) -> list[object]:
        """For storing; `from_list` reads it."""
        return [self.index, self.late_us, self.latency.pairs(), self.lag.pairs()]

    @classmethod
    def from_list(cls, stored: Sequence[Any]) -> MeasuredWindow:
        """The window of a stored list."""
        index, late_us, latency, lag = stored
        return cls(index, late_us, Histogram.from_pairs(latency), Histogram.from_pairs(lag))


def joined(slots: Sequence[Slot], late_us: Callable[[int], int | None]) -> list[MeasuredWindow]:
    """The load's slots as windows, with the monitor's lateness by window index; windows without due requests are
    included.
    """
    by_index = {entry.index: entry for entry in slots}
    found = []
    for index in range(min(by_index, default=0), max(by_index, default=-1) + 1):
        slot = by_index.get(index, Slot(index, Histogram(), Histogram()))
        found.append(MeasuredWindow(index, late_us(index), slot.latency, slot.lag))
    return found


def calm(windows: Iterable[MeasuredWindow]) -> list[MeasuredWindow]:
    """Windows in which no monitor was late, nor in the one before; never the first, because the one before it is
    not known.
    """
    quiet = {window.index: window for window in windows if not (window.is_late_on_plant or window.is_late_on_load)}
    return [window for index, window in quiet.items() if index - 1 in quiet]


def latencies(windows: Iterable[MeasuredWindow]) -> Histogram:
    """The latencies of all requests due in these windows."""
    pooled = Histogram()
    for window in windows:
        pooled.merge(window.latency)
    return pooled


def lags(windows: Iterable[MeasuredWindow]) -> Histogram:
    """The lag of the generator in these windows."""
    pooled = Histogram()
    for window in windows:
        pooled.merge(window.lag)
    return pooled


def stored(slots: Sequence[Slot], late_us: Callable[[int], int | None] | None) -> JsonObject:
    """The part of a block's record about its windows. `late_us` None: not both cores had a lateness monitor."""
    windows = joined(slots, late_us or (lambda index: None))
    return {"witness": late_us is not None, "windows": [window.to_list() for window in windows]}


def all_of(record: JsonMapping) -> list[MeasuredWindow]:
    """All windows of a block."""
    return [MeasuredWindow.from_list(entry) for entry in record["windows"]]


def judged_of(record: JsonMapping) -> list[MeasuredWindow]:
    """The calm windows where there was a monitor on each core, else all."""
    return calm(all_of(record)) if record["witness"] else all_of(record)


def disturbed(record: JsonMapping) -> str:
    """Why a block has too few calm windows to judge; empty where it has enough, or no lateness monitor."""
    if not record["witness"]:
        return ""
    windows = all_of(record)
    left = calm(windows)
    share, requests = len(left) / max(1, len(windows)), latencies(left).total
    if share < MIN_CALM:
        return f"only {share:.0%} of the windows were calm"
    return f"only {requests} requests were due in calm windows" if requests < MIN_REQUESTS else ""


def p99_us(windows: Iterable[MeasuredWindow]) -> float:
    """The p99 latency of the requests in these windows, microseconds; NaN where there were none."""
    return float(latencies(windows).quantile_us(0.99) or "nan")


def disturbed_alone(tails_us: Mapping[int, float], times: float = TIMES_ALONE) -> Mapping[int, str]:
    """The rounds, by number, in which the service's p99 alone was more than so many times the median of all, and why
    they do not count.
    """
    known = [tail for tail in tails_us.values() if not isnan(tail)]
    usual = median(known) if known else nan
    return {
        number: f"alone, p99 was {tail / 1000:.2f} ms, {tail / usual:.1f} times the usual"
        for number, tail in tails_us.items()
        if tail > times * usual
    }
