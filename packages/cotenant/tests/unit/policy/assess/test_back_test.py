from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from cotenant.model.assess.history import AssessedHistory, Float32
from cotenant.model.errors import InvalidInput
from cotenant.policy.assess.back_test import (
    BackTestOutcome,
    PredictorScore,
    back_test,
    origins_of,
    outcome,
    past_of,
    score,
    verdict_of,
)
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


@pytest.mark.parametrize(
    ("steps", "horizon", "every_s", "first_share", "expected"),
    [
        (24, 6, 6 * 3600.0, 1 / 3, (12, 18)),  # a third is 8, and 12 the next whole six hours
        (24, 6, 6 * 3600.0, 1 / 4, (6, 12, 18)),
        (24, 7, 6 * 3600.0, 1 / 4, (6, 12)),  # the last has a whole horizon ahead
        (6, 2, 1.0, 0.0, (1, 2, 3, 4)),  # never less than a step apart, and never at the very first
        (6, 2, 1.6 * 3600, 0.5, (4,)),  # rounded to two steps
        (4, 4, 3600.0, 0.5, ()),
    ],
)
def test_where_predictions_begin(
    steps: int, horizon: int, every_s: float, first_share: float, expected: tuple[int, ...]
) -> None:
    assert origins_of(past(np.zeros((1, steps))), horizon, every_s, first_share) == expected


def test_without_being_told_predictions_begin_every_six_hours_after_a_third() -> None:
    assert origins_of(past(np.zeros((1, 48))), 12) == (18, 24, 30, 36)


def of_day(day: float, exceeded: int, steps: int = 10, **figures: float) -> BackTestOutcome:
    made = {"lent": 100.0, "squeezed": 0.0, "in_hindsight": 100.0, "capacity": 400.0, "pinball": 0.0} | figures
    return BackTestOutcome(1000.0 + day * 50.0, 50.0, 1, steps, exceeded, **made)


def test_the_figures_of_a_score_are_sums_over_its_origins() -> None:
    found = score(
        "p",
        [
            of_day(0, 1, 10, lent=100.0, squeezed=5.0, in_hindsight=80.0, pinball=2.0),
            of_day(1, 3, 30, lent=300.0, squeezed=15.0, in_hindsight=400.0, pinball=4.0, capacity=600.0),
            of_day(2, 0, 0),  # nothing was judged there
            of_day(3, 0, 10, lent=0.0, in_hindsight=0.0, capacity=0.0),  # nothing to lend has no error
        ],
    )
    assert found.name == "p"
    assert found.risk_pct == pytest.approx(100 * 4 / 50)
    assert found.pinball_pct == pytest.approx(100 * 6 / 50)
    assert found.lent_pct == pytest.approx(100 * 400 / 1000)
    assert found.squeezed_pct == pytest.approx(100 * 20 / 400)
    assert found.error_pct == pytest.approx(100 * (20 / 80 + 100 / 400) / 2)
    assert len(found.outcomes) == 3


def test_where_nothing_is_lent_nothing_is_squeezed_and_no_error_is_known() -> None:
    found = score("p", [of_day(0, 0, lent=0.0, in_hindsight=0.0)])
    assert (found.lent_pct, found.squeezed_pct) == (0.0, 0.0)
    assert isnan(found.error_pct)
    one = score("p", [of_day(0, 0, lent=0.5, squeezed=0.25, in_hindsight=0.5)])
    assert (one.squeezed_pct, one.error_pct) == (50.0, 0.0)


def test_the_interval_is_that_of_its_days_and_origins_of_one_horizon_are_one_day() -> None:
    """Days of 10, 30 and 20 %: a standard deviation of 10 points, of three."""
    half = 1.96 * 10 / 3**0.5
    found = score("p", [of_day(0, 1), of_day(1, 3), of_day(2, 2)])
    assert found.risk_high_pct == pytest.approx(20 + half)
    assert found.risk_low_pct == pytest.approx(20 - half)
    # the first day by two origins that share half of their horizon: 0 and 20 %
    shared = score("p", [of_day(0, 0), of_day(0.5, 2), of_day(1, 3), of_day(1.5, 3), of_day(2, 2), of_day(2.9, 2)])
    assert shared.risk_high_pct == pytest.approx(20 + half)
    assert isnan(score("p", [of_day(0, 1), of_day(0.9, 1)]).risk_high_pct)


def test_the_lower_end_is_no_negative_risk() -> None:
    found = score("p", [of_day(0, 0), of_day(1, 10)])
    assert found.risk_low_pct == 0.0
    assert found.risk_high_pct == pytest.approx(50 + 1.96 * 100 * 0.5**0.5 / 2**0.5)


def scored(name: str, risk_pct: float, pinball_pct: float) -> PredictorScore:
    return PredictorScore(name, risk_pct, 0.0, 0.0, pinball_pct, 0.0, 0.0, 0.0, ())


NAN = float("nan")


@pytest.mark.parametrize(
    ("ours", "rivals", "said"),
    [
        (scored("ours", NAN, NAN), (), "The history is too short for a back-test"),
        (scored("ours", 1.5, 2.0), (), "in 1.5 % of the time, at a stated risk of 2.5 %; there is no rival"),
        (scored("ours", 1.5, 2.0), (scored("never", NAN, NAN),), "there is no rival to compare with."),
        (
            scored("ours", 1.5, 2.0),
            (scored("far", 1.0, 9.0), scored("never", NAN, NAN), scored("near", 1.0, 3.0)),
            "ours was better than the best rival, near (pinball loss 2 against 3 % of the capacity).",
        ),
        (scored("ours", 1.5, 3.0), (scored("near", 1.0, 3.0),), "ours was not better than the best rival, near"),
    ],
)
def test_a_verdict_names_the_best_rival_that_was_judged(
    ours: PredictorScore, rivals: tuple[PredictorScore, ...], said: str
) -> None:
    assert said in verdict_of(0.025, (ours, *rivals))


@pytest.mark.parametrize("risk", [0.0, 1.0, -0.1, 1.1])
def test_a_risk_is_neither_nothing_nor_certain(risk: float) -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        back_test(past(np.zeros((1, 30))), 0.0, risk=risk)


def test_a_short_history_is_tried_on_a_third_of_itself_at_a_time() -> None:
    found = back_test(past(np.full((1, 30), 100.0)), 500.0, ours=Says(200.0), rivals=(Says(300.0, "other"),))
    assert {one.horizon_s for one in found.scores[0].outcomes} == {10 * STEP_S}
    assert [one.at_s for one in found.scores[0].outcomes] == [500.0 + column * STEP_S for column in (10, 15, 20)]
    assert found.stated_risk == 0.01
    assert [one.name for one in found.scores] == ["says", "other"]
    longer = back_test(past(np.full((1, 30), 100.0)), 0.0, horizon_s=4 * STEP_S, ours=Says(200.0), rivals=())
    assert {one.horizon_s for one in longer.scores[0].outcomes} == {4 * STEP_S}
