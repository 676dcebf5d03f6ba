from __future__ import annotations

import numpy as np

from cotenant.engine.sizing.hourly import observed, rows
from cotenant.model.machine.node_metric import Use
from cotenant.model.sizes.right_sizing import MAX_HOURS, HourlyUse

MIB = 1 << 20
HOUR = 500_000


def at(hour: float) -> float:
    return (HOUR + hour) * 3600.0


def test_the_highest_of_each_hour_and_gaps() -> None:
    found = observed(HourlyUse(), [Use(100, 5 * MIB), Use(300, MIB)], at(0.25))
    found = observed(found, [Use(200, 9 * MIB - 1)], at(0.75))
    found = observed(found, [Use(50, MIB)], at(2.0))
    assert found == HourlyUse(HOUR, (300, -1, 50), (9, -1, 1), at(0.25))
    assert observed(found, [Use(999, MIB)], at(1.0)) == found  # late
    assert observed(found, [], at(5.0)) == found
    cpu, memory = rows(found)
    np.testing.assert_array_equal(cpu, [[300, np.nan, 50]])
    np.testing.assert_array_equal(memory, [[9, np.nan, 1]])


def test_it_is_bounded_and_begins_anew_after_a_long_gap() -> None:
    found = HourlyUse()
    for hour in range(MAX_HOURS + 10):
        found = observed(found, [Use(hour, MIB)], at(hour))
    assert (len(found.cpu_m), found.cpu_m[0], found.first_hour) == (MAX_HOURS, 10, HOUR + 10)
    later = observed(found, [Use(1, MIB)], at(3 * MAX_HOURS))
    assert (later.cpu_m, later.first_hour) == ((1,), HOUR + 3 * MAX_HOURS)
