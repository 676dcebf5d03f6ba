"""Scores on one scale, and the rows that a sample looks at."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from cotenant.policy.placement.codes import Score
from cotenant.policy.placement.preference import sampled, scaled

OWN_SCALE = (Score.NONE, Score.KUBE_DEFAULT, Score.KUBE_1_36, Score.FOUNDING, Score.FOUNDING_LEDGER)


@pytest.mark.parametrize("score", [score for score in Score if score not in OWN_SCALE])
def test_a_profiles_scores_span_0_to_100(score: Score) -> None:
    assert scaled(score, np.array([2.0, 4.0, 3.0])).tolist() == [0.0, 100.0, 50.0]
    assert scaled(score, np.array([-3.0, -1.0])).tolist() == [0.0, 100.0]
    assert scaled(score, np.array([7.0, 7.0])).tolist() == [0.0, 0.0]
    assert scaled(score, np.empty(0)).tolist() == []


@pytest.mark.parametrize("score", OWN_SCALE)
def test_scores_of_the_usual_scale_stay(score: Score) -> None:
    assert scaled(score, np.array([2.0, 4.0])).tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 3.0, inf], [0.0, 100.0, 100.0]),
        ([1.0, 3.0, -inf], [0.0, 100.0, 0.0]),
        ([1.0, 2.0, 3.0, nan], [0.0, 50.0, 100.0, 0.0]),
        ([inf, -inf], [0.0, 0.0]),
        ([5.0, inf], [0.0, 0.0]),
    ],
)
def test_an_infinite_score_is_at_its_end(values: list[float], expected: list[float]) -> None:
    assert scaled(Score.BEST_FIT, np.array(values)).tolist() == expected


@pytest.mark.parametrize(
    ("sample", "cursor", "rows", "after"),
    [
        (0, 3, [0, 2, 3, 5], 3),  # no sample: all that pass
        (2, 0, [0, 2], 3),
        (2, 3, [3, 5], 0),
        (2, 4, [5, 0], 1),
        (4, 1, [2, 3, 5, 0], 1),
        (9, 4, [5, 0, 2, 3], 4),  # fewer pass than are asked for: every row was looked at
    ],
)
def test_a_sample_goes_on_where_the_last_one_ended(sample: int, cursor: int, rows: list[int], after: int) -> None:
    at = np.array([cursor])
    passes = np.array([True, False, True, True, False, True])
    assert sampled(passes, sample, at).tolist() == rows
    assert at.tolist() == [after]


def test_a_sample_of_no_rows_is_empty() -> None:
    at = np.array([0])
    assert sampled(np.empty(0, np.bool_), 3, at).tolist() == []
    assert at.tolist() == [0]
