from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.assess.predictor import Past
from cotenant.policy.assess.replica_sizes import hours_that_set, replica_sizes, worst_replica
from cotenant.policy.assess.rivals import LastDayPeak

STEP_S = 3600.0
MONDAY_S = 1_767_571_200.0  # 2026-01-05 00:00 UTC


def past(use: np.ndarray, capacity: float = np.nan) -> Past:
    rows = len(use)
    return Past(use.astype(np.float32), STEP_S, np.full(rows, np.nan), np.full(rows, capacity))


def days(number: int, peak: float = 400.0, low: float = 100.0) -> np.ndarray:
    """Every day from 9 to 11 at its peak."""
    hour = np.arange(number * 24) % 24
    return np.where((hour >= 9) & (hour < 12), peak, low)[None, :].astype(float)


def test_the_worst_replica_is_taken_at_each_step() -> None:
    nan = np.nan
    use = np.array([[1, 5, nan, nan], [4, 2, nan, 3], [9, 9, 9, 9]], np.float32)
    found = worst_replica(use, [0, 0, -1], 2)
    np.testing.assert_array_equal(found, [[4, 5, nan, 3], [nan] * 4])


def test_a_steady_course_is_met_closely_by_a_rule_that_kept_the_risk() -> None:
    found = replica_sizes(past(days(8)), MONDAY_S, 0.01)[0]
    assert found is not None
    assert found.amount == pytest.approx(400.0, rel=0.05)
    assert found.rule in {"last-day peak", "day profile (ours)", "Borg's peak predictor", "VPA's histogram"}
    assert found.trial.days == 7
    assert found.trial.exceeded == 0
    assert found.set_by.startswith("Mon 9-11h, Tue 9-11h, Wed 9-11h, Thu 9-11h and 3 more days (highest 2026-01-05 09:")


def test_growth_that_no_rule_kept_up_with_takes_the_highest_and_a_margin() -> None:
    use = np.concatenate([days(1, 100.0 * 1.6**day, 100.0 * 1.6**day) for day in range(8)], axis=1)
    found = replica_sizes(past(use), MONDAY_S, 0.01)[0]
    assert found is not None
    assert found.rule == "highest measured and 15 %"
    assert found.amount == pytest.approx(use.max() * 1.15)
    assert found.trial.risk == 1.0  # and it says so: 60 % a day is more than the margin


def test_a_short_history_has_no_trial() -> None:
    found = replica_sizes(past(days(2)), MONDAY_S, 0.01)[0]
    assert found is not None
    assert (found.rule, found.amount) == ("highest measured and 15 %", pytest.approx(460.0))


def test_the_trial_is_the_choice_that_was_possible_then() -> None:
    """By hand: two days have no three tried days before them, so the highest and its margin stand for them."""
    use = days(6)
    use[0, 24 * 5 + 9] = 900.0  # the last day surprises
    found = replica_sizes(past(use), MONDAY_S, 0.05)[0]
    assert found is not None
    assert (found.trial.days, found.trial.steps, found.trial.exceeded) == (5, 120, 1)


def test_a_counter_that_jumped_is_no_use() -> None:
    use = days(8)
    use[0, 30] = 1e9
    use[0, 31] = -5.0
    found = replica_sizes(past(use, capacity=4000.0), MONDAY_S, 0.01)[0]
    assert found is not None
    assert (found.left_out, found.highest) == (2, 400.0)
    assert found.amount < 460.1


def test_unknown_series_have_no_size() -> None:
    assert replica_sizes(past(np.full((1, 200), np.nan)), MONDAY_S, 0.01) == (None,)
    with pytest.raises(InvalidInput, match="risk"):
        replica_sizes(past(days(2)), MONDAY_S, 1.0)


def test_the_smallest_rule_that_kept_the_risk_is_taken_by_brute_force() -> None:
    random = np.random.default_rng(3)
    for _ in range(5):
        use = days(8) * random.uniform(0.7, 1.0, (1, 8 * 24))
        found = replica_sizes(past(use), MONDAY_S, 0.02)[0]
        assert found is not None
        peaks = [LastDayPeak().below(past(use[:, : 24 * day]), 24, 0.02)[0, 0] for day in range(1, 8)]
        over = sum(int((use[0, 24 * day : 24 * day + 24] > peak).sum()) for day, peak in enumerate(peaks, 1))
        if over <= 0.02 * 7 * 24 and found.rule != "last-day peak":  # then the one taken was smaller on those days
            assert found.rule != "highest measured and 15 %"
        if found.rule == "last-day peak":
            assert over <= 0.02 * 7 * 24


def test_hours_are_named_by_weekday() -> None:
    use = np.full(48, 10.0, np.float32)
    use[[9, 10, 33]] = 100.0
    assert hours_that_set(use, MONDAY_S, STEP_S, 100.0) == "Mon 9-10h, Tue 9h (highest 2026-01-05 09:00 UTC)"


@pytest.mark.parametrize(("working", "off"), [(13, 1), (10, 4), (7, 7)])
def test_a_holiday_does_not_shrink_what_the_working_days_need(working: int, off: int) -> None:
    use = np.concatenate([days(working, 2000.0, 300.0), days(off, 300.0, 100.0)], axis=1)
    found = replica_sizes(past(use), MONDAY_S, 0.01)[0]
    assert found is not None
    assert found.amount >= 2000.0
    assert found.rule.endswith("raised to what kept the risk over all days")


def test_use_that_fell_for_good_is_followed_once_the_history_has_forgotten() -> None:
    found = replica_sizes(past(days(14, 300.0, 100.0)), MONDAY_S, 0.01)[0]
    assert found is not None
    assert found.amount == pytest.approx(300.0, rel=0.05)


def test_a_spike_that_the_risk_allows_does_not_set_the_size() -> None:
    use = days(14)
    use[0, 30:33] = 5000.0  # 3 of 336 hours: less than a hundredth
    found = replica_sizes(past(use), MONDAY_S, 0.01)[0]
    assert found is not None
    assert found.amount < 1000.0
