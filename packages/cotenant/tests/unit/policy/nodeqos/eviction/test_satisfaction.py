"""CPU satisfaction where the limit is 0 or unknown. Upstream's figures: tests/conformance."""

from __future__ import annotations

import pytest

from cotenant.policy.nodeqos.eviction.satisfaction import Satisfaction, SatisfactionOf, SatisfactionTrigger, release


@pytest.mark.parametrize(
    ("against", "limit_m", "released_m"),
    [
        (SatisfactionOf.ALLOCATABLE, 0, 19_999),  # services use everything: satisfaction is about 0
        (SatisfactionOf.ALLOCATABLE, -1, 0),  # not known
        (SatisfactionOf.REAL_LIMIT, 0, 0),  # not known
        (SatisfactionOf.ALLOCATABLE, 10_000, 10_000),
    ],
)
def test_what_is_released(against: SatisfactionOf, limit_m: int, released_m: int) -> None:
    trigger = SatisfactionTrigger(30, 40, measured_against=against)
    seen = Satisfaction(9_500, 50_000, limit_m)
    assert release(trigger, seen, seen).cpu_m == released_m
