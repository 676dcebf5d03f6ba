"""GFS: its forecast, its quota and how it is corrected, whom it evicts and where it places."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant_lab.gpuworld.arrivals import OfflineJob
from cotenant_lab.gpuworld.forecasting import STEP_S, DemandForecast
from cotenant_lab.gpuworld.gfs import GfsRule
from cotenant_lab.gpuworld.sharing import Card, ReplicaPhase

DAY_S = 7200.0
HOUR_S = DAY_S / 24
DAY = (2, 2, 3, 5, 8, 9, 9, 8, 6, 5, 3, 2)


def job(number: int, memory_pct: int = 50, started_s: float = 0.0) -> OfflineJob:
    return replace(OfflineJob(number, 0.0, 900.0, memory_pct, 0.5, 0.3, 0.1), started_s=started_s)


def rule(rate: float = 0.9, hours: int = 1) -> GfsRule:
    return GfsRule(jobs_per_card=3, rate=rate, hours=hours, day_s=DAY_S)


def taught(gfs: GfsRule, day: tuple[int, ...] = DAY, days: int = 2) -> GfsRule:
    for step in range(days * len(day)):
        gfs.measured((step - days * len(day)) * STEP_S, day[step % len(day)], 10)
    return gfs


def test_a_day_like_the_others_is_forecast_as_they_were() -> None:
    forecast = DemandForecast(DAY_S)
    for step in range(24):
        forecast.seen(step * STEP_S, DAY[step % 12], 4)
    assert [forecast.quantile(steps, 0.5) for steps in (1, 2, 4)] == [2.0, 2.0, 5.0]
    assert forecast.quantile(1, 0.9) > 2.0


def test_a_departure_that_lasts_is_expected_to_last_and_errors_widen_the_forecast() -> None:
    lasting, brief = DemandForecast(DAY_S), DemandForecast(DAY_S)
    for step in range(36):
        lasting.seen(step * STEP_S, DAY[step % 12] + (2 if step >= 12 else 0), 2)
        brief.seen(step * STEP_S, DAY[step % 12] + (2 if step >= 12 and step % 3 == 2 else 0), 2)
    usual = lasting._day_before(36)
    assert usual is not None
    assert lasting.quantile(1, 0.5) > usual + 0.5
    assert brief._fading(1) == 0.0
    assert brief.quantile(1, 0.9) - brief.quantile(1, 0.5) > lasting.quantile(1, 0.9) - lasting.quantile(1, 0.5)


def test_without_a_day_of_history_the_latest_value_stands_for_all() -> None:
    forecast = DemandForecast(DAY_S)
    forecast.seen(0.0, 4, 2)
    assert forecast.quantile(2, 0.5) == 4.0


def test_the_quota_is_what_the_forecast_leaves_and_jobs_wait_beyond_it() -> None:
    gfs = taught(rule(rate=0.5))
    assert gfs.quota(16) == 14.0  # two are expected
    ahead = taught(rule(rate=0.5, hours=8))  # four steps, of which the fourth has five
    assert ahead.quota(16) == 11.0
    assert gfs.quota(1) == 0.0
    cards = [Card(0), Card(1), Card(2)]
    assert gfs.job_card(cards, job(1, 100)) == 0
    cards[0].jobs.append(job(1, 100))
    assert gfs.job_card(cards, job(2, 10)) is None, "of three cards two are kept"


def test_the_factor_follows_broken_promises() -> None:
    gfs, cards = taught(rule(rate=0.5)), [Card(0, jobs=[job(1), job(2)]), Card(1, jobs=[job(3)])]
    gfs.observed(10.0, cards, {})
    assert gfs.replica_card(cards) == 1
    cards[1].jobs.clear()
    gfs.observed(HOUR_S + 10.0, cards, {})  # an hour's promise to both others was kept
    gfs.measured(HOUR_S + 20.0, 2, 10)
    assert gfs._factor == 1.0, "a third broken, where a half is promised"
    gfs.replica_card([cards[0]])
    gfs.measured(HOUR_S + 30.0, 2, 10)
    assert gfs._factor == 1.0
    gfs._kept_s.clear()
    gfs.measured(HOUR_S + 40.0, 2, 10)
    assert gfs._factor == pytest.approx(0.5), "all broken: twice what was promised"


def test_the_factor_grows_where_promises_hold_and_somebody_waits_for_an_hour() -> None:
    gfs, cards = taught(rule(rate=0.5)), [Card(0, jobs=[job(1)])]
    full = [Card(0, jobs=[job(1, 100)])]
    assert gfs.job_card(full, job(9)) is None
    gfs.observed(1.0, cards, {})
    gfs.observed(1.0 + HOUR_S, cards, {})
    gfs.measured(2.0 + HOUR_S, 2, 10)
    assert gfs._factor == 1.5
    assert gfs.job_card([Card(number) for number in range(8)], job(9)) == 0, "it waits no more"
    gfs.measured(3.0 + HOUR_S, 2, 10)
    assert gfs._factor == 1.5


def test_a_replica_takes_an_idle_card_then_the_one_whose_jobs_ran_least_and_are_fewest() -> None:
    gfs = rule()
    gfs._now_s, gfs._kept_s = 1000.0, [500.0] * 20
    long, short = Card(0, jobs=[job(1, 50, 100.0)]), Card(1, jobs=[job(2, 50, 900.0)])
    two = Card(2, jobs=[job(3, 20, 950.0), job(4, 20, 950.0)])
    assert gfs.replica_card([long, short, two, Card(3)]) == 3
    assert gfs.replica_card([long, short, two]) == 1
    assert gfs.replica_card([Card(0, ReplicaPhase.SERVING, 50), two]) == 2


def test_a_job_goes_where_nobody_was_evicted_lately_then_packed() -> None:
    gfs = taught(rule(rate=0.5))
    cards = [Card(0, jobs=[job(1, 60)]), Card(1, jobs=[job(2, 30)]), Card(2), Card(3), Card(4)]
    assert gfs.job_card(cards, job(5, 20)) == 0
    gfs._broken.append((0.0, 0))
    assert gfs.job_card(cards, job(5, 20)) == 1
    gfs._now_s = HOUR_S + 1.0
    assert gfs.job_card(cards, job(5, 20)) == 0
