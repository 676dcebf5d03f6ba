from __future__ import annotations

import numpy as np
import pytest

from cotenant.policy.assess.day_profile import DayProfile
from cotenant.policy.assess.predictor import Past
from cotenant.policy.assess.rivals import LastDayPeak
from cotenant.policy.assess.rows import quantiles
from cotenant.policy.assess.size_blend import SizeBlend
from cotenant.policy.assess.sizes import size_test


def past(use: np.ndarray) -> Past:
    nothing = np.full(len(use), np.nan)
    return Past(use.astype(np.float32), 3600.0, nothing, nothing)


def test_it_is_the_mean_of_its_three() -> None:
    use = 500 + 100 * np.random.default_rng(0).normal(size=(4, 24 * 6))
    known = past(use)
    three = [
        LastDayPeak().below(known, 1, 0.01)[:, 0],
        0.95 * quantiles(known.use, 1.0),
        quantiles(DayProfile().below(known, 24, 0.01), 1.0),
    ]
    said = SizeBlend().below(known, 24, 0.01)
    assert said.shape == (4, 24)
    np.testing.assert_allclose(said[:, 5], np.mean(three, axis=0), rtol=1e-5)


def test_what_is_unknown_is_left_out_of_the_mean() -> None:
    use = np.full((2, 48), np.nan)
    use[0, :24] = 100.0  # nothing is known of the last day
    said = SizeBlend().below(past(use), 24, 0.01)
    assert 95 <= said[0, 0] <= 101
    assert np.isnan(said[1]).all()


def test_its_loss_is_at_most_the_mean_of_theirs() -> None:
    rng = np.random.default_rng(5)
    use = rng.gamma(3.0, 50.0, (40, 24 * 9))
    rivals = (LastDayPeak(), DayProfile(), LastDayPeak(1e-9))
    origins = range(24 * 4, 24 * 8 + 1, 12)
    found = size_test(past(use), rivals=rivals, origins=origins)
    assert found.scores[0].judged == 40 * len(origins)
    last, profile, _ = (score.pinball_pct for score in found.scores[1:])
    assert found.scores[0].pinball_pct < max(last, profile)


def test_each_origin_sees_what_was_known_then() -> None:
    use = np.full((1, 96), 100.0)
    use[0, 72:] = 300.0
    both = size_test(past(use), rivals=(), origins=(48, 72))
    first = size_test(past(use), rivals=(), origins=(48,))
    second = size_test(past(use), rivals=())
    assert both.scores[0].judged == 2
    assert both.scores[0].pinball_pct == pytest.approx((first.scores[0].pinball_pct + second.scores[0].pinball_pct) / 2)
