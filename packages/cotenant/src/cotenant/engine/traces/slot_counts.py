"""Requests and bad requests of one objective by slots of time, so that any window can be summed.

Alerts look at windows from ten seconds to months, and keeping every slot of ten seconds for months is megabytes an
objective. Three rings of slots, 10 s for an hour, a minute for a day and a thousandth of the objective's window for all
of it; a window is summed from the finest ring that covers it. Counts are exact; a window begins at the edge of a slot.
Limits: 45 KB an objective; a clock that goes back counts into the newest slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from cotenant.policy.objective.burn import SLOT_S, CountedRequests


class SlotRing:
    """So many slots of equal width; the newest is open."""

    def __init__(self, width_s: int, slots: int) -> None:
        self.width_s, self.slots = width_s, slots
        self.counts: NDArray[np.int64] = np.zeros((2, slots), np.int64)  # requests, bad
        self.newest: int | None = None  # number of the open slot

    @property
    def covers_s(self) -> int:
        """The longest window that can be summed."""
        return self.width_s * (self.slots - 1)

    def add(self, now_s: float, requests: int, bad: int) -> None:
        """Count requests now."""
        place = self._advance(now_s) % self.slots
        self.counts[0, place] += requests
        self.counts[1, place] += bad

    def add_ended(self, now_s: float, ended_s: NDArray[np.float64], bad: NDArray[np.bool_]) -> None:
        """Count requests in the slots in which they ended, where the ring still has these."""
        newest = self._advance(now_s)
        numbers = (ended_s // self.width_s).astype(np.int64)
        within = (numbers <= newest) & (numbers > newest - self.slots)
        places = numbers[within] % self.slots
        self.counts[0] += np.bincount(places, minlength=self.slots)
        self.counts[1] += np.bincount(places[bad[within]], minlength=self.slots)

    def sum(self, now_s: float, window_s: int) -> CountedRequests:
        """The requests of the open slot and of as many closed ones as the window has."""
        newest = self._advance(now_s)
        oldest = newest - min(self.slots - 1, ceil(window_s / self.width_s))
        first, last = oldest % self.slots, newest % self.slots
        if first <= last:
            requests, bad = self.counts[:, first : last + 1].sum(axis=1)
        else:
            requests, bad = self.counts[:, first:].sum(axis=1) + self.counts[:, : last + 1].sum(axis=1)
        return CountedRequests(int(requests), int(bad))

    def _advance(self, now_s: float) -> int:
        number = int(now_s // self.width_s)
        if self.newest is None:
            self.newest = number
        passed = number - self.newest
        if passed >= self.slots:
            self.counts[:] = 0
        elif passed > 0:
            self.counts[:, np.arange(self.newest + 1, number + 1) % self.slots] = 0
        if passed > 0:
            self.newest = number
        return self.newest


class SlotCounts:
    """The rings of one objective."""

    def __init__(self, window_s: int) -> None:
        coarse_s = max(SLOT_S, ceil(window_s / 1000))
        self.rings: Sequence[SlotRing] = (
            SlotRing(SLOT_S, 3600 // SLOT_S + 1),
            SlotRing(60, 1441),
            SlotRing(coarse_s, ceil(window_s / coarse_s) + 1),
        )

    def add(self, now_s: float, requests: int, bad: int) -> None:
        """Count requests now."""
        for ring in self.rings:
            ring.add(now_s, requests, bad)

    def add_ended(self, now_s: float, ended_s: NDArray[np.float64], bad: NDArray[np.bool_]) -> None:
        """Count requests at the times at which they ended, before now."""
        for ring in self.rings:
            ring.add_ended(now_s, ended_s, bad)

    def sum(self, now_s: float, window_s: int) -> CountedRequests:
        """The requests of the last `window_s`."""
        ring = next((slot_ring for slot_ring in self.rings if slot_ring.covers_s >= window_s), self.rings[-1])
        return ring.sum(now_s, window_s)
