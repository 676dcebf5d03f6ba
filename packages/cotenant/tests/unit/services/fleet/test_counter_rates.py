"""Rates of counters: over the time between two readings, nothing at first and after a reset."""

from __future__ import annotations

from random import Random

import pytest

from cotenant.services.fleet.functions.meter import CounterRates


def test_a_rate_is_of_the_time_between_two_readings() -> None:
    rates = CounterRates()
    assert rates.per_s("g", "sent", 100, 10.0) == 0.0
    assert rates.per_s("g", "sent", 700, 12.0) == 300.0
    assert rates.per_s("g", "sent", 700, 13.0) == 0.0
    assert rates.per_s("g", "sent", 600, 14.0) == 0.0  # it began anew
    assert rates.per_s("g", "sent", 650, 14.5) == 100.0
    assert rates.per_s("g", "sent", 900, 14.5) == 0.0  # no time has gone by
    assert rates.per_s("g", "sent", 1000, 15.5) == 100.0
    assert rates.per_s("g", "sent", None, 16.0) is None
    assert rates.last("g", "sent") == 100.0
    assert rates.per_s("g", "sent", 1300, 18.5) == 100.0  # since the last value
    assert rates.last("g", "read") is None


@pytest.mark.parametrize("seed", range(5))
def test_counters_of_others_do_not_matter_and_those_that_are_gone_are_forgotten(seed: int) -> None:
    random, rates = Random(seed), CounterRates()
    series: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for now_s in range(1, 200):
        if random.random() < 0.1:
            kept = {guid for guid in "abc" if random.random() < 0.5}
            rates.keep(kept)
            series = {key: values for key, values in series.items() if key[0] in kept}
        key = random.choice("abc"), random.choice(["sent", "read"])
        value = random.randrange(1000)
        values = series.setdefault(key, [])
        right = 0.0
        if values and value >= values[-1][1]:
            right = (value - values[-1][1]) / (now_s - values[-1][0])
        values.append((now_s, value))
        assert rates.per_s(*key, value, now_s) == pytest.approx(right)
        assert rates.last(*key) == pytest.approx(right)
        assert all(
            (rates.last(guid, name) is None) == ((guid, name) not in series) for guid in "abc" for name in ("sent",)
        )
