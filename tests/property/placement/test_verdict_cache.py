"""The placement with the verdict cache chooses exactly as the one that judges every row anew, for any changes of
rows in between.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.plain_placement import place_queue
from tests.property.few import examples, first_cases

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.verdict_cache import (
    BEST,
    NO_QUOTA_PER_ROW,
    VerdictCache,
    feasible_on,
    place_cached,
    set_best,
    unevaluated,
)
from cotenant.model.arrays import Mask, NodeArrays, Param
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.codes import Fit, Score
from cotenant.policy.placement.compiled import plain_rejections
from cotenant.policy.placement.knobs import Knobs

KNOBS = Knobs().array()
NOBODY: Mask = np.empty(0, dtype=np.bool_)


def world(rng: np.random.Generator, nodes: int, shapes: int) -> Encoder:
    encoder = Encoder(4.0)
    for i in range(nodes):
        cpu = int(rng.choice([2000, 4000, 8000]))
        labels = Labels.of({"disk": "fast"} if rng.random() < 0.5 else {})
        encoder.add_node(Node(f"n{i}", Amounts.of({"cpu": cpu, "memory": cpu << 20}), labels, ready=rng.random() < 0.9))
    for i in range(shapes):
        cpu = int(rng.choice([100, 300, 700, 5000]))
        wants = Labels.of({"disk": "fast"}) if rng.random() < 0.3 else Labels()
        encoder.intern(
            Pod(f"p{i}", requests=Amounts.of({"cpu": cpu + i, "memory": cpu << 19}), node_selector=wants).shape()
        )
    params = encoder.shapes().params
    params[:, Param.SENSITIVITY] = rng.lognormal(-1.4, 1.0, len(params))
    params[:, Param.PRESSURE] = rng.random(len(params))
    return encoder


def copied(nodes: NodeArrays) -> NodeArrays:
    return NodeArrays._make(column.copy() for column in nodes)


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(list(Score)),
    st.sampled_from([0, 3]),
    st.booleans(),
    st.sampled_from([2, 48]),
)
def test_the_cache_changes_no_choice(seed: int, score: Score, sample: int, random_ties: bool, slots: int) -> None:
    rng = np.random.default_rng(seed)
    encoder = world(rng, 9, 5)
    nodes, shapes = encoder.nodes(), encoder.shapes()
    plain = copied(nodes)
    memory = VerdictCache(score, slots)
    cursors = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    chances = np.random.default_rng(seed), np.random.default_rng(seed)
    for step in range(6):
        queue = rng.integers(0, 5, int(rng.integers(1, 12)))
        allowed = rng.random(9) < 0.6 if rng.random() < 0.4 else NOBODY
        now_s = 100.0 * step
        cached = place_cached(
            queue, nodes, shapes, allowed, Fit.REQUESTS, score, random_ties, sample, cursors[0], now_s, KNOBS,
            chances[0], memory
        )  # fmt: skip
        rows = place_queue(
            queue,
            plain,
            shapes,
            allowed,
            Fit.REQUESTS,
            score,
            random_ties,
            sample,
            cursors[1],
            now_s,
            KNOBS,
            chances[1],
        )
        assert cached.rows.tolist() == rows.tolist()
        assert (cached.counts[cached.rows >= 0].sum(axis=1) == 9).all()
        for i in np.flatnonzero(cached.rows >= 0).tolist():
            finite = cached.best[i][cached.best[i] >= 0]
            assert sample or cached.score[i] == cached.scores[i, 0]
            assert len(set(finite.tolist())) == len(finite)
        row = int(rng.integers(0, 9))  # a row changes: both are updated, the cache by its version
        for node_arrays in (nodes, plain):
            node_arrays.ready[row] = not node_arrays.ready[row]
            node_arrays.requested[row] = 0
            node_arrays.report[row] = 0.5
        memory.changed(row)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(list(Score)), st.booleans(), st.booleans())
def test_pods_of_a_run_are_accounted_for_like_pods_judged_alone(
    seed: int, score: Score, is_narrowed: bool, random_ties: bool
) -> None:
    rng = np.random.default_rng(seed)
    encoder = world(rng, 300, 3)  # three blocks of rows
    nodes, shapes = encoder.nodes(), encoder.shapes()
    plain = copied(nodes)
    memory = VerdictCache(score, 2)
    queue = np.repeat(rng.integers(0, 3, 4), rng.integers(1, 60, 4))
    allowed = rng.random(300) < 0.3 if is_narrowed else NOBODY
    times = np.where(allowed, rng.integers(1, 4, 300), 0) if is_narrowed else NO_QUOTA_PER_ROW
    left = times.copy()
    chances = np.random.default_rng(seed), np.random.default_rng(seed)
    cursor = np.zeros(1, dtype=np.int64)
    run = place_cached(
        queue, nodes, shapes, allowed.copy(), Fit.REQUESTS, score, random_ties, 0, cursor, 5.0, KNOBS, chances[0],
        memory, times
    )  # fmt: skip
    lost: set[int] = set()
    for at, k in enumerate(queue.tolist()):
        if k in lost:
            assert run.counts[at, 0] == -1
            continue
        alone = place_cached(
            queue[at : at + 1], plain, shapes, left > 0 if is_narrowed else NOBODY, Fit.REQUESTS, score, random_ties, 0,
            cursor, 5.0, KNOBS,
            chances[1], VerdictCache(score, 2),
        )  # fmt: skip
        row = int(alone.rows[0])
        for part, expected in zip(run, alone, strict=True):
            np.testing.assert_array_equal(part[at], expected[0])
        if row < 0:
            lost.add(k)
        elif is_narrowed:
            left[row] -= 1
    for column, expected in zip(nodes, plain, strict=True):
        np.testing.assert_array_equal(column, expected)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(40), deadline=None)
def test_feasible_on_lists_the_shapes_that_pass_on_changed_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    encoder = world(rng, 9, 5)
    nodes, shapes = encoder.nodes(), encoder.shapes()
    nodes.requested[:, 0] = rng.integers(0, 8000, 9)
    rows = rng.permutation(9)[: int(rng.integers(1, 5))]
    expected = [bool((plain_rejections(nodes, shapes, k, Fit.REQUESTS, KNOBS)[rows] == 0).any()) for k in range(5)]
    assert feasible_on(np.arange(5), rows, nodes, shapes, Fit.REQUESTS, KNOBS).tolist() == expected


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 40), st.integers(1, 6))
def test_the_best_of_some_rows_are_those_that_sorting_puts_first(seed: int, size: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(rng.random(size) < 0.7)
    scores = rng.integers(0, levels, len(rows)).astype(np.float64)
    evaluation = unevaluated(2)
    set_best(evaluation, 1, rows, scores)
    first = np.argsort(-scores, kind="stable")[:BEST]
    assert evaluation.best[1].tolist() == rows[first].tolist() + [-1] * (BEST - len(first))
    assert evaluation.scores[1, : len(first)].tolist() == scores[first].tolist()
    assert (evaluation.best[0] == -1).all()


test_first_cases = first_cases(
    test_the_cache_changes_no_choice,
    test_pods_of_a_run_are_accounted_for_like_pods_judged_alone,
    most=2,
)
