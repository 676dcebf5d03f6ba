"""Headroom, expiry and estimates of load-aware placement at their limits."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isnan

import pytest

from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.load_aware.estimate import estimate
from cotenant.policy.placement.load_aware.filtering import UNLIMITED, enough, is_expired, max_used, percent
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings, LoadShares, NodeThresholds
from cotenant.policy.placement.load_aware.standing import (
    CLOSED,
    REPORT_LIVES_S,
    LoadFacts,
    LoadSource,
    LoadStanding,
    standing,
)
from cotenant.policy.placement.load_aware.usage import Resident, UsageBasis

SIZE = Use(10_000, 1 << 30)
METRIC = NodeMetric("n", 0.0, 60, Use(9000, 1 << 20))


def stands(facts: LoadFacts, now_s: float, settings: LoadAwareSettings | None = None) -> LoadStanding:
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
    facts = LoadFacts(report=METRIC, reported_s=0.0)
    assert stands(facts, REPORT_LIVES_S - 0.1).source is LoadSource.REPORT
    assert stands(facts, REPORT_LIVES_S - 0.1).due_s == REPORT_LIVES_S
    assert stands(facts, REPORT_LIVES_S).source is LoadSource.NOBODY


def test_an_expired_metric_that_is_trusted_filters_and_does_not_score() -> None:
    settings = LoadAwareSettings(filters_expired=False, expires_s=180.0)
    fresh, expired = (stands(LoadFacts(metric=METRIC, updated_s=0.0), now_s, settings) for now_s in (179.0, 180.0))
    assert (fresh.source, fresh.is_scored) == (LoadSource.METRIC, True)
    assert (expired.source, expired.is_scored) == (LoadSource.EXPIRED, False)
    assert expired.usual.room == fresh.usual.room


def test_a_pod_is_not_expected_to_use_more_than_its_limit() -> None:
    settings = LoadAwareSettings(scaling=(150, 70))
    asked = Amounts.of({"cpu": 1000, "memory": 1000})
    assert estimate(asked, asked, PriorityClass.PROD, settings) == Use(1000, 700)
    assert estimate(asked, Amounts.of({}), PriorityClass.PROD, settings) == Use(1500, 700)


REPORT = NodeMetric("n", 0.0, 60, Use(2000, 1 << 19))


def test_which_source_counts_and_for_how_long() -> None:
    both = LoadFacts(metric=METRIC, updated_s=100.0, report=REPORT, reported_s=150.0)
    for now_s, source, age_s, due_s in (
        (100.0, LoadSource.METRIC, 0.0, 280.0),
        (279.9, LoadSource.METRIC, 179.9, 280.0),  # while it is fresh it wins over any report
        (281.0, LoadSource.EXPIRED, 181.0, inf),
    ):
        found = stands(both, now_s)
        assert (found.source, found.age_s, found.due_s) == (source, pytest.approx(age_s), due_s)
    late = LoadFacts(metric=METRIC, updated_s=100.0, report=REPORT, reported_s=250.0)
    found = stands(late, 300.0)
    assert (found.source, found.updated_s, found.age_s, found.due_s) == (LoadSource.REPORT, 250.0, 50.0, 370.0)
    assert found.usual.load.use == REPORT.use
    forever = stands(LoadFacts(metric=METRIC, updated_s=0.0), 1e9, LoadAwareSettings(expires_s=0.0))
    assert (forever.source, forever.due_s) == (LoadSource.METRIC, inf)


def test_a_node_that_never_reported_passes_and_is_not_scored() -> None:
    found = stands(LoadFacts(), 5.0)
    assert (found.source, found.is_closed, found.is_known, found.is_scored) == (LoadSource.NOBODY, False, False, False)
    assert found.usual.room == found.prod.room == Use(UNLIMITED, UNLIMITED)
    assert (found.updated_s, found.due_s, isnan(found.age_s)) == (-inf, inf, True)


def test_an_expired_metric_closes_its_node_unless_it_may_be_scheduled_on() -> None:
    facts = LoadFacts(metric=METRIC, updated_s=0.0)
    closed, opened = (stands(facts, 200.0, LoadAwareSettings(schedule_when_expired=may)) for may in (False, True))
    assert (closed.is_closed, closed.usual.room, closed.prod.room) == (True, Use(CLOSED, CLOSED), Use(CLOSED, CLOSED))
    assert (opened.is_closed, opened.usual.room) == (False, Use(UNLIMITED, UNLIMITED))
    for found in (closed, opened):
        assert (found.source, found.age_s, found.is_known, found.is_scored) == (LoadSource.EXPIRED, 200.0, False, False)
        assert (found.updated_s, found.due_s) == (-inf, inf)


def test_a_metric_that_only_says_when_tells_nothing_of_the_node() -> None:
    found = stands(LoadFacts(metric=NodeMetric("n", 0.0, 60), updated_s=0.0), 10.0)
    assert (found.source, found.is_known, found.is_scored) == (LoadSource.METRIC, False, False)
    assert found.usual.room == Use(UNLIMITED, UNLIMITED)
    pods = {"ns/a": MeasuredPod(Use(100, 1))}
    only_pods = stands(LoadFacts(metric=NodeMetric("n", 0.0, 60, None, pods=pods), updated_s=0.0), 10.0)
    assert only_pods.is_known


def test_production_has_thresholds_and_a_score_of_its_own() -> None:
    pods = {
        "ns/prod": MeasuredPod(Use(1000, 100), PriorityClass.PROD),
        "ns/b": MeasuredPod(Use(500, 5), PriorityClass.BATCH),
    }
    metric = NodeMetric("n", 0.0, 60, Use(9000, 900), pods=pods)
    settings = LoadAwareSettings(LoadShares(50, 0), LoadShares(20, 0), scores_by_prod=True)
    found = stands(LoadFacts(metric=metric, updated_s=0.0), 1.0, settings)
    assert (found.usual.load.use, found.usual.scored.use) == (Use(9000, 900), Use(9000, 900))
    assert (found.prod.load.use, found.prod.scored.use) == (Use(1000, 100), Use(1000, 100))
    assert found.usual.room == Use(max_used(10_000, 50) - 9000, UNLIMITED)
    assert found.prod.room == Use(max_used(10_000, 20) - 1000, UNLIMITED)
    # where pods are not measured one by one, production is judged like all others
    whole = stands(LoadFacts(metric=replace(metric, pods=None), updated_s=0.0), 1.0, settings)
    assert whole.prod.room == whole.usual.room == found.usual.room
    assert whole.prod.scored.basis is UsageBasis.LAST


def test_a_resident_that_has_just_begun_makes_it_due_when_its_time_is_over() -> None:
    settings = LoadAwareSettings(expects_s=60.0)

    def due(now_s: float, *since_s: float) -> float:
        residents = [Resident(f"ns/{i}", Use(1, 1), at, False) for i, at in enumerate(since_s)]
        facts = LoadFacts(metric=METRIC, updated_s=0.0)
        return standing(SIZE, NodeThresholds(), facts, residents, settings, now_s).due_s

    assert due(50.0, 10.0, 30.0) == 70.0
    assert due(70.0, 10.0, 30.0) == 90.0  # the first one's is over
    assert due(90.0, 10.0, 30.0) == 180.0
    assert due(170.0, 165.0) == 180.0
    without = standing(
        SIZE,
        NodeThresholds(),
        LoadFacts(metric=METRIC, updated_s=0.0),
        [Resident("ns/a", Use(1, 1), 5.0, False)],
        LoadAwareSettings(),
        6.0,
    )
    assert without.due_s == 180.0
