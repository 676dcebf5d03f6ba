"""Exponential histograms at the edges that objectives ask for.

A limit is an edge where some power of the base is the limit to the microsecond. At every scale from 0 on these are the
halves and doubles of a second: 125 ms, 250 ms, 500 ms, 1 s, 2 s; a fine scale has more, and loses them when it becomes
coarser. Nothing is interpolated: what lies in a bucket that a limit divides is not known.

Source: OpenTelemetry's data model of metrics, "ExponentialHistogram" (a coarser scale merges pairs of buckets).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import ceil, floor, inf, isfinite, log2

from cotenant.model.traces.model_server import LONGEST_EDGE_US
from cotenant.model.traces.pushed_histogram import ExplicitBuckets, ExponentialBuckets

SECOND_US = 1_000_000


def coarser(buckets: ExponentialBuckets, scale: int) -> ExponentialBuckets:
    """The same observations at a scale that is at most theirs."""
    by = max(0, buckets.scale - scale)
    return replace(
        buckets, scale=buckets.scale - by, counts=_summed((index >> by, count) for index, count in buckets.counts)
    )


def since(now: ExponentialBuckets, before: ExponentialBuckets) -> ExponentialBuckets:
    """What was observed between two readings of one series; below zero where there is less than before."""
    scale = min(now.scale, before.scale)
    later, earlier = coarser(now, scale).counts, coarser(before, scale).counts
    counts = _summed((*later, *((index, -count) for index, count in earlier)))
    zero = now.zero - before.zero if now.zero_us == before.zero_us else now.zero
    return ExponentialBuckets(scale, counts, zero, now.zero_us)


def _summed(counts: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    found: dict[int, int] = {}
    for index, count in counts:
        found[index] = found.get(index, 0) + count
    return tuple(sorted((index, count) for index, count in found.items() if count))


def at_edges(buckets: ExponentialBuckets, limits_us: Iterable[int]) -> ExplicitBuckets:
    """The observations at the edges of the buckets that have any, and at those limits that are edges."""
    found: dict[int, int] = {}  # by the upper edge, in microseconds
    if buckets.zero:
        found[max(1, buckets.zero_us)] = buckets.zero
    beyond = 0
    indices = {index: limit_us for limit_us in limits_us if (index := _index_of(limit_us, buckets.scale)) is not None}
    for limit_us in indices.values():
        found.setdefault(limit_us, 0)
    for index, count in buckets.counts:
        edge_us = indices.get(index + 1) or max(1, _edge_us(index + 1, buckets.scale))
        if edge_us > LONGEST_EDGE_US:
            beyond += count
        else:
            found[edge_us] = found.get(edge_us, 0) + count
    edges = sorted(found)
    return ExplicitBuckets(tuple(edges), (*(found[edge_us] for edge_us in edges), beyond))


def _index_of(limit_us: int, scale: int) -> int | None:
    """The largest power of the base that is the limit to the microsecond."""
    exact = log2(limit_us / SECOND_US) * 2.0**scale
    return next((index for index in (ceil(exact), floor(exact)) if _edge_us(index, scale) == limit_us), None)


def _edge_us(index: int, scale: int) -> int:
    power = index * 2.0**-scale
    edge = 2.0**power * SECOND_US if power < 1000 else inf
    return round(edge) if isfinite(edge) else LONGEST_EDGE_US + 1
