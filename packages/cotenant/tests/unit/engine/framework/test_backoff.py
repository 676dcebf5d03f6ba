"""How long a failed operation waits before it is tried again."""

from __future__ import annotations

import pytest

from cotenant.engine.framework.backoff import Backoff
from cotenant.model.errors import InvalidInput


def test_each_failure_doubles_the_rest_up_to_the_most() -> None:
    backoff = Backoff(1.5, 20.0)
    assert [backoff.rest_s(failures) for failures in range(-1, 7)] == [0.0, 0.0, 1.5, 3.0, 6.0, 12.0, 20.0, 20.0]
    assert Backoff().rest_s(1) == 1.0
    assert [Backoff().rest_s(failures) for failures in (4, 5, 100_000)] == [8.0, 10.0, 10.0]


def test_the_doubling_goes_on_for_as_long_as_the_most_allows() -> None:
    backoff = Backoff(1.0, 1e300)
    assert [backoff.rest_s(failures) for failures in (60, 61, 62, 5000)] == [2.0**59, 2.0**60, 2.0**60, 2.0**60]


def test_times_that_make_no_sense_are_refused() -> None:
    assert Backoff(5.0, 5.0).rest_s(9) == 5.0
    for first_s, max_s in ((0.0, 1.0), (-1.0, 1.0), (2.0, 1.9), (float("nan"), 1.0)):
        with pytest.raises(InvalidInput, match="seconds above 0"):
            Backoff(first_s, max_s)
