from __future__ import annotations

import numpy as np
import pytest

from cotenant.policy.assess.predictor import Past, Predictor
from cotenant.policy.assess.rivals import RIVALS, BorgPeak, LastDayPeak, NSigma, Requests, VpaHistogram

HOUR_S = 3600.0


def past(rows: list[list[float]], requested: float = 800.0) -> Past:
    use = np.array(rows, np.float32)
    return Past(use, HOUR_S, np.full(len(use), requested), np.full(len(use), 1000.0))


def said(predictor: Predictor, rows: list[list[float]]) -> list[float]:
    found = predictor.below(past(rows), 3, 0.01)
    assert found.shape == (len(rows), 3)
    np.testing.assert_array_equal(found, found[:, [0, 0, 0]])
    return found[:, 0].tolist()


def test_requests_and_a_share_of_them() -> None:
    assert said(Requests(), [[1.0]]) == [800.0]
    assert said(Requests(0.9), [[1.0]]) == pytest.approx([720.0])


def test_the_last_day_forgets_the_day_before() -> None:
    assert said(LastDayPeak(), [[900.0] + [1.0, 5.0] * 12]) == [5.0]
    assert said(LastDayPeak(2.0), [[3.0, np.nan]]) == [6.0]


def test_n_sigma_of_the_window() -> None:
    assert said(NSigma(2.0), [[900.0] * 5 + [1.0, 3.0] * 12]) == pytest.approx([4.0])


def test_borgs_predictor_takes_the_larger() -> None:
    calm = [[10.0] * 24]
    assert said(BorgPeak(3.0, 0.99), calm) == [10.0]
    assert said(BorgPeak(0.0, 1.0), [[0.0] * 23 + [48.0]]) == [48.0]
    assert said(BorgPeak(5.0, 0.5), [[0.0] * 12 + [2.0] * 12]) == pytest.approx([6.0])


def test_vpa_weighs_a_value_of_yesterday_half() -> None:
    # the same count of high and low values; the high ones are a day older, so they weigh a third of all
    older_high = [[500.0] * 24 + [100.0] * 24]
    bucket = 1.05
    low = said(VpaHistogram(0.60, 0.0), older_high)[0]
    high = said(VpaHistogram(0.70, 0.0), older_high)[0]
    assert 100.0 <= low <= 100.0 * bucket
    assert 500.0 <= high <= 500.0 * bucket
    assert said(VpaHistogram(0.70, 0.15), older_high)[0] == pytest.approx(1.15 * high)


def test_a_rule_that_knows_nothing_says_nothing() -> None:
    for rival in RIVALS[1:]:
        assert np.isnan(said(rival, [[np.nan, np.nan]])[0]), rival.name


def test_rivals_see_only_what_was_known_at_the_origin() -> None:
    rng = np.random.default_rng(1)
    whole = past(rng.gamma(2.0, 100.0, (3, 60)).tolist())
    for rival in RIVALS:
        for origin, answer in zip((20, 40), rival.below_each(whole, (20, 40), 5, 0.01), strict=True):
            np.testing.assert_array_equal(answer, rival.below(whole.until(origin), 5, 0.01))
