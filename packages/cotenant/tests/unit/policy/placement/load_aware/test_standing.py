"""Headroom, expiry and estimates of load-aware placement at their limits."""

from __future__ import annotations

import pytest

from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.load_aware.estimate import estimate
from cotenant.policy.placement.load_aware.filtering import UNLIMITED, enough, is_expired, max_used, percent
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings, NodeThresholds
from cotenant.policy.placement.load_aware.standing import REPORT_LIVES_S, Facts, Source, Standing, standing

SIZE = Use(10_000, 1 << 30)
METRIC = NodeMetric("n", 0.0, 60, Use(9000, 1 << 20))


def stands(facts: Facts, now_s: float, settings: LoadAwareSettings | None = None) -> Standing:
    return standing(SIZE, NodeThresholds(), facts, (), settings or LoadAwareSettings(), now_s)


@pytest.mark.parametrize("threshold_pct", [1, 50, 65, 95, 100])
def test_the_most_that_may_be_used_is_the_last_amount_whose_rounded_share_is_within_the_threshold(
    threshold_pct: int,
) -> None:
    for allocatable in (1, 7, 100, 199, 200, 1000, 64_000):
        most = max_used(allocatable, threshold_pct)
        assert percent(most, allocatable) <= threshold_pct < percent(most + 1, allocatable)


def test_without_a_threshold_nothing_is_limited() -> None:
    assert max_used(1000, 0) == UNLIMITED


@pytest.mark.parametrize(
    ("asked", "found"),
    [(Use(5, 7), (True, True)), (Use(6, 7), (False, True)), (Use(5, 8), (True, False)), (Use(6, 8), (False, False))],
)
def test_a_pod_that_takes_the_whole_headroom_fits_and_one_more_unit_does_not(
    asked: Use, found: tuple[bool, bool]
) -> None:
    assert enough(Use(5, 7), asked) == found


def test_a_metric_expires_at_its_age_and_one_without_a_time_is_expired() -> None:
    settings = LoadAwareSettings(expires_s=180.0)
    assert not is_expired(179.9, settings)
    assert is_expired(180.0, settings)
    assert is_expired(float("nan"), settings)
    assert not is_expired(1e9, LoadAwareSettings(expires_s=0.0))


def test_a_report_counts_until_its_lifetime_is_over() -> None:
    facts = Facts(report=METRIC, reported_s=0.0)
    assert stands(facts, REPORT_LIVES_S - 0.1).source is Source.REPORT
    assert stands(facts, REPORT_LIVES_S - 0.1).due_s == REPORT_LIVES_S
    assert stands(facts, REPORT_LIVES_S).source is Source.NOBODY


def test_an_expired_metric_that_is_trusted_filters_and_does_not_score() -> None:
    settings = LoadAwareSettings(filters_expired=False, expires_s=180.0)
    fresh, expired = (stands(Facts(metric=METRIC, updated_s=0.0), now_s, settings) for now_s in (179.0, 180.0))
    assert (fresh.source, fresh.is_scored) == (Source.METRIC, True)
    assert (expired.source, expired.is_scored) == (Source.EXPIRED, False)
    assert expired.usual.room == fresh.usual.room


def test_a_pod_is_not_expected_to_use_more_than_its_limit() -> None:
    settings = LoadAwareSettings(scaling=(150, 70))
    asked = Amounts.of({"cpu": 1000, "memory": 1000})
    assert estimate(asked, asked, PriorityClass.PROD, settings) == Use(1000, 700)
    assert estimate(asked, Amounts.of({}), PriorityClass.PROD, settings) == Use(1500, 700)
