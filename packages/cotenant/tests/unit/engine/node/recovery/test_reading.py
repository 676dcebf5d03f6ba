"""The level of a service's trouble over a time, as it is compared before, during and after an action."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.engine.node.recovery.incident import TroubleReading
from cotenant.engine.node.recovery.ladder import _reading
from cotenant.policy.interference.attribution.settings import EvidenceSignal

LATENCY, WAITS = (
    EvidenceSignal.LATENCY,
    next(signal for signal in EvidenceSignal if signal not in (EvidenceSignal.LATENCY, EvidenceSignal.SELF_TIME)),
)


def sample(
    at_us: int, level: int, burn: int | None = None, signal: EvidenceSignal = LATENCY, age: int = 0, window: int = 0
) -> Any:
    service = SimpleNamespace(levels={signal: level}, burn_milli=burn, age_us=age, window_us=window)
    return SimpleNamespace(at_us=at_us, length_us=10), service


def read(
    *samples: Any,
    from_us: int = 0,
    whole: bool = True,
    attributed: EvidenceSignal | None = LATENCY,
    deciding: EvidenceSignal | None = None,
    since_us: int = 0,
) -> TroubleReading | None:
    """Of an incident above 100."""
    found = None if attributed is None else SimpleNamespace(signal=attributed, since_us=since_us)
    incident = SimpleNamespace(attribution=found, victim="v", threshold_ppm=100)
    history = SimpleNamespace(of=lambda victim: samples, deciding=lambda victim, settings: deciding)
    facts = SimpleNamespace(history=history, settings=SimpleNamespace(attribution=None))
    return _reading(cast(Any, incident), cast(Any, facts), from_us, whole)


def test_before_an_action_only_samples_in_trouble_count() -> None:
    assert read(sample(1, 100), sample(2, 101), sample(3, 300)) == TroubleReading(200, None, 2)
    assert read(sample(1, 100)) is None
    assert read() is None


def test_where_the_cause_was_found_in_the_end_of_a_trouble_its_beginning_does_not_count() -> None:
    long_ago, now = sample(1, 900, 90), (sample(2, 200, 2), sample(3, 300, 4))
    assert read(long_ago, *now, since_us=2) == TroubleReading(250, 3, 2)
    assert read(long_ago, *now) == TroubleReading(466, 32, 3)


def test_the_budget_burns_at_the_mean_of_the_samples_that_say_it() -> None:
    assert read(sample(1, 200, 3), sample(2, 200), sample(3, 200, 6)) == TroubleReading(200, 4, 3)
    assert read(sample(1, 200, 0)) == TroubleReading(200, 0, 1)


def test_the_signal_is_the_one_of_the_attribution_else_the_deciding_one() -> None:
    both = (sample(1, 200), sample(2, 400, signal=WAITS))
    assert read(*both) == TroubleReading(200, None, 1)
    assert read(*both, attributed=None, deciding=WAITS) == TroubleReading(400, None, 1)
    assert read(*both, attributed=None) is None


@pytest.mark.parametrize(
    ("at_us", "age", "window", "signal", "whole", "counts"),
    [
        (60, 0, 0, LATENCY, True, True),  # measured from 50, by the sample's length of 10
        (59, 0, 0, LATENCY, True, False),
        (80, 10, 20, LATENCY, True, True),  # a latency of a window that ended before
        (79, 10, 20, LATENCY, True, False),
        (80, 10, 20, EvidenceSignal.SELF_TIME, True, True),
        (79, 10, 20, EvidenceSignal.SELF_TIME, True, False),
        (60, 10, 20, WAITS, True, True),  # counters have no window of their own
        (51, 10, 20, LATENCY, False, True),  # by its end alone
        (50, 10, 20, LATENCY, False, False),
    ],
)
def test_after_an_action_samples_that_lie_behind_it_count_whatever_their_level(
    at_us: int, age: int, window: int, signal: EvidenceSignal, whole: bool, counts: bool
) -> None:
    found = read(sample(at_us, 7, None, signal, age, window), from_us=50, whole=whole, attributed=signal)
    assert found == (TroubleReading(7, None, 1) if counts else None)
