"""Latency by operation over time: what the window and the hour before it have, and that the hour is bounded."""

from __future__ import annotations

import numpy as np

from cotenant.engine.traces.latency import KEPT_SLOTS, MAX_KEPT, SLOT_S, SLOTS, OperationLatency
from cotenant.policy.objective.latency_buckets import quantile_ns

MS = 1_000_000


def served(series: OperationLatency, at_s: float, *requests: tuple[int, float]) -> None:
    """Count requests (operation, milliseconds), then let the slot end."""
    operations = np.array([request[0] for request in requests], np.int32)
    took = np.array([int(request[1] * MS) for request in requests], np.int64)
    series.add(operations, took, operations % 2 == 1, np.zeros(operations.size, bool))
    series.tick(at_s + SLOT_S)


def test_slots_are_kept_in_order_for_an_hour() -> None:
    series = OperationLatency(0.0)
    for k in range(KEPT_SLOTS + 20):
        served(series, k * SLOT_S, (0, 1.0 + k), (1, 100.0))
    now_s = (KEPT_SLOTS + 20) * SLOT_S
    found = series.slots([0], now_s)
    assert [slot_figures.begun_s for slot_figures in found] == [k * SLOT_S for k in range(20, KEPT_SLOTS + 20)]
    assert all(
        slot_figures.ended_s - slot_figures.begun_s == SLOT_S
        and slot_figures.requests == 1
        and slot_figures.errors == 0
        for slot_figures in found
    )
    took_ms = [quantile_ns(slot_figures.buckets, 0.5) / MS for slot_figures in found]
    np.testing.assert_allclose(took_ms, np.arange(21.0, KEPT_SLOTS + 21.0), rtol=0.011)
    both = series.slots([0, 1], now_s)
    assert [(slot_figures.requests, slot_figures.errors) for slot_figures in both] == [(2, 1)] * KEPT_SLOTS
    assert series.window(0, now_s).requests == SLOTS


def test_the_open_slot_is_the_last_and_empty_ones_are_left_out() -> None:
    series = OperationLatency(0.0)
    served(series, 0.0, (3, 5.0))
    series.tick(2 * SLOT_S)
    series.add(np.array([3], np.int32), np.array([7 * MS]), np.array([True]), np.array([False]))
    found = series.slots([3], 2 * SLOT_S + 4.0)
    assert [(slot_figures.begun_s, slot_figures.ended_s, slot_figures.errors) for slot_figures in found] == [
        (0.0, 30.0, 1),
        (60.0, 64.0, 1),
    ]
    assert series.slots([2], 64.0) == []
    assert series.slots([500], 64.0) == []


def test_slots_beyond_the_window_keep_the_busiest_operations() -> None:
    series = OperationLatency(0.0)
    many = [(operation, 5.0) for operation in range(3 * MAX_KEPT) for _ in range(1 + (operation >= 2 * MAX_KEPT))]
    served(series, 0.0, *many)
    for k in range(1, SLOTS + 1):
        assert len(series.slots([0], k * SLOT_S)) == k
        served(series, k * SLOT_S, (0, 5.0))
    now_s = (SLOTS + 1) * SLOT_S
    assert [slot.begun_s for slot in series.slots([0], now_s)] == [k * SLOT_S for k in range(1, SLOTS + 1)]
    busy = [series.slots([operation], now_s)[0] for operation in range(2 * MAX_KEPT, 3 * MAX_KEPT)]
    assert {(slot_figures.begun_s, slot_figures.requests) for slot_figures in busy} == {(0.0, 2)}


def test_a_clock_that_jumps_forgets_what_is_old() -> None:
    series = OperationLatency(0.0)
    for k in range(SLOTS + 5):
        served(series, k * SLOT_S, (0, 5.0))
    series.tick(1e6)
    assert series.slots([0], 1e6) == []
