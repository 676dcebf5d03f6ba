"""Which of a metric's windows answers for a statistic, over every choice of what is there."""

from __future__ import annotations

from itertools import product

from cotenant.model.machine.node_metric import Statistic, Use, UseWindow
from cotenant.policy.placement.load_aware.usage import pick

SECONDS = (300, 600, 1800)
LAST = Use(1, 1)


def test_the_window_that_is_asked_for_or_the_longest_that_knows() -> None:
    for known in product((None, Statistic.P95, Statistic.AVERAGE), repeat=3):
        windows = [
            UseWindow(seconds, {} if statistic is None else {statistic: Use(seconds, 2)})
            for seconds, statistic in zip(SECONDS, known, strict=True)
        ]
        having = [seconds for seconds, statistic in zip(SECONDS, known, strict=True) if statistic is Statistic.P95]
        for order in (windows, windows[::-1]):
            for asked in (*SECONDS, 60):
                expected = Use(asked, 2) if asked in having else None
                assert pick(order, Statistic.P95, asked, LAST) == expected
            assert pick(order, Statistic.P95, 0, LAST) == (Use(max(having), 2) if having else LAST)
    assert pick([], Statistic.P95, 0, None) is None
