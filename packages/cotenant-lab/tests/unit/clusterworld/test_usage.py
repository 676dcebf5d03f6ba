"""Deserved shares of teams, and integrals that do not depend on the sampling times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_lab.clusterworld.usage import Levels, UsageTotals, deserved, jain, max_min

TWO = np.array([0, 0])


def levels(held: list[float], computing: list[float], demand: list[float]) -> Levels:
    return Levels(np.array(held), np.array(computing), np.array(demand))


def test_unrequested_share_is_divided_by_weight() -> None:
    given = max_min(100.0, np.array([10.0, 200.0, 200.0]), np.array([50.0, 20.0, 40.0]))
    assert given == pytest.approx([10.0, 30.0, 60.0])


def test_shares_are_divided_among_groups_then_within_each() -> None:
    demand, guarantee = np.array([90.0, 90.0, 90.0]), np.array([10.0, 10.0, 20.0])
    assert deserved(80.0, demand, guarantee, np.array([0, 0, 1])) == pytest.approx([20.0, 20.0, 40.0])
    assert deserved(80.0, np.array([90.0, 0.0, 5.0]), guarantee, np.array([0, 0, 1])) == pytest.approx([75.0, 0.0, 5.0])


@given(
    st.floats(0.0, 200.0),
    st.lists(st.tuples(st.floats(0.0, 100.0), st.floats(0.5, 50.0)), min_size=1, max_size=6),
)
def test_max_min_allocates_the_amount_or_the_whole_demand(amount: float, sides: list[tuple[float, float]]) -> None:
    demand, weight = (np.array(side) for side in zip(*sides, strict=True))
    given = max_min(amount, demand, weight)
    assert (given >= -1e-9).all()
    assert (given <= demand + 1e-6).all()
    assert given.sum() == pytest.approx(min(amount, demand.sum()), abs=1e-5)
    short = given < demand - 1e-6
    if short.any():  # all unmet shares are equal relative to their weights, and no share is larger
        level = (given / weight)[short]
        assert level.max() - level.min() < 1e-5
        assert (given / weight <= level.min() + 1e-5).all()


def test_levels_are_weighted_by_their_duration_within_the_window() -> None:
    usage = UsageTotals(10.0, np.array([6.0, 4.0]), TWO, (10.0, 20.0))
    usage.advance(12.0, levels([4.0, 0.0], [2.0, 0.0], [8.0, 0.0]))  # two seconds are inside
    usage.advance(30.0, levels([4.0, 6.0], [4.0, 6.0], [4.0, 9.0]))  # eight
    assert usage.seconds == 10.0
    assert usage.held.tolist() == [40.0, 48.0]
    assert usage.computing.tolist() == [36.0, 48.0]
    assert usage.deserved.tolist() == pytest.approx([2 * 8.0 + 8 * 4.0, 8 * 6.0])
    assert usage.guaranteed.tolist() == [2 * 6.0 + 8 * 4.0, 8 * 4.0]
    assert usage.missed.tolist() == [2 * 2.0, 0.0]
    assert usage.over.tolist() == [0.0, 0.0]


def test_jain() -> None:
    assert jain(np.array([1.0, 1.0])) == 1.0
    assert jain(np.array([1.0, 0.0])) == 0.5
    assert jain(np.array([0.0])) == 1.0
