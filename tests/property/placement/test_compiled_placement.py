"""The compiled placement chooses exactly as the plain one, and never exceeds capacity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.engine.state.ledger import empty_nodes
from cotenant.engine.state.verdict_cache import VerdictCache, place_cached
from cotenant.model.arrays import MEMORY, PODS, NodeArrays, Param, ReportColumn, ShapeArrays, Sum
from cotenant.policy.placement.codes import Fit, Score
from cotenant.policy.placement.compiled import plain_rejections, plain_scores, rejection, score_rows
from cotenant.policy.placement.contribution import contribution
from cotenant.policy.placement.knobs import Knobs

GIB = 2**30


def random_nodes(rng: np.random.Generator, size: int) -> NodeArrays:
    cores = rng.choice([16_000, 32_000, 96_000], size)
    capacity = np.stack([cores, cores // 1000 * 4 * GIB, np.full(size, 60), rng.choice([0, 400], size)], axis=1)
    nodes = empty_nodes(capacity, groups=3)
    nodes.ready[:] = rng.random(size) < 0.9
    nodes.taints[:] = np.where(rng.random(size) < 0.2, 1 << rng.integers(0, 4, size), 0)
    nodes.labels[:, 0] = rng.integers(0, 16, size)
    reported = rng.random(size) < 0.7
    nodes.report[reported] = rng.random((int(reported.sum()), len(ReportColumn)))
    nodes.report[reported, ReportColumn.LATENCY_P99_MS] *= 200.0
    nodes.report[reported, ReportColumn.REPORTED_AT] *= 300.0
    return nodes


def random_shapes(rng: np.random.Generator, size: int, unasked: float = 0.0) -> ShapeArrays:
    """`unasked` is the chance that a shape requests none of a resource."""
    cores = rng.choice([500, 1000, 2000, 4000, 8000, 200_000], size, p=[0.2, 0.2, 0.2, 0.2, 0.15, 0.05])
    request = np.stack(
        [cores, rng.integers(1, 16, size) * GIB // 2, np.ones(size), rng.choice([0, 100], size, p=[0.9, 0.1])], axis=1
    )
    request = request.astype(np.int64)
    if unasked:
        request[:, [0, 1, 3]] *= rng.random((size, 3)) >= unasked
    params = np.zeros((size, len(Param)))
    params[:, Param.USE_CPU] = cores / 1000.0 * rng.uniform(0.2, 1.2, size)
    params[:, Param.USE_MEMORY] = request[:, MEMORY] * rng.uniform(0.2, 1.2, size)
    params[:, Param.SENSITIVITY] = rng.lognormal(-1.4, 1.0, size)
    params[:, Param.PRESSURE] = np.minimum(1.0, rng.lognormal(-1.6, 1.0, size))
    params[:, Param.ALLOWANCE] = rng.uniform(0.05, 2.0, size)
    params[:, Param.IS_SERVICE] = rng.random(size) < 0.4
    params[:, Param.LENT_CPU] = rng.choice([0.0, 0.5, 4.0], size, p=[0.6, 0.2, 0.2])
    params[:, Param.LENT_MEMORY] = rng.choice([0.0, 2.0], size) * GIB
    params[:, Param.PRIORITY_BASE] = rng.choice([0.0, 17.0, 35.0], size)
    params[:, Param.LOAD_LIMIT] = rng.choice([np.inf, 0.6], size)
    return ShapeArrays(
        request=request,
        sums=contribution(request, params, 16.0, 0.7),
        params=params,
        tolerated=rng.integers(0, 16, size).astype(np.uint64),
        selector=np.where(rng.random((size, 1)) < 0.3, 1 << rng.integers(0, 4, (size, 1)), 0).astype(np.uint64),
        tenant=rng.integers(0, 4, size),
        group=rng.integers(-1, 3, size),
        group_limit=rng.integers(1, 5, size),
    )


def plain_placement(queue, nodes, shapes, fit, score, now_s, knobs):
    """Place pods one after another by the plain forms: the first of the best rows."""
    placed = np.full(len(queue), -1)
    for i, k in enumerate(queue):
        rows = np.flatnonzero(plain_rejections(nodes, shapes, k, fit, knobs) == 0)
        if len(rows) == 0:
            continue
        n = rows[np.argmax(plain_scores(score, nodes, shapes, k, rows, now_s, knobs))]
        nodes.requested[n] += shapes.request[k]
        nodes.sums[n] += shapes.sums[k]
        if shapes.group[k] >= 0:
            nodes.group_count[n, shapes.group[k]] += 1
        placed[i] = n
    return placed


def placed_by_cache(queue, nodes, shapes, fit, score, random_ties, sample, now_s, knobs, rng):
    """The product's own placement, with a cache of its own."""
    cache, cursor = VerdictCache(Score(score)), np.zeros(1, np.int64)
    everywhere = np.empty(0, np.bool_)
    return place_cached(
        queue, nodes, shapes, everywhere, fit, score, random_ties, sample, cursor, now_s, knobs, rng, cache
    ).rows


def copied(nodes: NodeArrays) -> NodeArrays:
    return NodeArrays._make(column.copy() for column in nodes)


@pytest.mark.parametrize(("score", "fit"), [(score, list(Fit)[score % len(Fit)]) for score in Score])
def test_every_score_equals_its_plain_form_on_one_cluster(score: Score, fit: Fit) -> None:
    forms_agree(score, fit, seed=11)


@pytest.mark.slow
@pytest.mark.parametrize("score", list(Score))
@pytest.mark.parametrize("fit", list(Fit))
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(12), deadline=None)
def test_every_filter_and_score_equals_its_plain_form(score: Score, fit: Fit, seed: int) -> None:
    forms_agree(score, fit, seed)


def forms_agree(score: Score, fit: Fit, seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, shapes = random_nodes(rng, 40), random_shapes(rng, 12, unasked=0.2)
    weights = ("base", "capacity", "fairness", "latency", "dominant", "violations")
    knobs = Knobs().with_values(tuple((f"founding_{weight}", rng.uniform(0, 80)) for weight in weights)).array()
    placed_by_cache(rng.integers(0, 12, 60), nodes, shapes, fit, 0, True, 0, 100.0, knobs, rng)
    everywhere = np.arange(40)
    for k in range(12):
        expected = plain_rejections(nodes, shapes, k, fit, knobs)
        assert [rejection(nodes, n, shapes, k, fit, knobs) for n in everywhere] == expected.tolist()
        values = plain_scores(score, nodes, shapes, k, everywhere, 100.0, knobs)
        compiled = np.empty(40)
        score_rows(score, nodes, shapes, k, everywhere, 100.0, knobs, compiled)
        np.testing.assert_allclose(compiled, values, rtol=1e-12, atol=1e-9)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(25), deadline=None)
def test_an_overcommitted_resource_does_not_block_pods_that_request_none_of_it(seed: int) -> None:
    """For each resource, as in Kubernetes: requested amounts must be free; other resources are not checked."""
    rng = np.random.default_rng(seed)
    nodes, shapes = random_nodes(rng, 30), random_shapes(rng, 20, unasked=0.3)
    nodes.ready[:] = True
    nodes.taints[:] = 0
    shapes.selector[:] = 0
    shapes.group[:] = -1
    shapes.params[:, Param.LOAD_LIMIT] = np.inf
    nodes.requested[:] = nodes.capacity * rng.uniform(0.5, 1.5, nodes.capacity.shape)
    knobs = Knobs().array()
    for k in range(20):
        for n in range(30):
            fits = all(
                nodes.requested[n, r] + asked <= nodes.capacity[n, r]
                for r, asked in enumerate(shapes.request[k].tolist())
                if asked > 0
            )
            assert (rejection(nodes, n, shapes, k, Fit.REQUESTS, knobs) == 0) == fits


@pytest.mark.slow
@pytest.mark.parametrize("score", [s for s in Score if s is not Score.INTERFERENCE])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(10), deadline=None)
def test_the_compiled_queue_places_exactly_as_the_plain_one(score: Score, seed: int) -> None:
    queues_agree(score, seed)


@pytest.mark.parametrize("score", [Score.NONE, Score.BEST_FIT, Score.KUBE_1_36])
def test_the_compiled_queue_places_one_cluster_as_the_plain_one(score: Score) -> None:
    queues_agree(score, seed=11)


def queues_agree(score: Score, seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, shapes = random_nodes(rng, 25), random_shapes(rng, 10)
    nodes.capacity[:, PODS] = 9
    queue, knobs = rng.integers(0, 10, 250), Knobs().array()  # more than there are slots
    twin = copied(nodes)
    placed = placed_by_cache(queue, nodes, shapes, 0, score, False, 0, 100.0, knobs, rng)
    assert placed.tolist() == plain_placement(queue, twin, shapes, 0, score, 100.0, knobs).tolist()
    assert (placed == -1).any()
    for column, other in zip(nodes, twin, strict=True):
        np.testing.assert_array_equal(column, other)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1), random_ties=st.booleans(), sample=st.sampled_from([0, 7]))
@settings(max_examples=examples(25), deadline=None)
def test_placements_respect_capacity_and_filters(seed: int, random_ties: bool, sample: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, shapes = random_nodes(rng, 25), random_shapes(rng, 10)
    queue = rng.integers(0, 10, 300)
    knobs = Knobs().array()
    placed = placed_by_cache(queue, nodes, shapes, 0, int(Score.INTERFERENCE), random_ties, sample, 0.0, knobs, rng)
    assert (nodes.requested <= nodes.capacity).all()
    for k, n in zip(queue, placed, strict=True):
        if n >= 0:
            assert nodes.ready[n]
            assert not nodes.taints[n] & ~shapes.tolerated[k]
            assert not shapes.selector[k, 0] & ~nodes.labels[n, 0]
            if shapes.group[k] >= 0:
                residents = int(np.sum((placed == n) & (shapes.group[queue] == shapes.group[k])))
                assert nodes.group_count[n, shapes.group[k]] == residents
    seen = np.zeros_like(nodes.requested)
    np.add.at(seen, placed[placed >= 0], shapes.request[queue[placed >= 0]])
    np.testing.assert_array_equal(nodes.requested, seen)
    assert nodes.sums[:, Sum.USE_CPU].sum() == shapes.sums[queue[placed >= 0], Sum.USE_CPU].sum()


def test_an_unknown_score_raises_in_both_forms() -> None:
    rng = np.random.default_rng(0)
    nodes, shapes, knobs = random_nodes(rng, 4), random_shapes(rng, 1), Knobs().array()
    unknown = max(Score) + 1
    with pytest.raises(ValueError, match="unknown score code"):
        score_rows(unknown, nodes, shapes, 0, np.arange(4), 0.0, knobs, np.empty(4))
    with pytest.raises(ValueError, match=str(unknown)):
        plain_scores(unknown, nodes, shapes, 0, np.arange(4), 0.0, knobs)


test_first_cases = first_cases(
    test_an_overcommitted_resource_does_not_block_pods_that_request_none_of_it,
    test_placements_respect_capacity_and_filters,
    most=6,
)
