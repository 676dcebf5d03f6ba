from __future__ import annotations

import numpy as np

from cotenant.policy.assess.day_profile import DayProfile, DayProfileSettings
from cotenant.policy.assess.predictor import Past

DAY = 48


def restless(seed: int) -> Past:
    """Use that wanders: the errors of a spread that was measured in it are larger than before."""
    rng = np.random.default_rng(seed)
    steps = np.clip(np.cumsum(rng.normal(0, 12, (60, 8 * DAY)), axis=1) + 500, 0, 1000)
    return Past(steps.astype(np.float32), 1800.0, np.full(60, np.nan), np.full(60, 1000.0))


def test_reserves_that_were_too_small_before_are_widened() -> None:
    exceeded = {}
    for doubt_days in (0.0, 1e9):
        ours = DayProfile(DayProfileSettings(doubt_days=doubt_days))
        past = restless(3)
        over = [
            past.use[:, origin : origin + DAY] > said
            for origin, said in zip(
                (5 * DAY, 6 * DAY), ours.below_each(past, (5 * DAY, 6 * DAY), DAY, 0.01), strict=True
            )
        ]
        exceeded[doubt_days] = float(np.mean(over))
    assert exceeded[0.0] < 0.7 * exceeded[1e9]


def test_a_constant_use_that_begins_to_move_is_no_error_of_arithmetic() -> None:
    use = np.full((4, 8 * DAY), 300.0)
    use[:, 6 * DAY :] = 500.0
    use[1] = 0.0
    past = Past(use.astype(np.float32), 1800.0, np.full(4, np.nan), np.full(4, 1000.0))
    with np.errstate(all="raise", under="ignore"):
        said = DayProfile(DayProfileSettings(doubt_days=0.0)).below(past, DAY, 0.01)
    assert np.isfinite(said).all()
    assert (said[1] == 0.0).all()


def test_where_the_risk_was_kept_nothing_is_widened() -> None:
    rng = np.random.default_rng(2)
    use = np.tile(rng.uniform(200, 600, (20, DAY)), 8) + rng.uniform(-5, 5, (20, 8 * DAY))
    past = Past(use.astype(np.float32), 1800.0, np.full(20, np.nan), np.full(20, 1000.0))
    with_trials = DayProfile(DayProfileSettings(doubt_days=0.0)).below(past, DAY, 0.05)
    without = DayProfile(DayProfileSettings(doubt_days=1e9)).below(past, DAY, 0.05)
    np.testing.assert_allclose(with_trials, without, rtol=0.05)
    assert (with_trials >= without).all()
