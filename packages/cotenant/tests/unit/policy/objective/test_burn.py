"""Burn rates, multi-window alerts and the state of an objective."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.model.traces.objective import LONGEST_WINDOW_S, SHORTEST_WINDOW_S, AlertSeverity, ServiceObjective
from cotenant.policy.objective.burn import (
    SLOT_S,
    CountedRequests,
    ObjectiveState,
    burn_rate,
    judge,
    rules,
    unreachable,
    window_name,
    windows,
)

DAY_S = 86_400
MONTH_S = 30 * DAY_S
OBJECTIVE = ServiceObjective("shop/cart", "shop", "cart", threshold_us=1000, window_s=30 * DAY_S)
WINDOWS = st.integers(SHORTEST_WINDOW_S, LONGEST_WINDOW_S)
COUNTS = st.integers(0, 10**6).flatmap(lambda n: st.builds(CountedRequests, st.just(n), st.integers(0, n)))


def test_the_workbooks_factors_follow_from_budget_shares() -> None:
    assert [
        (rule.severity.value, window_name(rule.long_s), window_name(rule.short_s), rule.factor)
        for rule in rules(30 * DAY_S)
    ] == [
        ("fast", "1h", "5m", pytest.approx(14.4)),
        ("fast", "6h", "30m", pytest.approx(6)),
        ("slow", "1d", "2h", pytest.approx(3)),
        ("slow", "3d", "6h", pytest.approx(1)),
    ]
    assert rules(28 * DAY_S)[0].factor == pytest.approx(13.44)


@given(WINDOWS)
def test_a_rule_fires_exactly_when_its_share_of_the_budget_is_used_up_within_its_window(window_s: int) -> None:
    for rule in rules(window_s):
        assert SLOT_S <= rule.short_s <= rule.long_s <= window_s
        assert rule.factor * rule.long_s / window_s == pytest.approx(rule.share)


@given(COUNTS, st.integers(1, 999_999), WINDOWS)
def test_a_constant_ratio_fires_the_rules_below_it_and_needs_enough_requests(
    counted: CountedRequests, budget_ppm: int, window_s: int
) -> None:
    objective = replace(OBJECTIVE, budget_ppm=budget_ppm, window_s=window_s)
    standing = judge(objective, lambda _: counted, window_s)
    burn = burn_rate(counted, budget_ppm)
    for alert in standing.alerts:
        expected = burn is not None and burn > alert.rule.factor and counted.requests >= objective.min_events
        assert alert.firing == expected
    if burn is None:
        assert (standing.state, standing.ratio, standing.budget_left) == (ObjectiveState.NO_DATA, None, None)
    else:
        assert standing.budget_left == pytest.approx(1 - burn)
        assert standing.ratio == pytest.approx(1 - counted.bad / counted.requests)
    assert set(standing.burn) == set(windows(objective))


@given(COUNTS, COUNTS, st.integers(0, 10**6))
def test_more_bad_requests_never_calm_an_alert(long: CountedRequests, short: CountedRequests, more: int) -> None:
    rule = rules(OBJECTIVE.window_s)[0]

    def firing(added: int) -> bool:
        of = {rule.long_s: long, rule.short_s: short}

        def counted(window_s: int) -> CountedRequests:
            found = of.get(window_s, CountedRequests(0, 0))
            return CountedRequests(found.requests + added, found.bad + added)

        return judge(OBJECTIVE, counted, 0).alerts[0].firing

    assert firing(more) >= firing(0)


def test_both_windows_must_exceed_the_factor() -> None:
    hour = rules(OBJECTIVE.window_s)[0]

    def standing(long_bad: int, short_bad: int) -> bool:
        of = {hour.long_s: CountedRequests(10_000, long_bad), hour.short_s: CountedRequests(1000, short_bad)}
        return judge(OBJECTIVE, lambda window_s: of.get(window_s, CountedRequests(10**6, 0)), 0).alerts[0].firing

    assert standing(200, 20)
    assert not standing(200, 10)  # it is over
    assert not standing(100, 20)  # too short


def test_one_bad_request_of_three_is_no_alert() -> None:
    standing = judge(OBJECTIVE, lambda _: CountedRequests(3, 1), 0)
    assert standing.state is ObjectiveState.OK
    assert not any(alert.enough for alert in standing.alerts)


def test_states() -> None:
    assert judge(OBJECTIVE, lambda _: CountedRequests(1000, 0), MONTH_S).state is ObjectiveState.OK
    assert judge(OBJECTIVE, lambda _: CountedRequests(1000, 2), MONTH_S).state is ObjectiveState.EXHAUSTED
    assert judge(OBJECTIVE, lambda _: CountedRequests(1000, 2), MONTH_S / 3).budget_left == pytest.approx(1 / 3)
    recent = {rule.long_s: CountedRequests(1000, 100) for rule in rules(OBJECTIVE.window_s)}
    recent |= {rule.short_s: CountedRequests(1000, 100) for rule in rules(OBJECTIVE.window_s)}
    burning = judge(OBJECTIVE, lambda window_s: recent.get(window_s, CountedRequests(10**6, 100)), MONTH_S)
    assert burning.state is ObjectiveState.BURNING
    assert burning.budget_left == pytest.approx(0.9)
    idle = judge(
        OBJECTIVE, lambda window_s: CountedRequests(0, 0) if window_s <= 3600 else CountedRequests(1000, 500), MONTH_S
    )
    assert (idle.state, idle.budget_left) == (ObjectiveState.NO_DATA, pytest.approx(-499))


def test_a_severity_without_a_label_does_not_fire() -> None:
    quiet = replace(OBJECTIVE, labels={AlertSeverity.SLOW: "warning"})
    firing = [
        alert.rule.severity for alert in judge(quiet, lambda _: CountedRequests(1000, 1000), 0).alerts if alert.firing
    ]
    assert firing == [AlertSeverity.SLOW, AlertSeverity.SLOW]


def test_a_factor_that_cannot_be_reached_is_known() -> None:
    assert unreachable(OBJECTIVE) == ()
    loose = replace(OBJECTIVE, budget_ppm=100_000)
    assert [rule.factor for rule in unreachable(loose)] == [pytest.approx(14.4)]


@pytest.mark.parametrize(
    ("seconds", "name"), [(300, "5m"), (3600, "1h"), (259_200, "3d"), (90, "90s"), (2_419_200, "28d")]
)
def test_names_of_windows(seconds: int, name: str) -> None:
    assert window_name(seconds) == name
