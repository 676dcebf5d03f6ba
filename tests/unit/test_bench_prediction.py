"""bench.prediction: what the rules say, and how what they said is judged."""

from __future__ import annotations

import numpy as np
import pytest
from bench.prediction import Half, judged, renewed, settings, stated
from bench.prediction_rules import STEPS, HoltWinters, LastPeak, Manager, Quantiles, Rule, Series, Sigmas, Vpa

DAYS = 6


def _series(*, jump: float = 0.0) -> Series:
    """Two machines with a day's course; one step of the last day is higher by `jump`."""
    steps = np.arange(DAYS * 24 * STEPS)
    use = 0.4 + 0.2 * np.sin(2 * np.pi * steps / (24 * STEPS)) + np.array([[0.0], [0.05]])
    use[:, -30] += jump
    return Series(use)


def test_a_peak_of_a_whole_day_is_never_exceeded_by_days_that_repeat_it() -> None:
    found = judged(LastPeak(), Half(_series(), 24), 4, 1, 0.01)
    assert found.over_pct == 0.0
    assert found.lent_pct == pytest.approx(100 * (1 - 0.625), abs=0.1)
    assert found.lent_pct < found.oracle_pct


def test_one_step_above_counts_in_every_hour_that_has_it() -> None:
    found = judged(LastPeak(), Half(_series(jump=0.5), 24), 1, 1, 0.01)
    origins = (DAYS - 1) * 24 * STEPS - STEPS + 1
    assert found.over_pct == pytest.approx(100 * STEPS / origins)
    anew = renewed(LastPeak(), Half(_series(jump=0.5), 24), 0.01)
    assert anew.over_pct == pytest.approx(100 / ((DAYS - 1) * 24), rel=0.02)  # one hour of each machine


@pytest.mark.parametrize(
    "rule",
    [LastPeak(), Sigmas(2.0), Sigmas(2.0, 24, 0.99), HoltWinters(), Vpa(), Manager()],
    ids=lambda rule: rule.name,
)
def test_a_rule_sees_nothing_of_what_comes(rule: Rule) -> None:
    whole = _series()
    changed = Series(
        np.concatenate([whole.use[:, : 4 * 24 * STEPS], np.full_like(whole.use[:, : 2 * 24 * STEPS], 0.99)], 1)
    )
    before = [dict(rule.below(series, 48, 6, 1)) for series in (whole, changed)]
    for at in [step for step in before[0] if step < 4 * 24 * STEPS]:
        assert before[0][at] == pytest.approx(before[1][at], nan_ok=True), at


@pytest.mark.slow
def test_ours_sees_nothing_of_what_comes_either() -> None:
    test_a_rule_sees_nothing_of_what_comes(Quantiles())


def test_every_rule_has_several_settings_and_those_with_a_risk_two_rows() -> None:
    assert all(len(choices) >= 5 and len({rule.setting for rule in choices}) == len(choices) for choices in settings())
    assert [rule.name for rule in stated(0.01)] == [rule.name for rule in stated(0.05)]
