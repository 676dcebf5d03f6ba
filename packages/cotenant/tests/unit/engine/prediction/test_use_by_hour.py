"""Series by name: when an hour is over, what is stored, and that a replay ends where the first run did."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.engine.prediction.use_by_hour import FORGET_H, HOUR_S, UseByHour
from cotenant.model.prediction.hour import HourOfUse

BEGIN_H = 480_000


def _measured(
    use: UseByHour, hours: int, names: tuple[str, ...] = ("a", "b"), begin_h: int = BEGIN_H
) -> list[HourOfUse]:
    stored: list[HourOfUse] = []
    for hour in range(begin_h, begin_h + hours):
        for minute in (0, 20, 40):
            for name in names:
                share = 0.4 + 0.2 * np.sin(hour / 24 * 2 * np.pi) + 0.01 * (minute + ord(name[0]) + hour % 7) / 20
                stored += use.measured(name, "kind", float(share), hour * HOUR_S + 60 * minute)
    return stored


def test_an_hour_is_stored_with_its_highest_and_last_use_when_the_next_begins() -> None:
    use = UseByHour()
    for minute, share in ((0, 0.2), (20, 0.6), (40, 0.3)):
        assert use.measured("a", "k", share, BEGIN_H * HOUR_S + 60 * minute) == ()
    (stored,) = use.measured("a", "k", 0.1, (BEGIN_H + 1) * HOUR_S)
    assert (stored.hour, stored.series, stored.kinds) == (BEGIN_H, ("a",), ("k",))
    assert (stored.peak.tolist(), stored.last.tolist()) == ([0.6], [0.3])


def test_a_replay_of_what_was_stored_answers_as_before() -> None:
    first = UseByHour()
    stored = _measured(first, 5 * 24)
    stored += first.until((BEGIN_H + 5 * 24) * HOUR_S)
    second = UseByHour()
    assert second.replay(stored) == 5 * 24
    at_s = (BEGIN_H + 5 * 24 + 0.5) * HOUR_S
    for horizon in (1, 4, 24):
        said = first.below("a", horizon, 0.01, 0.5, at_s)
        assert said is not None
        assert second.below("a", horizon, 0.01, 0.5, at_s) == pytest.approx(said)


def test_a_clock_that_goes_back_or_far_ahead_breaks_nothing() -> None:
    use = UseByHour()
    _measured(use, 48)
    assert use.measured("a", "kind", 0.5, (BEGIN_H + 3) * HOUR_S) == ()
    assert use.late == 1
    use.measured("a", "kind", 0.5, (BEGIN_H + 5000) * HOUR_S)
    assert use.hours_known == BEGIN_H + 4999
    assert "b" not in use.names()  # not measured for longer than FORGET_H
    assert FORGET_H < 5000


def test_what_cannot_be_is_not_learned() -> None:
    use = UseByHour()
    for share in (float("nan"), float("inf"), -0.1):
        use.measured("a", "k", share, BEGIN_H * HOUR_S)
    assert len(use) == 0
    assert use.below("a", 1, 0.01, 0.5, BEGIN_H * HOUR_S) is None


def test_a_risk_is_rounded_down_and_a_stay_up() -> None:
    use = UseByHour()
    _measured(use, 6 * 24)
    at_s = (BEGIN_H + 6 * 24 - 0.25) * HOUR_S
    assert use.below("a", 3, 0.015, 0.5, at_s) == use.below("a", 4, 0.01, 0.5, at_s)
    assert use.below("a", 400, 0.01, 0.5, at_s) == use.below("a", 24, 0.01, 0.5, at_s)
    judged, exceeded = use.kept(1, 0.05)
    assert judged > 100
    assert exceeded < judged


def test_series_that_come_later_keep_their_own_rows() -> None:
    use = UseByHour()
    _measured(use, 72)
    _measured(use, 72, "abc", BEGIN_H + 72)
    at_s = (BEGIN_H + 144 - 0.1) * HOUR_S
    told = {name: use.below(name, 1, 0.05, 0.4, at_s) for name in "abc"}
    assert None not in told.values()
