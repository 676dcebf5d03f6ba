"""The agent's engine on the plant: the trials of the experiments on real cgroups, with their pass criteria."""

from __future__ import annotations

import pytest

from cotenant_lab.plant.scenarios import PlantArm, sine, step

pytestmark = pytest.mark.slow


def test_a_sine_beside_hogs_is_flattened_unregulated_and_restored_regulated() -> None:
    alone, unregulated, regulated = (sine(arm) for arm in PlantArm)
    assert alone.correlation >= 0.95
    assert unregulated.correlation <= 0.6
    assert unregulated.delivered_share < 0.5
    assert regulated.correlation >= 0.9
    assert regulated.delivered_share >= 0.99
    assert regulated.hog_share_of_idle is not None
    assert regulated.hog_share_of_idle >= 0.7
    assert sine(PlantArm.REGULATED) == regulated


def test_the_idle_class_keeps_a_service_s_latency_and_the_hogs_still_work() -> None:
    alone, unregulated, regulated = (step(arm) for arm in PlantArm)
    assert unregulated.p99_after_us >= 2.5 * alone.p99_after_us
    assert regulated.p99_after_us <= 1.1 * alone.p99_after_us
    assert regulated.hog_cpu_share >= 0.5 * unregulated.hog_cpu_share


@pytest.mark.parametrize(("trigger", "limit_us"), [(False, 2_000_000), (True, 500_000)])
def test_without_the_idle_class_the_guard_cuts_within_its_time(trigger: bool, limit_us: int) -> None:
    alone, guarded = step(PlantArm.ALONE), step(PlantArm.REGULATED, idle=False, trigger=trigger)
    assert guarded.action_after_us is not None
    assert guarded.action_after_us <= limit_us
    assert guarded.p99_after_us <= 1.5 * alone.p99_after_us
    assert guarded.drive is not None
    guarded.drive.engine.validate()
