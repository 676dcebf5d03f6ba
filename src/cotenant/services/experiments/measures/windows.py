"""Short windows of a measured load, and which of them were calm: no witness on either core was late.

Problem: a hypervisor that takes a core for milliseconds several times a second makes the tail of every arm, at another rate in each, and says nothing about
the kernel's run queue. Choice: as testers of wake-up latency do, processes with real-time priority on both cores note how late they were, and a window
counts where neither was late by more than `LATE_US`, in it or in the one before, whose end may reach into it. A request belongs to the window in which
it was due. Which windows count never depends on the latencies. Limits: whatever delays a real-time process is left out, interrupts and the kernel's own
work too; a stall that fell between two looks stays in, and so does what the next window's stall does to a request at the very end of a calm one.

Source: the idea of cyclictest (rt-tests): sleep to absolute times, note the lateness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant.services.experiments.loads.open_loop import Slot
from cotenant.services.experiments.measures.histogram import Histogram

WINDOW_US = 50_000
LATE_US = 1_000
LEAST_CALM = 0.2  # of a block's windows; with fewer it is run again
LEAST_REQUESTS = 500  # in calm windows, likewise


@dataclass(frozen=True, slots=True)
class Window:
    """What was seen of one window of the monotonic clock."""

    index: int  # windows of `WINDOW_US` since the clock's zero
    late_us: int | None  # the plant's witness at its latest; None where it did not look
    latency: Histogram  # of the requests that were due in it
    lag: Histogram  # due to sent: the generator is the witness of its own core

    @property
    def is_late_on_plant(self) -> bool:
        """Whether the plant's witness was late, or did not look."""
        return self.late_us is None or self.late_us > LATE_US

    @property
    def is_late_on_load(self) -> bool:
        """Whether the generator was late."""
        return self.lag.above(LATE_US) > 0

    def to_list(self) -> list[Any]:
        """For storing; `from_list` reads it."""
        return [self.index, self.late_us, self.latency.pairs(), self.lag.pairs()]

    @classmethod
    def from_list(cls, stored: Sequence[Any]) -> Window:
        """What `to_list` gave."""
        index, late_us, latency, lag = stored
        return cls(index, late_us, Histogram.from_pairs(latency), Histogram.from_pairs(lag))


def joined(slots: Sequence[Slot], late_us: Callable[[int], int | None]) -> list[Window]:
    """The load's slots, each a window, with the witness's lateness in the window of an index; windows in which nothing was due come in between."""
    by_index = {each.index: each for each in slots}
    found = []
    for index in range(min(by_index, default=0), max(by_index, default=-1) + 1):
        slot = by_index.get(index, Slot(index, Histogram(), Histogram()))
        found.append(Window(index, late_us(index), slot.latency, slot.lag))
    return found


def calm(windows: Iterable[Window]) -> list[Window]:
    """Those in which no witness was late, nor in the one before; the first is never among them, for what came before it is not known."""
    quiet = {each.index: each for each in windows if not (each.is_late_on_plant or each.is_late_on_load)}
    return [each for index, each in quiet.items() if index - 1 in quiet]


def latencies(windows: Iterable[Window]) -> Histogram:
    """Of all requests that were due in these windows."""
    pooled = Histogram()
    for each in windows:
        pooled.merge(each.latency)
    return pooled


def lags(windows: Iterable[Window]) -> Histogram:
    """How late the generator sent them."""
    pooled = Histogram()
    for each in windows:
        pooled.merge(each.lag)
    return pooled


def stored(slots: Sequence[Slot], late_us: Callable[[int], int | None] | None) -> dict[str, Any]:
    """What a block's record keeps of its windows. `late_us` None: not both cores had a witness."""
    windows = joined(slots, late_us or (lambda index: None))
    return {"witness": late_us is not None, "windows": [each.to_list() for each in windows]}


def all_of(record: Mapping[str, Any]) -> list[Window]:
    """A block's windows."""
    return [Window.from_list(each) for each in record["windows"]]


def judged_of(record: Mapping[str, Any]) -> list[Window]:
    """The calm ones where there was a witness on each core, else all."""
    return calm(all_of(record)) if record["witness"] else all_of(record)


def disturbed(record: Mapping[str, Any]) -> str:
    """Why a block has too little calm to judge; empty where it has enough, or no witness to tell."""
    if not record["witness"]:
        return ""
    windows = all_of(record)
    left = calm(windows)
    share, requests = len(left) / max(1, len(windows)), latencies(left).total
    if share < LEAST_CALM:
        return f"only {share:.0%} of the windows were calm"
    return f"only {requests} requests were due in calm windows" if requests < LEAST_REQUESTS else ""


def p99_us(windows: Iterable[Window]) -> float:
    """Of the requests in these windows; NaN where there were none."""
    return float(latencies(windows).quantile_us(0.99) or "nan")
