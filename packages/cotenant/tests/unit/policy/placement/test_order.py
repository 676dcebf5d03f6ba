"""The order of the queue and how slack is weighed."""

import numpy as np
import pytest

from cotenant.model.arrays import MEMORY, Param, PendingArrays, ShapeArrays, Sum
from cotenant.policy.placement.codes import Order
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.order import allowance, keys


def queue(ready: list[float], deadline: list[float], path: list[float], service: list[bool]) -> PendingArrays:
    size = len(ready)
    number = np.arange(size)
    return PendingArrays(
        number,
        number,
        number,
        number,
        number,
        np.array(service),
        np.array(ready),
        np.array(deadline),
        np.array(path),
        np.ones(size),
    )


def shapes(cores: list[int]) -> ShapeArrays:
    size = len(cores)
    request = np.ones((size, 3), np.int64)
    request[:, 0], request[:, MEMORY] = np.array(cores) * 1000, 2**30
    params = np.zeros((size, len(Param)))
    params[:, Param.ALLOWANCE], params[:, Param.SENSITIVITY] = 0.5, 0.5
    zero = np.zeros(size, np.uint64)
    return ShapeArrays(
        request,
        np.zeros((size, len(Sum)), np.int64),
        params,
        zero,
        zero[:, None],
        np.zeros(size, np.int64),
        np.full(size, -1),
        np.zeros(size, np.int64),
    )


def order_of(order: Order, pending: PendingArrays, now_s: float = 0.0, cores: list[int] | None = None) -> list[int]:
    table = shapes(cores or [1] * len(pending.pod))
    return np.argsort(keys(order, pending, table, now_s, Knobs(slack_margin=1.0)), kind="stable").tolist()


def test_services_come_first_whatever_the_order() -> None:
    pending = queue([1.0, 2.0, 3.0], [10.0, 20.0, np.inf], [1.0, 1.0, 0.0], [False, False, True])
    for order in Order:
        assert order_of(order, pending)[0] == 2


def test_arrival_deadline_and_slack_disagree_where_they_should() -> None:
    pending = queue([0.0, 1.0, 2.0], [500.0, 300.0, 900.0], [100.0, 50.0, 880.0], [False] * 3)
    assert order_of(Order.ARRIVAL, pending) == [0, 1, 2]
    assert order_of(Order.DEADLINE, pending) == [1, 0, 2]
    assert order_of(Order.SLACK, pending) == [2, 1, 0]  # slack 20, 250, 400


def test_a_hopeless_job_waits_behind_those_that_can_still_make_it_but_is_aged() -> None:
    pending = queue([0.0, 0.0], [100.0, 90_000.0], [500.0, 60.0], [False, False])
    assert order_of(Order.SLACK, pending) == [1, 0]
    waited = queue([-400_000.0, 0.0], [100.0, 90_000.0], [500.0, 60.0], [False, False])
    assert order_of(Order.SLACK, waited) == [0, 1]


def test_the_largest_service_is_placed_first_under_slack() -> None:
    pending = queue([0.0, 0.0], [np.inf, np.inf], [0.0, 0.0], [True, True])
    assert order_of(Order.SLACK, pending, cores=[2, 16]) == [1, 0]


@pytest.mark.parametrize(
    ("left", "path", "expected"), [(300.0, 100.0, 2.0), (150.0, 100.0, 0.5), (101.0, 100.0, 0.1), (100.0, 100.0, 0.1)]
)
def test_allowance_is_the_slack_ratio_less_one_and_at_least_a_tenth(left: float, path: float, expected: float) -> None:
    assert allowance(np.array([left]), np.array([path]), 0.0)[0] == pytest.approx(expected)


def test_what_is_lost_already_counts_less_and_less() -> None:
    left = np.array([100.0, 90.0, 80.0, 70.0, -500.0])
    values = allowance(left, np.full(5, 100.0), 0.0)
    assert (np.diff(values[:4]) > 0).all()
    assert values[3:] == pytest.approx([10.0, 10.0])
