"""Spans into trees: against a plain form, with circles, doubled spans and missing parents."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from cotenant.engine.traces import assembly
from cotenant.engine.traces.assembly import Trees, trees_of


def trees(*traces: list[tuple[int, int]]) -> Trees:
    """Traces of (span id, parent id)."""
    spans = [span for trace in traces for span in trace]
    ids, parents = (np.array(column, np.uint64) for column in zip(*spans, strict=True))
    begins = np.cumsum([0, *map(len, traces)])
    return trees_of(ids, parents, np.arange(ids.size), begins)


def test_parents_stand_before_children() -> None:
    found = trees([(3, 2), (2, 1), (1, 0), (4, 1)])
    assert found.parent.tolist() == [1, 2, -1, 2]
    order = found.order.tolist()
    assert order[0] == 2
    assert order.index(1) < order.index(0)
    assert (found.root_of.tolist(), found.partial.tolist()) == ([2], [False])


def test_a_missing_parent_makes_a_root_and_the_trace_partial() -> None:
    found = trees([(5, 9), (1, 0), (6, 5)])
    assert found.orphan.tolist() == [True, False, False]
    assert found.parent.tolist() == [-1, -1, 0]
    assert (found.root_of.tolist(), found.partial.tolist()) == ([1], [True])  # the one without a parent id


def test_without_a_root_the_orphan_that_starts_first_is_the_root() -> None:
    found = trees([(5, 9), (6, 9)])
    assert (found.root_of.tolist(), found.partial.tolist()) == ([0], [True])


def test_the_second_span_of_an_id_is_dropped() -> None:
    found = trees([(1, 0), (2, 1), (2, 1), (3, 2)])
    assert found.dropped.tolist() == [False, False, True, False]
    assert found.parent[3] == 1
    assert found.order[: found.first_of[-1]].tolist() == [0, 1, 3]


@pytest.mark.parametrize("circle", [[(1, 2), (2, 1)], [(1, 1)], [(1, 3), (2, 1), (3, 2), (4, 2)]])
def test_a_circle_is_cut_at_its_first_span(circle: list[tuple[int, int]]) -> None:
    found = trees(circle)
    assert sorted(found.order.tolist()) == list(range(len(circle)))
    assert found.parent[0] == -1
    assert (found.root_of.tolist(), found.partial.tolist()) == ([0], [True])


def test_a_circle_beside_a_root_is_kept_as_a_part_of_the_trace() -> None:
    found = trees([(1, 0), (7, 8), (8, 7)])
    assert (found.root_of.tolist(), found.partial.tolist()) == ([0], [True])
    assert found.parent.tolist() == [-1, -1, 1]


def test_spans_beyond_the_bound_of_a_trace_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "MAX_IN_TRACE", 3)
    found = trees([(1, 0), (2, 1), (3, 1), (4, 1), (5, 4)], [(1, 0)])
    assert found.dropped.tolist() == [False, False, False, True, True, False]
    assert found.first_of.tolist() == [0, 3, 4]


def test_random_traces_equal_the_plain_form() -> None:
    random = Random(1)
    for _ in range(200):
        traces = [
            [(random.randrange(1, 12), random.randrange(0, 14)) for _ in range(random.randrange(1, 10))]
            for _ in range(random.randrange(1, 5))
        ]
        found, begin = trees(*traces), 0
        for number, trace in enumerate(traces):
            rows = found.order[found.first_of[number] : found.first_of[number + 1]].tolist()
            kept = {}
            for offset, (span, _) in enumerate(trace):
                kept.setdefault(span, begin + offset)
            assert sorted(rows) == sorted(kept.values())
            for row in rows:
                wanted = kept.get(trace[row - begin][1], -1)
                assert found.parent[row] in ((-1,) if wanted == row else (wanted, -1))
                if found.parent[row] == -1 and wanted not in (-1, row):
                    assert _is_in_a_circle(row - begin, trace, {span: at - begin for span, at in kept.items()})
                elif found.parent[row] >= 0:
                    assert rows.index(int(found.parent[row])) < rows.index(row)
            begin += len(trace)


def _is_in_a_circle(row: int, trace: list[tuple[int, int]], kept: dict[int, int]) -> bool:
    seen, at = set(), row
    while at not in seen:
        seen.add(at)
        above = kept.get(trace[at][1])
        if above is None:
            return False
        at = above
    return True
