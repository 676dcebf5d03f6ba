"""What teams deserve, and integrals that do not depend on when one looks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.lab.clusterworld.books import Books, Levels, deserved, jain, max_min

TWO = np.array([0, 0])


def levels(held: list[float], computing: list[float], demand: list[float]) -> Levels:
    return Levels(np.array(held), np.array(computing), np.array(demand))


def test_what_one_does_not_ask_for_goes_to_the_others_by_weight() -> None:
    given = max_min(100.0, np.array([10.0, 200.0, 200.0]), np.array([50.0, 20.0, 40.0]))
    assert given == pytest.approx([10.0, 30.0, 60.0])


def test_groups_come_first_and_then_those_inside() -> None:
    demand, owed = np.array([90.0, 90.0, 90.0]), np.array([10.0, 10.0, 20.0])
    assert deserved(80.0, demand, owed, np.array([0, 0, 1])) == pytest.approx([20.0, 20.0, 40.0])
    assert deserved(80.0, np.array([90.0, 0.0, 5.0]), owed, np.array([0, 0, 1])) == pytest.approx([75.0, 0.0, 5.0])


@given(
    st.floats(0.0, 200.0),
    st.lists(st.tuples(st.floats(0.0, 100.0), st.floats(0.5, 50.0)), min_size=1, max_size=6),
)
def test_max_min_gives_all_there_is_or_all_that_is_asked(amount: float, sides: list[tuple[float, float]]) -> None:
    demand, weight = (np.array(each) for each in zip(*sides, strict=True))
    given = max_min(amount, demand, weight)
    assert (given >= -1e-9).all()
    assert (given <= demand + 1e-6).all()
    assert given.sum() == pytest.approx(min(amount, demand.sum()), abs=1e-5)
    short = given < demand - 1e-6
    if short.any():  # nobody who is short has less for its weight than another has
        level = (given / weight)[short]
        assert level.max() - level.min() < 1e-5
        assert (given / weight <= level.min() + 1e-5).all()


def test_only_the_window_counts_and_each_level_as_long_as_it_stood() -> None:
    books = Books(10.0, np.array([6.0, 4.0]), TWO, (10.0, 20.0))
    books.advance(12.0, levels([4.0, 0.0], [2.0, 0.0], [8.0, 0.0]))  # two seconds of it inside
    books.advance(30.0, levels([4.0, 6.0], [4.0, 6.0], [4.0, 9.0]))  # eight
    assert books.seconds == 10.0
    assert books.held.tolist() == [40.0, 48.0]
    assert books.computing.tolist() == [36.0, 48.0]
    assert books.deserved.tolist() == pytest.approx([2 * 8.0 + 8 * 4.0, 8 * 6.0])
    assert books.guaranteed.tolist() == [2 * 6.0 + 8 * 4.0, 8 * 4.0]
    assert books.missed.tolist() == [2 * 2.0, 0.0]
    assert books.over.tolist() == [0.0, 0.0]


def test_jain() -> None:
    assert jain(np.array([1.0, 1.0])) == 1.0
    assert jain(np.array([1.0, 0.0])) == 0.5
    assert jain(np.array([0.0])) == 1.0
