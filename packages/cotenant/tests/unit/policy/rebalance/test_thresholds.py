"""Thresholds of a pool of nodes, and the class of each, against the sentences that define them."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.policy.rebalance.loads.thresholds import (
    NodeClass,
    Percentages,
    classify,
    excesses,
    floor_percent,
    mean_percent,
    thresholds,
)

NAMES = ("cpu", "memory")


def test_what_is_missing_is_not_compared() -> None:
    given = Percentages(low={"cpu": 20}, prod_high={"x/y": 50})
    assert given.names == ("cpu", "memory", "x/y")
    found = given.completed()
    assert found.low == {"cpu": 20, "memory": 100, "x/y": 100}
    assert found.high == found.prod_low == dict.fromkeys(given.names, 100)
    assert found.prod_high == {"cpu": 100, "memory": 100, "x/y": 50}
    assert Percentages(low={"cpu": 20}, deviation=True).completed().high == {"cpu": 0, "memory": 0}
    assert Percentages().is_empty
    for name in ("low", "high", "prod_low", "prod_high"):
        assert not Percentages(**{name: {"cpu": 1}}).is_empty


def test_amounts_are_rounded_down_and_deviations_are_from_the_mean() -> None:
    allocatable = np.array([[1000, 333], [2000, 0]])
    usage, prod = np.array([[500, 33], [500, 0]]), np.array([[100, 0], [0, 0]])
    fixed = thresholds(Percentages({"cpu": 12.55}, {"cpu": 50, "memory": 10}), NAMES, allocatable, usage, prod)
    assert fixed.low.tolist() == [[125, 333], [251, 0]]
    assert fixed.high.tolist() == [[500, 33], [1000, 0]]
    assert mean_percent(allocatable, usage) == pytest.approx([37.5, 33 / 333 * 50])
    assert mean_percent(np.zeros((0, 2), np.int64), np.zeros((0, 2), np.int64)).tolist() == [0, 0]
    around = Percentages({"cpu": 40}, {"cpu": 10}, {"cpu": 2, "memory": 5}, {"cpu": 3, "memory": 200}, True)
    found = thresholds(around, NAMES, allocatable, usage, prod)
    assert found.low.tolist() == [[0, 333], [0, 0]]  # cpu 37.5 - 40, not below 0; memory has no low deviation
    assert found.high.tolist() == [[475, 333], [950, 0]]
    assert found.prod_low.tolist() == [[30, 0], [60, 0]]
    assert found.prod_high.tolist() == [[80, 333], [160, 0]]


def named(low: bool, high: bool, prod_low: bool, prod_high: bool) -> NodeClass:
    """By the table of the sentences: low receives pods of any kind, unless production pods are above theirs."""
    if prod_high and not (high and not low):
        return NodeClass.PROD_HIGH
    if low:
        return NodeClass.BOTH_LOW if prod_low else NodeClass.LOW
    if high:
        return NodeClass.HIGH
    return NodeClass.PROD_LOW if prod_low else NodeClass.NONE


def test_every_node_has_the_class_of_its_use() -> None:
    rng = np.random.default_rng(5)
    allocatable = np.full((400, 2), 100)
    usage = rng.choice([20, 21, 60, 61, 80], (400, 2))
    prod = np.minimum(usage, rng.choice([0, 10, 11, 50, 51, 80], (400, 2)))
    cordoned = rng.random(400) < 0.2
    percentages = Percentages(
        {"cpu": 20, "memory": 60}, {"cpu": 60, "memory": 60}, {"cpu": 10, "memory": 50}, {"cpu": 50, "memory": 50}
    )
    limits = thresholds(percentages, NAMES, allocatable, usage, prod)
    found = classify(limits, usage, prod, cordoned)
    for i, (of_all, of_prod) in enumerate(zip(usage.tolist(), prod.tolist(), strict=True)):
        expected = named(
            of_all[0] <= 20 and of_all[1] <= 60 and not cordoned[i],
            of_all[0] > 60 or of_all[1] > 60,
            of_prod[0] <= 10 and of_prod[1] <= 50 and not cordoned[i],
            of_prod[0] > 50 or of_prod[1] > 50,
        )
        assert found[i] is expected, (of_all, of_prod)
    assert set(found) == set(NodeClass)


def test_what_is_above_a_threshold_is_said_in_percent() -> None:
    columns = [np.array(row) for row in ([4000, 1000, 0, 300_000], [3000, 500, 7, 100_001], [2600, 500, 5, 100_000])]
    found = excesses(("cpu", "memory", "none", "fine"), *columns)
    assert [one.resource for one in found] == ["cpu", "none", "fine"]
    assert (found[0].used_percent, found[0].threshold_percent) == (75.0, 65.0)
    assert (found[1].used_percent, found[1].threshold_percent) == (0.0, 0.0)
    assert [str(one) for one in (found[0], found[2])] == [
        "cpu 75.00 % above 65.00 %",
        "fine 33.334 % above 33.33 %",
    ]
    (one,) = excesses(("tiny",), np.array([1]), np.array([1]), np.array([0]))
    assert str(one) == "tiny 100.00 % above 0.00 %"
    assert len(str(found[1])) < 40  # equal figures stay equal


def test_whole_percent_are_rounded_down() -> None:
    assert floor_percent({"cpu": 999, "x": 5}, {"cpu": 1000, "memory": 10, "x": 0}) == {"cpu": 99, "memory": 0}
