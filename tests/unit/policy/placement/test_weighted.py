"""The weighted score by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.arrays import CPU, MEMORY, NodeArrays, Param, Report, ShapeArrays, Sum
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement import weighted

ONE_NODE = NodeArrays(
    np.array([[1000, 1000, 10]]),
    np.array([[200, 400, 1]]),
    np.zeros((1, len(Sum)), dtype=np.int64),
    np.full((1, len(Report)), np.nan),
    np.zeros(1, dtype=np.uint64),
    np.zeros((1, 1), dtype=np.uint64),
    np.ones(1, dtype=np.bool_),
    np.zeros((1, 1), dtype=np.int64),
)
ROW = np.array([0])
NOTHING_HELD = np.zeros((1, 1, 3), dtype=np.int64)


def a_shape(cpu: int = 200, memory: int = 400, load_limit: float = np.inf) -> ShapeArrays:
    params = np.zeros((1, len(Param)))
    params[0, Param.LOAD_LIMIT] = load_limit
    return ShapeArrays(
        np.array([[cpu, memory, 1]]),
        np.zeros((1, len(Sum)), dtype=np.int64),
        params,
        np.zeros(1, dtype=np.uint64),
        np.zeros((1, 1), dtype=np.uint64),
        np.zeros(1, dtype=np.int64),
        np.full(1, -1, dtype=np.int64),
        np.ones(1, dtype=np.int64),
    )


def only(term: str) -> np.ndarray:
    return weighted.scaled_weights(np.array([float(name == term) for name in weighted.TERMS]), 1)


def test_capacity_is_what_stays_free_on_average() -> None:
    # after: 0.4 of CPU, 0.8 of memory; pods do not count
    assert weighted.score(ONE_NODE, a_shape(), 0, ROW, NOTHING_HELD, only("capacity")) == pytest.approx([40.0])


def test_balance_is_one_less_the_deviation() -> None:
    assert weighted.score(ONE_NODE, a_shape(), 0, ROW, NOTHING_HELD, only("balance")) == pytest.approx([80.0])


def test_what_a_shape_does_not_request_does_not_count() -> None:
    value = weighted.score(ONE_NODE, a_shape(memory=0), 0, ROW, NOTHING_HELD, only("capacity"))
    assert value == pytest.approx([60.0])


def test_latency_weighs_more_under_load() -> None:
    nodes = ONE_NODE._replace(report=ONE_NODE.report.copy(), sums=ONE_NODE.sums.copy())
    nodes.report[0, Report.LATENCY_P99_MS] = 120.0
    nodes.sums[0, Sum.USE_CPU] = 500
    value = weighted.score(nodes, a_shape(), 0, ROW, NOTHING_HELD, only("latency"))
    assert value == pytest.approx([100 / (1 + 1.5)])


def test_violation_and_a_node_that_never_reported() -> None:
    nodes = ONE_NODE._replace(report=ONE_NODE.report.copy())
    assert weighted.score(nodes, a_shape(), 0, ROW, NOTHING_HELD, only("violation")) == pytest.approx([100.0])
    nodes.report[0, Report.VIOLATION] = 0.3
    assert weighted.score(nodes, a_shape(), 0, ROW, NOTHING_HELD, only("violation")) == pytest.approx([70.0])


def test_fairness_is_one_less_the_tenants_dominant_share() -> None:
    held = NOTHING_HELD.copy()
    held[0, 0, [CPU, MEMORY]] = [100, 250]
    assert weighted.score(ONE_NODE, a_shape(), 0, ROW, held, only("fairness")) == pytest.approx([75.0])


def test_load_limit_counts_the_newcomer() -> None:
    shape = a_shape(load_limit=0.5)
    shape.params[0, Param.USE_CPU] = 0.5
    assert weighted.mask(ONE_NODE, shape, 0, ROW).tolist() == [True]
    shape.params[0, Param.USE_CPU] = 0.501
    assert weighted.mask(ONE_NODE, shape, 0, ROW).tolist() == [False]


def test_no_node_passes() -> None:
    assert weighted.choice(ONE_NODE, a_shape(cpu=801), 0, NOTHING_HELD, only("capacity")) == -1


@pytest.mark.parametrize("weights", [[1.0, -1, 1, 1, 1], [np.nan] * 5, [0.0] * 5])
def test_absurd_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(InvalidInput, match="weights"):
        weighted.scaled_weights(np.array(weights), 3)


def test_scaling_twice_changes_no_bit() -> None:
    once = weighted.scaled_weights(np.random.default_rng(1).random((500, 5)), 500)
    assert (weighted.scaled_weights(once, 500) == once).all()
