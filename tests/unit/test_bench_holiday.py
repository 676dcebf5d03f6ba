"""Sizes after a week at half use, of made workloads: the figures that the guide states, on fewer of them."""

from __future__ import annotations

import pytest
from bench.holiday import OFF_DAYS, office, rows_of

pytestmark = pytest.mark.slow


def test_the_week_after_a_holiday_is_not_squeezed_twice_as_much() -> None:
    rows = {(row["off"], row["rule"]): row for row in rows_of("office", office(60))}
    assert rows[0, "ours"]["over_pct"] < 1.3  # at a stated risk of one percent
    assert rows[7, "ours"]["over_pct"] < 1.6
    assert all(rows[off, "ours"]["over_pct"] < rows[off, "last-day peak"]["over_pct"] / 10 for off in OFF_DAYS)
