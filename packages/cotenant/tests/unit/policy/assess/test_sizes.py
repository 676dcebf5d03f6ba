from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from cotenant.model.assess.history import Float32
from cotenant.model.errors import InvalidInput
from cotenant.policy.assess.day_profile import DayProfile
from cotenant.policy.assess.predictor import OneByOne, Past, flat
from cotenant.policy.assess.sizes import size_test, sizes

STEP_S = 3600.0


class Says(OneByOne):
    """The same amounts always, one a series."""

    def __init__(self, name: str, *amounts: float) -> None:
        self.name, self.amounts = name, np.array(amounts)

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        return flat(np.broadcast_to(self.amounts, (len(past.use),)), horizon)


def past(use: np.ndarray) -> Past:
    nothing = np.full(len(use), np.nan)
    return Past(use.astype(np.float32), STEP_S, nothing, nothing)


def test_sizes_by_hand() -> None:
    use = np.full((3, 96), 100.0)
    use[1, 72:] = 300.0  # the last day is not as the days before
    use[2, 80:] = np.nan  # known for less than half of it
    found = size_test(past(use), ours=Says("ours", 200.0, 200.0, 200.0), rivals=(Says("best", 100.0, 300.0, 1.0),))
    ours, best = found.scores
    assert (ours.judged, ours.short_pct) == (2, 50.0)
    assert ours.over_pct == pytest.approx(100 * 100 / 400)
    assert ours.error_pct == 0.0  # one too large, one too small
    assert ours.pinball_pct == pytest.approx(100 * (0.01 * 100 / 100 + 0.99 * 100 / 300) / 2)
    assert (best.short_pct, best.over_pct, best.pinball_pct) == (0.0, 0.0, 0.0)
    assert "ours was not better than the best rival, best" in found.verdict
    assert "50 % would have been too small" in found.verdict


def test_a_size_is_the_highest_of_the_day() -> None:
    hours = np.arange(24 * 8)
    use = 500 + 300 * np.sin(hours * 2 * np.pi / 24) + np.random.default_rng(0).normal(0, 5, (30, len(hours)))
    found = sizes(past(use), 0.01, 24, DayProfile())
    assert np.all((found > 770) & (found < 900))
    tried = size_test(past(use), ours=DayProfile())
    assert "ours was better than the best rival" in tried.verdict
    assert tried.scores[0].over_pct < 12.0


@pytest.mark.slow
def test_many_series_are_sized_as_few() -> None:
    rng = np.random.default_rng(1)
    use = rng.gamma(4.0, 25.0, (4003, 36)).astype(np.float32)
    whole = sizes(past(use), 0.05, 12)
    np.testing.assert_array_equal(whole[:4000], sizes(past(use[:4000]), 0.05, 12))
    assert not np.isnan(whole).any()


def test_without_a_second_part_there_are_no_figures() -> None:
    for steps in (0, 1):
        found = size_test(past(np.ones((2, steps))))
        assert isnan(found.scores[0].pinball_pct)
        assert "too short" in found.verdict
    alone = size_test(past(np.full((2, 96), 5.0)), rivals=())
    assert "there is no rival" in alone.verdict
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        size_test(past(np.ones((2, 4))), risk=1.0)
