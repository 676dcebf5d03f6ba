"""Safety of evictions: no protected pod is evicted, never more victims than needed, and a shortfall is always
reported.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.model.machine.node_decision import Reason
from cotenant.policy.nodeqos.eviction.goals import PRIORITY_MAX, Currency, EvictionGoal, EvictionTrigger
from cotenant.policy.nodeqos.eviction.victims import EvictionCandidate, VictimChoice, choose

pytestmark = pytest.mark.slow
POOLS = st.sampled_from([Currency.REQUESTED_BATCH, Currency.REQUESTED_MID, Currency.REQUESTED])


@st.composite
def candidates(draw: st.DrawFn) -> list[EvictionCandidate]:
    def one(number: int) -> EvictionCandidate:
        return EvictionCandidate(
            uid=f"u{number}",
            key=f"t/p{number}",
            best_effort=draw(st.booleans()),
            opted_in=draw(st.booleans()),
            priority=draw(st.integers(0, 10_000)),
            sub_priority=draw(st.integers(0, 3)),
            eviction_priority=draw(st.integers(-1, 1)),
            allowed=draw(st.none() | st.frozensets(st.sampled_from([t.value for t in EvictionTrigger]))),
            leaving=draw(st.booleans()),
            pool=draw(POOLS),
            requested=draw(st.integers(0, 50)),
            used=draw(st.none() | st.integers(0, 50)),
        )

    return [one(number) for number in range(draw(st.integers(0, 8)))]


GOALS = st.lists(
    st.builds(
        EvictionGoal,
        st.sampled_from(list(EvictionTrigger)),
        st.dictionaries(st.sampled_from(list(Currency)), st.integers(1, 120), min_size=1).map(
            lambda amounts: tuple(amounts.items())
        ),
        st.just(Reason("test", "test")),
        st.integers(0, PRIORITY_MAX),
    ),
    max_size=3,
)


def reached(goals: list[EvictionGoal], leaving: list[EvictionCandidate]) -> bool:
    return all(
        sum(one.frees(currency) for one in leaving) >= amount for goal in goals for currency, amount in goal.amounts
    )


def gone(choice: VictimChoice, pods: list[EvictionCandidate]) -> list[EvictionCandidate]:
    return [one for one in pods if one.leaving] + [one for one, _ in choice.victims]


@given(candidates(), GOALS, st.booleans())
def test_no_protected_pod_is_evicted(pods: list[EvictionCandidate], goals: list[EvictionGoal], strict: bool) -> None:
    for one, goal in choose(goals, pods, strict).victims:
        assert not one.leaving
        assert one.allowed is None or goal.trigger in one.allowed
        if goal.trigger.best_effort_only:
            assert one.best_effort
        else:
            assert one.opted_in
            assert one.priority <= goal.priority_threshold <= PRIORITY_MAX


@given(candidates(), GOALS, st.booleans())
def test_each_victim_is_evicted_once_and_the_sums_are_right(
    pods: list[EvictionCandidate], goals: list[EvictionGoal], strict: bool
) -> None:
    choice = choose(goals, pods, strict)
    uids = [one.uid for one, _ in choice.victims]
    assert len(uids) == len(set(uids))
    for currency, amount in choice.freed:
        assert amount == sum(one.frees(currency) for one in gone(choice, pods))


@given(candidates(), GOALS, st.booleans())
def test_a_shortfall_means_that_every_useful_eligible_pod_was_evicted(
    pods: list[EvictionCandidate], goals: list[EvictionGoal], strict: bool
) -> None:
    choice = choose(goals, pods, strict)
    leaving = gone(choice, pods)
    assert (not choice.short) == reached(goals, leaving)
    taken = {one.uid for one in leaving}
    for trigger, currency, _ in choice.short:
        for goal in goals:
            if goal.trigger is trigger and any(currency is c for c, _ in goal.amounts):
                missed = [one for one in pods if one.uid not in taken and one.eligible(goal) and one.frees(currency)]
                assert not missed


@given(candidates(), GOALS)
def test_without_the_last_victim_too_little_is_free(pods: list[EvictionCandidate], goals: list[EvictionGoal]) -> None:
    choice = choose(goals, pods)
    if choice.victims:
        assert not reached(goals, gone(choice, pods)[:-1])


@given(candidates(), GOALS)
def test_strict_order_evicts_lower_ranks_first(pods: list[EvictionCandidate], goals: list[EvictionGoal]) -> None:
    general = [goal for goal in goals if not goal.trigger.best_effort_only]
    choice = choose(general, pods, strict_order=True)
    taken = {one.uid for one, _ in choice.victims}
    for victim, goal in choice.victims:
        rank = (victim.eviction_priority, victim.priority, victim.sub_priority)
        for other in pods:
            if not other.leaving and other.eligible(goal) and other.uid not in taken:
                assert (other.eviction_priority, other.priority, other.sub_priority) >= rank
