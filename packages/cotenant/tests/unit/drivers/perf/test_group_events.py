from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.perf.group_events import GroupCycles, GroupEvents, scaled
from cotenant.drivers.perf.opening import CounterReading, PerfEvent
from cotenant.model.errors import Unsupported
from cotenant.model.machine.knob import Vanished


def test_counters_that_ran_all_the_time_are_not_scaled() -> None:
    assert scaled(CounterReading(100, 100, (10, 20)), CounterReading(300, 300, (15, 50))) == (5, 30)


def test_counters_that_ran_half_the_time_count_twice() -> None:
    assert scaled(CounterReading(100, 100, (10, 20)), CounterReading(300, 200, (15, 50))) == (10, 60)


def test_counters_that_did_not_run_are_unknown() -> None:
    assert scaled(CounterReading(100, 100, (10,)), CounterReading(300, 100, (10,))) is None


def test_a_missing_tree(tmp_path: Path) -> None:
    with pytest.raises(Vanished):
        GroupEvents(str(tmp_path / "none"), (PerfEvent.TASK_CLOCK,))
    with pytest.raises(Unsupported, match="a cgroup tree"):
        GroupCycles(str(tmp_path / "none"))
