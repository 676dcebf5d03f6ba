from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from cotenant.model.assess.history import AssessedHistory, Float32
from cotenant.model.errors import InvalidInput
from cotenant.policy.assess.back_test import back_test, origins_of, outcome, past_of, score
from cotenant.policy.assess.predictor import OneByOne, Past, flat

STEP_S = 3600.0


class Says(OneByOne):
    """The same amount always."""

    def __init__(self, amount: float, name: str = "says") -> None:
        self.amount, self.name = amount, name

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        return flat(np.full(len(past.use), self.amount), horizon)


def past(use: np.ndarray, capacity: float = 1000.0) -> Past:
    return Past(use.astype(np.float32), STEP_S, np.full(len(use), 500.0), np.full(len(use), capacity))


def test_an_outcome_by_hand() -> None:
    use = np.array([[0, 0, 300, 500, 1100, np.nan], [0, 0, 100, 100, 100, 100]])
    found = outcome(past(use), np.full((2, 4), 400, np.float32), 2, 50.0, 0.01)
    assert (found.at_s, found.horizon_s, found.judged, found.steps, found.exceeded) == (7250.0, 14400.0, 2, 7, 2)
    assert found.lent == 7 * 600
    assert found.squeezed == 100 + 600  # 500 + 600 is 100 too much; at 1100 nothing of the 600 is there
    assert found.capacity == 7000
    over, under = (100 + 700) * 0.99, (100 + 4 * 300) * 0.01
    assert found.pinball == pytest.approx((over + under) / 1000)


def test_what_would_have_met_the_risk_has_no_error() -> None:
    rng = np.random.default_rng(0)
    use = rng.uniform(0, 500, (4, 24 * 20))
    exact = np.repeat(np.quantile(use[:, 240:], 0.99, axis=1)[:, None], 240, axis=1).astype(np.float32)
    found = score("exact", [outcome(past(use), exact, 240, 0.0, 0.01)])
    assert found.error_pct < 0.01
    assert found.risk_pct == pytest.approx(1.25, abs=0.01)  # 3 of 240: the quantile interpolates
    bold = score("bold", [outcome(past(use), exact - 50, 240, 0.0, 0.01)])
    assert bold.error_pct == pytest.approx(100 * 50 / (1000 - exact.mean()), rel=1e-3)
    assert bold.pinball_pct > found.pinball_pct


def test_nodes_without_capacity_or_use_are_left_out_and_counted() -> None:
    use = np.full((4, 24 * 6), 100.0)
    use[2] = np.nan
    judged = past(use)._replace(capacity=np.array([1000.0, 0.0, 1000.0, np.nan]))
    found = back_test(judged, 0.0, rivals=())
    assert found.left_out == 3
    assert {one.judged for one in found.scores[0].outcomes} == {1}


def test_a_node_that_is_known_for_less_than_half_is_not_judged() -> None:
    use = np.full((2, 8), 100.0)
    use[0, 3:] = np.nan
    assert outcome(past(use), np.full((2, 8), 200, np.float32), 0, 0.0, 0.01).judged == 1


def test_predictors_see_the_first_part_only() -> None:
    seen = []

    class Looks(Says):
        def below(self, past: Past, horizon: int, risk: float) -> Float32:
            seen.append(past.use.shape[1])
            return super().below(past, horizon, risk)

    whole = past(np.full((1, 24 * 6), 100.0))
    back_test(whole, 0.0, ours=Looks(200.0), rivals=())
    assert seen == list(origins_of(whole, 24))
    assert (seen[0], seen[-1]) == (48, 120)


def test_the_better_rival_is_named() -> None:
    use = np.random.default_rng(2).uniform(0, 500, (5, 24 * 9))
    worse = back_test(past(use), 0.0, ours=Says(900.0, "ours"), rivals=(Says(495.0, "close"), Says(100.0, "low")))
    assert worse.best_rival is not None
    assert worse.best_rival.name == "close"
    assert "ours was not better than the best rival, close" in worse.verdict
    better = back_test(past(use), 0.0, ours=Says(495.0, "ours"), rivals=(Says(900.0, "high"),))
    assert "ours was better than the best rival, high" in better.verdict
    assert better.verdict.startswith("Use was above what was predicted in 0.67 % of the time, at a stated risk of 1 %")


def test_the_interval_is_wide_where_days_differ() -> None:
    quiet, busy = np.full((3, 24 * 9), 100.0), np.full((3, 24 * 9), 100.0)
    busy[:, 24 * 4 : 24 * 5] = 600.0
    says = Says(500.0)
    calm = back_test(past(quiet), 0.0, ours=says, rivals=()).scores[0]
    uneven = back_test(past(busy), 0.0, ours=says, rivals=()).scores[0]
    assert (calm.risk_low_pct, calm.risk_pct, calm.risk_high_pct) == (0.0, 0.0, 0.0)
    assert uneven.risk_low_pct == 0.0
    assert uneven.risk_high_pct > 2 * uneven.risk_pct - 1e-9


def test_a_history_without_a_second_part_has_no_figures() -> None:
    nothing = back_test(past(np.zeros((2, 0))), 0.0)
    assert "too short" in nothing.verdict
    assert nothing.best_rival is None
    assert isnan(nothing.scores[0].risk_pct)


def test_resources_and_columns_must_fit() -> None:
    values = np.ones((2, 3), np.float32)
    history = AssessedHistory(0.0, 60.0, ("a", "b"), values, values * 5)
    both = np.ones(2)
    assert past_of(history, "memory", both, both).use[0, 0] == 5
    with pytest.raises(InvalidInput, match="cpu or memory"):
        past_of(history, "disk", both, both)
    with pytest.raises(InvalidInput, match="requested"):
        past_of(history, "cpu", np.ones(3), both)
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        back_test(past(values), 0.0, risk=0.0)
