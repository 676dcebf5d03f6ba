"""Time series of fixed size in memory: rings of integers that share one clock, and percentiles over windows of them.

A node report needs percentiles over minutes of dozens of groups that come and go, for months, in a few megabytes. One
ring of times for all series; each series is a ring of 8-byte integers at the same ticks, with holes where nothing was
known; the number of series is bounded, and when it is reached the least recently written one is evicted.
Limits: a window that is longer than a series' ring is computed from what is left.

Percentiles are nearest-rank: the smallest value that at least p per cent of the points do not exceed.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput

_HOLE = -(2**63)
_MOST = 2**63 - 1
_POINT_BYTES = 8

Key = tuple[str, str]  # group, metric


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """A series over a window."""

    average: int
    p50: int
    p90: int
    p95: int
    p99: int


class _Ring:
    __slots__ = ("last", "values")

    def __init__(self, points: int, tick: int) -> None:
        self.values = array("q", (_HOLE,)) * points
        self.last = tick - 1  # the tick of the newest value or hole


class SeriesStore:
    """All series of one node."""

    def __init__(self, points: int, max_series: int) -> None:
        """`points`: ticks that are kept of the longest series."""
        if points < 1 or max_series < 1:
            raise InvalidInput("series", (points, max_series), "at least one point and one series")
        self._times = array("q", bytes(points * _POINT_BYTES))
        self._tick = -1
        self._points = points
        self._max = max_series
        self._rings: OrderedDict[Key, _Ring] = OrderedDict()  # least recently written first
        self.evicted = 0  # series dropped for new ones

    def __len__(self) -> int:
        return len(self._rings)

    def __contains__(self, key: Key) -> bool:
        return key in self._rings

    @property
    def memory_bytes(self) -> int:
        """The size of the rings, without the table around them."""
        return _POINT_BYTES * (self._points + sum(len(ring.values) for ring in self._rings.values()))

    def tick(self, at_us: int) -> None:
        """Start a new tick; values written from now on belong to it."""
        self._tick += 1
        self._times[self._tick % self._points] = at_us

    def write(self, key: Key, value: int, points: int) -> None:
        """Set the value of a series at this tick. `points` is the length of its ring where it is new."""
        if self._tick < 0:
            raise InvalidInput("series", key, "a tick before the first value")
        ring = self._rings.get(key)
        if ring is None:
            if len(self._rings) >= self._max:
                self._rings.popitem(last=False)
                self.evicted += 1
            ring = self._rings[key] = _Ring(min(points, self._points), self._tick)
        else:
            self._rings.move_to_end(key)
        values, size = ring.values, len(ring.values)
        if ring.last < self._tick - 1:
            for missed in range(max(ring.last + 1, self._tick - size + 1), self._tick):
                values[missed % size] = _HOLE
        values[self._tick % size] = min(max(value, _HOLE + 1), _MOST)
        ring.last = self._tick

    def keep(self, groups: Iterable[str]) -> None:
        """Drop the series of all other groups."""
        kept = set(groups)
        for key in [key for key in self._rings if key[0] not in kept]:
            del self._rings[key]

    def window(self, key: Key, since_us: int) -> list[int]:
        """The known values of ticks after `since_us`, newest first."""
        ring = self._rings.get(key)
        if ring is None:
            return []
        found: list[int] = []
        size = len(ring.values)
        for tick in range(ring.last, max(-1, self._tick - size), -1):
            if self._times[tick % self._points] <= since_us:
                break
            value = ring.values[tick % size]
            if value != _HOLE:
                found.append(value)
        return found

    def average(self, key: Key, since_us: int) -> int | None:
        """The mean, rounded down."""
        values = self.window(key, since_us)
        return sum(values) // len(values) if values else None

    def summary(self, key: Key, since_us: int) -> SeriesSummary | None:
        """Mean and percentiles; None where nothing is known."""
        values = self.window(key, since_us)
        if not values:
            return None
        values.sort()
        return SeriesSummary(
            sum(values) // len(values),
            percentile(values, 50),
            percentile(values, 90),
            percentile(values, 95),
            percentile(values, 99),
        )


def percentile(ordered: list[int], percent: int) -> int:
    """Nearest rank in an ascending list that is not empty."""
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]
