"""A CPU under a zone's schedulers: nothing is lost, and waits are what the rules of each scheduler say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.model.zones.setting import USUAL_MODES, ZoneMode
from cotenant.model.zones.table import ZoneClass
from cotenant.model.zones.zone_reading import GroupReading
from cotenant_lab.plant.zone_schedulers import STARVED_US, TaskSpec, ZoneCpu

HOG = TaskSpec("batch", ZoneClass.BATCH)
BULK = TaskSpec("bulk", ZoneClass.SERVICE)


def groups(specs: tuple[TaskSpec, ...], mode: ZoneMode, seconds: int = 2) -> dict[str, GroupReading]:
    cpu = ZoneCpu(specs, mode, np.random.default_rng(1))
    return {group.group: group for group in cpu.run(seconds * 1_000_000).groups}


@given(
    st.lists(
        st.builds(TaskSpec, st.just("s"), st.just(ZoneClass.SERVICE), st.integers(100, 9000), st.floats(1, 60)),
        max_size=3,
    ),
    st.integers(0, 2),
    st.sampled_from(USUAL_MODES),
)
def test_no_time_is_lost_and_none_is_made(services: list[TaskSpec], hogs: int, mode: ZoneMode) -> None:
    found = groups((*services, *([HOG] * hogs)), mode, 1)
    used = sum(group.cpu_us for group in found.values())
    assert used == 1_000_000 if hogs else used <= 1_000_000
    if services and not hogs:
        asked = sum(spec.work_us * spec.wakes_per_s for spec in services)
        assert used <= 1_000_000 if asked > 500_000 else used > 0 or asked < 3 * 9000


@pytest.mark.parametrize(
    ("mode", "worst_us", "never_us"),
    [(ZoneMode.LATENCY, 10_000, 10_000), (ZoneMode.THROUGHPUT, 60_000, 20_000), (ZoneMode.WEIGHTED, 12_000, 0)],
)
def test_a_wake_up_waits_as_its_scheduler_says(mode: ZoneMode, worst_us: int, never_us: int) -> None:
    light = TaskSpec("web", ZoneClass.SERVICE, work_us=500, wakes_per_s=20.0, late_us=1)
    web = groups((light, HOG, HOG), mode, 10)["web"]
    assert web.worst_us <= worst_us
    if mode is ZoneMode.THROUGHPUT:
        assert web.worst_us > never_us
    if mode is ZoneMode.LATENCY:  # it preempts at once, but for its own earlier pieces
        assert web.late == 0


def test_batch_that_a_service_starves_gets_a_turn_a_second_under_latency_only() -> None:
    starved = groups((BULK, HOG), ZoneMode.LATENCY, 10)
    assert starved["batch"].cpu_us == pytest.approx(10 * 4000, abs=4000)
    assert STARVED_US == 1_000_000
    for mode in (ZoneMode.WEIGHTED, ZoneMode.THROUGHPUT):
        shared = groups((BULK, HOG), mode, 10)
        assert shared["batch"].cpu_us == pytest.approx(shared["bulk"].cpu_us, rel=0.01)


def test_groups_share_by_weight_and_who_joins_late_is_served() -> None:
    """Two batch tasks beside one service have half of the CPU, and a service that comes after an hour of batch runs."""
    halves = groups((BULK, HOG, HOG), ZoneMode.WEIGHTED, 4)
    assert halves["bulk"].cpu_us == pytest.approx(2_000_000, rel=0.01)
    light = TaskSpec("web", ZoneClass.SERVICE, work_us=2_000, wakes_per_s=30.0, late_us=5_000)
    cpu = ZoneCpu((HOG, HOG), ZoneMode.WEIGHTED, np.random.default_rng(1))
    cpu.run(10_000_000)
    cpu.replace((light, HOG, HOG))
    web = {group.group: group for group in cpu.run(2_000_000).groups}["web"]
    assert web.cpu_us > 60_000
    assert web.late == 0


def test_an_attached_scheduler_starts_with_no_virtual_time() -> None:
    light = TaskSpec("web", ZoneClass.SERVICE, work_us=2_000, wakes_per_s=30.0, late_us=5_000)
    cpu = ZoneCpu((light, HOG, HOG), ZoneMode.THROUGHPUT, np.random.default_rng(1))
    cpu.run(2_000_000)
    for mode in (ZoneMode.WEIGHTED, ZoneMode.LATENCY, ZoneMode.WEIGHTED):
        cpu.mode = mode
        found = {group.group: group for group in cpu.run(1_000_000).groups}
        assert found["web"].cpu_us > 20_000
        assert found["web"].cpu_us + found["batch"].cpu_us == 1_000_000
