"""The critical path: what its definition says, and that the compiled form equals the plain one."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from cotenant.model.traces.spans import SpanKind
from cotenant.policy.objective.critical_path import blocking_parents, critical_path, critical_paths


def path(*spans: tuple[int, int, int]) -> list[int]:
    """Self times of spans given as (start, end, parent)."""
    start, end, parent = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    return critical_path(start, end, parent, 0).tolist()


def random_trace(random: Random, spans: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A tree with overlap, overflow and skew; parents before children, the root first."""
    start, end, parent = [0], [1_000_000], [-1]
    for row in range(1, spans):
        above = random.randrange(max(0, row - 8), row)
        width = max(1, end[above] - start[above])
        begin = start[above] + random.randrange(-width // 4 - 1, width)
        start.append(begin)
        end.append(begin + random.randrange(1, 2 * width + 1))
        parent.append(above)
    return np.array(start), np.array(end), np.array(parent)


def test_the_child_that_finished_last_is_responsible() -> None:
    assert path((0, 100, -1), (10, 60, 0), (20, 90, 0)) == [20 + 10, 0, 70]


def test_children_in_sequence_share_the_path_with_their_parent() -> None:
    assert path((0, 100, -1), (10, 30, 0), (50, 90, 0)) == [10 + 20 + 10, 20, 40]


def test_a_child_that_covers_its_parent_takes_all_of_it() -> None:
    assert path((10, 90, -1), (0, 100, 0)) == [0, 80]


def test_a_child_outside_its_parent_has_no_part() -> None:
    assert path((0, 100, -1), (100, 150, 0), (-20, 0, 0)) == [100, 0, 0]


def test_what_lies_below_a_clipped_span_is_clipped_too() -> None:
    assert path((0, 100, -1), (50, 200, 0), (150, 180, 1), (60, 120, 1)) == [50, 10, 0, 40]


def test_nothing_waits_for_a_consumer() -> None:
    kinds = np.array([SpanKind.SERVER, SpanKind.PRODUCER, SpanKind.CONSUMER], np.uint8)
    assert blocking_parents(np.array([-1, 0, 1]), kinds).tolist() == [-1, 0, -1]


def test_self_times_sum_to_the_root_whatever_the_clocks_did() -> None:
    random = Random(3)
    for _ in range(300):
        start, end, parent = random_trace(random, random.randrange(1, 40))
        self_ns = critical_path(start, end, parent, 0)
        assert self_ns.sum() == 1_000_000
        assert (self_ns >= 0).all()


def test_the_order_of_siblings_does_not_matter() -> None:
    random, compared = Random(4), 0
    for _ in range(200):
        start, end, parent = random_trace(random, 12)
        order = sorted(range(12), key=lambda row: (_depth(parent, row), random.random()))
        place = {row: index for index, row in enumerate(order)}
        shuffled = critical_path(
            start[order], end[order], np.array([place.get(int(parent[row]), -1) for row in order]), 0
        )
        if not _has_equal_siblings(start, end, parent):
            assert shuffled.tolist() == critical_path(start, end, parent, 0)[order].tolist()
            compared += 1
    assert compared > 20


def test_a_wrapper_of_the_same_length_has_no_time_of_its_own() -> None:
    assert path((0, 100, -1), (10, 60, 0)) == [50, 50]
    assert path((0, 100, -1), (10, 60, 0), (10, 60, 1)) == [50, 0, 50]


@pytest.mark.parametrize("traces", [1, 60])
def test_the_compiled_form_equals_the_plain_one(traces: int) -> None:
    random = Random(traces)
    made = [random_trace(random, random.randrange(1, 30)) for _ in range(traces)]
    first_of = np.cumsum([0, *(start.size for start, _, _ in made)])
    start, end = (np.concatenate([trace[column] for trace in made]) for column in (0, 1))
    parent = np.concatenate(
        [np.where(trace[2] < 0, -1, trace[2] + begin) for trace, begin in zip(made, first_of, strict=False)]
    )
    order = np.arange(start.size)
    found = critical_paths(start, end, parent, order, first_of, first_of[:-1])
    assert found.tolist() == [part for trace in made for part in critical_path(*trace, 0).tolist()]


def _depth(parent: np.ndarray, row: int) -> int:
    depth = 0
    while parent[row] >= 0:
        row, depth = int(parent[row]), depth + 1
    return depth


def _has_equal_siblings(start: np.ndarray, end: np.ndarray, parent: np.ndarray) -> bool:
    """Whether two children of a span cover the same part of it; then one of them is chosen by its place."""
    low, high, seen = start.copy(), end.copy(), set()
    for row in range(1, start.size):
        above = int(parent[row])
        low[row], high[row] = max(low[row], low[above]), min(high[row], high[above])
        seen.add((above, int(low[row]), int(high[row])))
    return len(seen) < start.size - 1
