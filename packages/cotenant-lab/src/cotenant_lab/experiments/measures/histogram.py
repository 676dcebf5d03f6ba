"""Latencies counted in buckets of equal relative width: small, mergeable, exact to 1 %.

A tail over a hundred thousand requests must cost neither memory nor time, and several short blocks must add up to one
distribution. As HdrHistogram does, powers of two split into equal parts; 128 parts per power, so a value is known to
0.8 %.
Limits: microseconds from 0 to `MAX_US`; what is larger counts as that.

Source: G. Tene, HdrHistogram (the layout).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

_PARTS_LOG2 = 7
_PARTS = 1 << _PARTS_LOG2
MAX_US = 1 << 36  # 19 hours


def bucket_of(value_us: int) -> int:
    """The bucket of a value; values below 256 us have one each."""
    if value_us < 2 * _PARTS:
        return max(0, value_us)
    value_us = min(value_us, MAX_US)
    shift = value_us.bit_length() - 1 - _PARTS_LOG2
    return shift * _PARTS + (value_us >> shift)


def highest_of(bucket: int) -> int:
    """The largest value that falls into a bucket, microseconds."""
    if bucket < 2 * _PARTS:
        return bucket
    shift = bucket // _PARTS - 1
    return ((bucket - shift * _PARTS + 1) << shift) - 1


class Histogram:
    """Counts by bucket. Quantiles are the upper end of their bucket, so never too low."""

    __slots__ = ("counts", "total")

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts: dict[int, int] = dict(counts or {})
        self.total = sum(self.counts.values())

    def add(self, value_us: int) -> None:
        """Count one latency."""
        bucket = bucket_of(value_us)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.total += 1

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.total += other.total

    def quantile_us(self, share: float) -> int | None:
        """The smallest known value with at least `share` (0..1) of all at or below it; None without any."""
        if not self.total:
            return None
        wanted, seen = max(1, ceil(share * self.total)), 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= wanted:
                return highest_of(bucket)
        raise AssertionError("counts and their total disagree")

    def above(self, limit_us: int) -> int:
        """The count in buckets wholly above a limit."""
        return sum(count for bucket, count in self.counts.items() if bucket > bucket_of(limit_us))

    def pairs(self) -> list[list[int]]:
        """[bucket, count] in order, for storing; `from_pairs` reads it."""
        return [[bucket, self.counts[bucket]] for bucket in sorted(self.counts)]

    @classmethod
    def from_pairs(cls, pairs: Iterable[Sequence[int]]) -> Histogram:
        """The histogram of `pairs`."""
        return cls({pair[0]: pair[1] for pair in pairs})
