"""Means over the observed time."""

from __future__ import annotations

from cotenant.engine.credit.observed import MAX_GAP_MS, ObservedUse
from cotenant.policy.credit.pricing import PeriodUse


def test_a_sample_counts_until_the_next() -> None:
    observed = ObservedUse()
    observed.sample([PeriodUse("a", 1000, 4000, 2000)], 0)
    observed.sample([PeriodUse("a", 1000, 1000, None)], 30_000)
    assert observed.means() == (PeriodUse("a", 1000, 4000, 2000),)
    observed.sample([], 60_000)
    assert observed.means() == (PeriodUse("a", 1000, 2500, None),)
    assert observed.observed_ms == 60_000


def test_what_was_taken_is_not_counted_again_and_a_pause_is_not_observed() -> None:
    observed = ObservedUse()
    observed.sample([PeriodUse("a", 0, 1000)], 0)
    observed.sample([PeriodUse("a", 0, 1000)], 1000)
    observed.reset()
    observed.sample([PeriodUse("a", 0, 1000)], 10 * MAX_GAP_MS)
    assert observed.observed_ms == MAX_GAP_MS
    observed.forget()
    observed.sample([PeriodUse("a", 0, 1000)], 20 * MAX_GAP_MS)
    assert observed.means() == ()
