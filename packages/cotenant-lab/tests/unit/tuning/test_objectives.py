"""Dominance, the front and the judgement, on figures worked by hand."""

from math import nan

import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.contract import Measures
from cotenant_lab.statistics import Interval
from cotenant_lab.tuning.held_out import selected, verdict
from cotenant_lab.tuning.objectives import dominates, front, spread_over, values
from cotenant_lab.tuning.search import TuningTrial
from cotenant_lab.tuning.spaces import space_of


def test_utilisation_counts_only_work_that_meets_its_objective() -> None:
    assert values(Measures(utilisation=0.8, violation=0.25, granted_fairness=0.9)) == (pytest.approx(0.6), 0.9, 0.25)


def test_more_utilisation_and_fairness_and_less_violation_dominate() -> None:
    assert dominates((0.8, 0.9, 0.01), (0.7, 0.9, 0.01))
    assert dominates((0.8, 0.9, 0.01), (0.8, 0.9, 0.02))
    assert not dominates((0.8, 0.9, 0.02), (0.7, 0.9, 0.01))


def test_differences_below_the_resolution_are_none() -> None:
    assert not dominates((0.80001, 0.9, 0.01), (0.8, 0.9, 0.01))
    assert front([(0.8, 0.9, 0.01), (0.80001, 0.9, 0.01)]) == (0,)


def test_the_front_is_what_none_dominates_by_violation() -> None:
    figures = [(0.8, 0.9, 0.02), (0.7, 0.9, 0.01), (0.7, 0.8, 0.02), (0.6, 0.95, 0.03)]
    brute = {i for i, a in enumerate(figures) if not any(dominates(b, a) for b in figures)}
    assert front(figures) == (1, 0, 3)
    assert set(front(figures)) == brute


def test_a_large_front_is_thinned_with_both_ends() -> None:
    assert spread_over(range(100), 3) == (0, 50, 99)
    assert spread_over((4, 5), 3) == (4, 5)


def test_the_selected_trial_is_nowhere_worse_than_the_defaults() -> None:
    trials = [
        TuningTrial(0, (), (0.8, 0.9, 0.02)),
        TuningTrial(1, (("a", 1.0),), (0.7, 0.9, 0.001)),
        TuningTrial(2, (("a", 2.0),), (0.8, 0.91, 0.01)),
    ]
    assert selected(trials).number == 2
    assert selected(trials[:2]).number == 0


@pytest.mark.parametrize(
    ("differences", "says"),
    [
        (((0.0, 0.1), (0.0, 0.1), (-0.02, 0.01)), "better"),
        (((-0.2, 0.1), (0.0, 0.1), (0.0, 0.01)), "worse"),
        (((-0.2, 0.1), (0.0, 0.1), (-0.02, 0.01)), "trade-off"),
        (((-0.2, 0.3), (0.0, 0.1), (-0.02, nan)), "not separated"),
    ],
)
def test_a_verdict_needs_intervals_that_exclude_zero(differences: tuple[tuple[float, float], ...], says: str) -> None:
    assert verdict([Interval(mean, half, 10) for mean, half in differences]) == says


@pytest.mark.parametrize("text", ["packing_weight", "packing_weight=1:0", "packing_weight=nan:1", "packing=0:1"])
def test_a_range_that_cannot_be_searched_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="--knob"):
        space_of("cotenant-requests", (text,))


def test_a_policy_without_ranges_says_which_have_them() -> None:
    with pytest.raises(InvalidInput, match=r"cotenant-requests.*--knob"):
        space_of("first-fit", ())
