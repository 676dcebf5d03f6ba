"""Rings of integers in bounded memory."""

from __future__ import annotations

import random
import sys

import pytest

from cotenant.engine.node.series import SeriesStore, SeriesSummary, percentile
from cotenant.model.errors import InvalidInput

CPU = ("g", "cpu")


def filled(values: list[int | None], points: int = 100, ring: int = 100) -> SeriesStore:
    store = SeriesStore(points, 10)
    for tick, value in enumerate(values):
        store.tick(tick + 1)
        if value is not None:
            store.write(CPU, value, ring)
    return store


def test_a_window_is_newest_first_and_open_at_its_old_end() -> None:
    store = filled([10, 20, 30, 40])
    assert store.window(CPU, 0) == [40, 30, 20, 10]
    assert store.window(CPU, 2) == [40, 30]
    assert store.window(CPU, 4) == []
    assert store.window(("other", "cpu"), 0) == []


def test_holes_are_not_zeros() -> None:
    store = filled([10, None, None, 40, None])
    assert store.window(CPU, 0) == [40, 10]
    assert store.average(CPU, 0) == 25
    assert store.average(CPU, 4) is None


def test_a_ring_keeps_its_newest_points_only() -> None:
    store = filled(list(range(1000)), points=100, ring=10)
    assert store.window(CPU, 0) == list(range(999, 989, -1))


def test_a_gap_longer_than_the_ring_leaves_nothing() -> None:
    store = filled([1, 2, 3, *[None] * 20], points=100, ring=10)
    assert store.window(CPU, 0) == []


def test_a_new_series_has_no_values_before_its_first_tick() -> None:
    store = filled([None] * 50 + [7], points=100, ring=10)
    assert store.window(CPU, 0) == [7]


def test_a_summary_is_by_nearest_rank() -> None:
    values = list(range(1, 201))
    random.Random(1).shuffle(values)
    store = filled(list(values), points=500, ring=500)
    assert store.summary(CPU, 0) == SeriesSummary(average=100, p50=100, p90=180, p95=190, p99=198)
    assert filled([]).summary(CPU, 0) is None
    assert filled([5]).summary(CPU, 0) == SeriesSummary(5, 5, 5, 5, 5)


@pytest.mark.parametrize(("percent", "value"), [(1, 10), (50, 20), (67, 30), (100, 30)])
def test_percentiles_of_three(percent: int, value: int) -> None:
    assert percentile([10, 20, 30], percent) == value


def test_values_beyond_eight_bytes_are_clamped() -> None:
    store = filled([10**30, -(10**30)])
    assert store.window(CPU, 0) == [-(2**63) + 1, 2**63 - 1]


def test_the_least_recently_written_series_is_evicted() -> None:
    store = SeriesStore(10, 2)
    store.tick(1)
    store.write(("a", "cpu"), 1, 10)
    store.write(("b", "cpu"), 1, 10)
    store.write(("a", "cpu"), 2, 10)
    store.write(("c", "cpu"), 1, 10)
    assert (("a", "cpu") in store, ("b", "cpu") in store, ("c", "cpu") in store) == (True, False, True)
    assert store.evicted == 1


def test_series_of_gone_groups_are_dropped() -> None:
    store = SeriesStore(10, 10)
    store.tick(1)
    for group in "abc":
        store.write((group, "cpu"), 1, 10)
        store.write((group, "memory"), 1, 10)
    store.keep(["b"])
    assert len(store) == 2


def test_a_write_before_the_first_tick_and_an_empty_store_are_refused() -> None:
    with pytest.raises(InvalidInput):
        SeriesStore(10, 10).write(CPU, 1, 10)
    with pytest.raises(InvalidInput):
        SeriesStore(0, 10)


@pytest.mark.slow
def test_a_million_samples_take_no_more_than_the_first_thousand() -> None:
    store = SeriesStore(1000, 100)

    def run(first: int, last: int) -> int:
        for tick in range(first, last):
            store.tick(tick)
            store.write((f"g{tick % 300}", "cpu"), tick, 200)
        return store.memory_bytes + sys.getsizeof(store._rings)

    early = run(1, 2000)
    assert run(2000, 1_000_000) == early
    assert len(store) == 100
