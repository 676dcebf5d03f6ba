"""The score tree chooses as the plain forms do, for any events of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotenant.engine.replay.score_tree import ScoreTree
from cotenant.model.arrays import CPU, MEMORY, PODS, Int, NodeArrays, Param, Report, ShapeArrays, Sum
from cotenant.policy.placement import weighted
from cotenant.policy.placement.compiled import Fit, Score, plain_rejections, plain_scores
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.lanes.layout import Kernel

KNOBS = Knobs().array()
PLAIN_SCORE = {
    Kernel.FOUNDING: Score.FOUNDING,
    Kernel.FOUNDING_LEDGER: Score.FOUNDING_LEDGER,
    Kernel.KUBE_DEFAULT: Score.KUBE_DEFAULT,
}
relaxed = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])


@dataclass
class Case:
    nodes: NodeArrays
    shapes: ShapeArrays
    held: Int
    weights: np.ndarray
    rng: np.random.Generator


def a_case(seed: int, *, nodes: int, shapes: int, resources: int, tight: bool) -> Case:
    """A random cluster; few distinct values, so that ties are common; `tight` leaves room for a few pods a node only."""
    rng = np.random.default_rng(seed)
    tenants, words, groups = 3, 2, 2
    capacity = rng.choice([2000, 4000, 4001], (nodes, resources)) * (1 if tight else 8)
    capacity[:, MEMORY] *= 1 << 20
    capacity[:, PODS] = rng.integers(2, 12 if tight else 110, nodes)
    capacity[:, PODS + 1 :] *= rng.random((nodes, resources - PODS - 1)) < 0.6
    report = np.full((nodes, len(Report)), np.nan)
    told = rng.random(nodes) < 0.7
    report[told] = rng.choice([0.0, 0.25, 0.7, 1.2], (int(told.sum()), len(Report)))
    report[told, Report.LATENCY_P99_MS] *= 150
    report[told, Report.REPORTED_AT] = rng.choice([-200.0, -60.0, 0.0], int(told.sum()))
    cluster = NodeArrays(
        capacity,
        np.zeros((nodes, resources), dtype=np.int64),
        np.zeros((nodes, len(Sum)), dtype=np.int64),
        report,
        rng.choice([0, 0, 0, 1, 2, 3], nodes).astype(np.uint64),
        rng.integers(0, 8, (nodes, words)).astype(np.uint64),
        rng.random(nodes) < 0.9,
        np.zeros((nodes, groups), dtype=np.int64),
    )
    request = rng.choice([0, 250, 500, 1000, 1999], (shapes, resources))
    request[:, MEMORY] *= 1 << 20
    request[:, PODS] = rng.choice([1, 1, 1, 0], shapes)
    request[:, PODS + 1 :] *= rng.random((shapes, resources - PODS - 1)) < 0.3
    use = rng.choice([0, 100, 500], shapes)
    sums = np.zeros((shapes, len(Sum)), dtype=np.int64)
    sums[:, Sum.USE_CPU] = use
    params = np.zeros((shapes, len(Param)))
    params[:, Param.USE_CPU] = use / 1000
    params[:, Param.PRIORITY_BASE] = rng.choice([0, 17, 35], shapes)
    params[:, Param.LOAD_LIMIT] = rng.choice([0.3, 0.7, np.inf], shapes)
    group = rng.choice([-1, -1, 0, 1], shapes)
    kinds = ShapeArrays(
        request,
        sums,
        params,
        rng.choice([0, 1, 3], shapes).astype(np.uint64),
        (rng.integers(0, 8, (shapes, words)) * (rng.random((shapes, words)) < 0.2)).astype(np.uint64),
        rng.integers(0, tenants, shapes),
        group,
        rng.integers(1, 3, shapes),
    )
    weights = weighted.scaled_weights(rng.choice([0.1, 0.5, 1.0], (shapes, 5)), shapes)
    return Case(cluster, kinds, np.zeros((nodes, tenants, resources), dtype=np.int64), weights, rng)


def plain_choice(case: Case, kernel: Kernel, k: int, now_s: float) -> int:
    """The reference: NumPy over all nodes, lowest row on a tie."""
    if kernel == Kernel.WEIGHTED:
        return weighted.choice(case.nodes, case.shapes, k, case.held, case.weights)
    rows = np.arange(len(case.nodes.ready))
    passes = plain_rejections(case.nodes, case.shapes, k, Fit.REQUESTS, KNOBS) == 0
    values = plain_scores(PLAIN_SCORE[kernel], case.nodes, case.shapes, k, rows, now_s, KNOBS)
    return int(np.argmax(np.where(passes, values, -1.0))) if passes.any() else -1


def a_tree(case: Case, kernel: Kernel, lanes: int = 16, precision: str = "float64") -> ScoreTree:
    return ScoreTree(
        kernel, case.nodes, case.shapes, weights=case.weights, held=case.held, lanes=lanes, precision=precision
    )


def snapshot(case: Case, tree: ScoreTree) -> list[np.ndarray]:
    kept = tree.arrays
    arrays = (*case.nodes, case.held, kept.scores, kept.rows.packed, kept.rows.allowed)
    return [array.copy() for array in arrays]


def within_capacity(case: Case) -> bool:
    return bool((case.nodes.requested <= case.nodes.capacity).all())


@pytest.mark.slow
@pytest.mark.parametrize("kernel", list(Kernel))
@given(
    seed=st.integers(0, 2**32 - 1),
    nodes=st.integers(1, 150),
    shapes=st.integers(1, 40),
    resources=st.integers(3, 6),
    tight=st.booleans(),
    steps=st.lists(st.sampled_from("pppprrdutlcfga"), min_size=1, max_size=40),
)
@relaxed
def test_tree_equals_plain_after_any_events(
    kernel: Kernel, seed: int, nodes: int, shapes: int, resources: int, tight: bool, steps: list[str]
) -> None:
    case = a_case(seed, nodes=nodes, shapes=shapes, resources=resources, tight=tight)
    tree, rng, now_s = a_tree(case, kernel), case.rng, 0.0
    pods: list[tuple[int, int]] = []
    for step in steps:
        row, k = int(rng.integers(nodes)), int(rng.integers(shapes))
        if step == "p":
            wanted = plain_choice(case, kernel, k, now_s)
            assert tree.place(k) == wanted
            if wanted >= 0:
                pods.append((wanted, k))
                assert (case.nodes.requested[wanted] <= case.nodes.capacity[wanted])[case.shapes.request[k] > 0].all()
        elif step == "r" and pods:
            tree.release(*pods.pop(int(rng.integers(len(pods)))))
        elif step in "du":
            tree.set_ready(row, step == "u")
        elif step == "t":
            case.nodes.taints[row] = rng.integers(0, 4)
            tree.refresh(row)
        elif step == "l":
            case.nodes.labels[row] = rng.integers(0, 8, 2)
            tree.refresh(row)
        elif step == "c":
            case.nodes.capacity[row] = np.maximum(1, case.nodes.capacity[row] * int(rng.integers(1, 4)) // 2)
            tree.refresh(row)
        elif step == "f":
            values = rng.random(len(Report))
            values[Report.REPORTED_AT] = now_s - rng.choice([0.0, 119.0, 121.0])
            tree.report(row, values)
        elif step == "g":
            rows = tree.gang(k, int(rng.integers(1, 20)))
            pods.extend((int(n), k) for n in rows)
        elif step == "a":
            now_s += float(rng.choice([1.0, 60.0]))
            tree.advance(now_s)
        asked = int(rng.integers(shapes))
        wanted = plain_choice(case, kernel, asked, now_s)
        assert tree.best(asked) == wanted
        assert tree.scan(asked) == wanted
    tree.validate()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float64", "float32"])
@given(seed=st.integers(0, 2**32 - 1), nodes=st.integers(1, 60), live=st.integers(1, 400))
@relaxed
def test_a_stream_through_saturation_equals_the_scan(precision: str, seed: int, nodes: int, live: int) -> None:
    """More arrivals than room, with departures; more shapes than lanes."""
    first, second = (a_case(seed, nodes=nodes, shapes=24, resources=4, tight=True) for _ in range(2))
    stream = first.rng.integers(0, 24, 600)
    by_tree = a_tree(first, Kernel.WEIGHTED, precision=precision)
    by_scan = a_tree(second, Kernel.WEIGHTED, precision=precision)
    assert (by_tree.run(stream, live) == by_scan.run_by_scan(stream, live)).all()
    assert within_capacity(first)
    by_tree.validate()


@given(
    seed=st.integers(0, 2**32 - 1), nodes=st.integers(1, 30), count=st.integers(1, 300), kernel=st.sampled_from(Kernel)
)
@relaxed
def test_a_gang_is_placed_whole_or_changes_nothing(seed: int, nodes: int, count: int, kernel: Kernel) -> None:
    case = a_case(seed, nodes=nodes, shapes=8, resources=4, tight=True)
    tree = a_tree(case, kernel)
    tree.place_many(case.rng.integers(0, 8, 20))
    before = snapshot(case, tree)
    requested = case.nodes.requested.copy()
    k = int(case.rng.integers(8))
    rows = tree.gang(k, count)
    if len(rows):
        np.add.at(requested, rows, case.shapes.request[k])
        assert len(rows) == count
        assert (case.nodes.requested == requested).all()
        assert within_capacity(case)
        for n in rows:
            tree.release(int(n), k)
    for left, right in zip(before, snapshot(case, tree), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1), kernel=st.sampled_from(Kernel))
@relaxed
def test_filling_a_cluster_places_a_pod_wherever_one_fits(seed: int, kernel: Kernel) -> None:
    """Until nothing fits any more: every refusal is one that the plain filters confirm."""
    case = a_case(seed, nodes=6, shapes=5, resources=3, tight=True)
    tree = a_tree(case, kernel)
    stream = case.rng.integers(0, 5, 200)
    rows = tree.place_many(stream)
    assert within_capacity(case)
    for k in np.unique(stream[-20:][rows[-20:] < 0]):
        assert not (plain_rejections(case.nodes, case.shapes, int(k), Fit.REQUESTS, KNOBS) == 0).any()


@given(seed=st.integers(0, 2**32 - 1))
@relaxed
def test_validate_detects_an_unreported_change(seed: int) -> None:
    case = a_case(seed, nodes=9, shapes=4, resources=3, tight=False)
    tree = a_tree(case, Kernel.WEIGHTED)
    case.nodes.requested[3, CPU] += 100
    with pytest.raises(Exception, match="score tree: rows"):
        tree.validate()
    tree.refresh(3)
    tree.validate()
