"""How much of an excess each candidate explains, by fits that are solved by hand."""

from __future__ import annotations

import pytest

from cotenant.policy.interference.attribution.regression import explained, nonnegative_fit

RIDGE = 0.02  # of each column, at the usual reluctance


def test_one_column_is_fitted_but_for_its_ridge() -> None:
    """Length 5: the unit column's product with the target is 10."""
    column, target = (3.0, 4.0), (6.0, 8.0)
    assert nonnegative_fit([column], target) == pytest.approx([10 / (1 + RIDGE) / 5])
    assert nonnegative_fit([column], target, [3.0]) == pytest.approx([10 / (1 + 3 * RIDGE) / 5])


def test_a_column_of_nothing_has_no_coefficient_and_the_others_keep_their_places() -> None:
    found = nonnegative_fit([(0.0, 0.0), (1.0, 0.0), (0.0, 0.0), (0.0, 2.0)], (5.0, 6.0), [9.0, 1.0, 9.0, 2.0])
    assert found == pytest.approx([0.0, 5 / (1 + RIDGE), 0.0, 6 / (1 + 2 * RIDGE) / 2])
    assert nonnegative_fit([], (1.0,)) == []
    assert nonnegative_fit([(0.0,)], (1.0,)) == [0.0]


def test_no_activity_makes_a_service_faster() -> None:
    assert nonnegative_fit([(1.0, 1.0)], (-1.0, -2.0)) == [0.0]
    # alone the second would be fitted with -1, and the first with more because of it
    assert nonnegative_fit([(1.0, 0.0), (0.0, 1.0)], (4.0, -1.0)) == pytest.approx([4 / (1 + RIDGE), 0.0])


def test_an_innocent_explains_only_what_the_others_do_not() -> None:
    """The second is active with the first half of the time: the target is the first alone."""
    found = nonnegative_fit([(1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 0.0, 0.0)], (2.0, 2.0, 2.0, 2.0))
    assert found[0] == pytest.approx(2.0, rel=0.1)
    assert found[1] < found[0] / 10


def test_columns_that_are_alike_share_by_their_ridges() -> None:
    column = (3.0, 4.0)
    equal = nonnegative_fit([column, column], (6.0, 8.0))
    assert equal == pytest.approx([10 / (2 + RIDGE) / 5] * 2, rel=1e-3)
    first, second = nonnegative_fit([column, column], (6.0, 8.0), [1.0, 3.0])
    assert first == pytest.approx(3 * second, rel=1e-2)  # three times as reluctant, a third of the coefficient
    assert second * 5 == pytest.approx(10 / (4 + 3 * RIDGE), rel=1e-2)


@pytest.mark.parametrize(
    ("coefficients", "share"),
    [
        ((1.0, 1.0), 1.0),  # all of it
        ((1.0, 0.0), 16 / 20),
        ((0.0, 1.0), 4 / 20),
        ((0.5, 0.0), 1 - (4 + 4) / 20),
        ((0.0, 0.0), 0.0),
        ((9.0, 9.0), 0.0),  # worse than nothing explains nothing
    ],
)
def test_the_share_that_is_explained(coefficients: tuple[float, float], share: float) -> None:
    assert explained([(4.0, 0.0), (0.0, 2.0)], (4.0, 2.0), coefficients) == pytest.approx(share)


def test_a_small_target_is_explained_like_a_large_one() -> None:
    assert explained([(1.0, 0.0)], (0.5, 0.0), (0.5,)) == 1.0
    assert explained([(1.0, 0.0)], (0.5, 0.0), (0.25,)) == pytest.approx(0.75)


def test_of_a_target_of_nothing_nothing_is_explained() -> None:
    assert explained([(1.0, 1.0)], (0.0, 0.0), (1.0,)) == 0.0
    assert explained([], (0.1, 0.0), ()) == 0.0
