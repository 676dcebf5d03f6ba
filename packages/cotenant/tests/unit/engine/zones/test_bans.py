"""Bans: longer each time, of a scene or of all, and kept over a restart while they are young."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cotenant.engine.zones.bans import AGE_S, MOST_BANS, MOST_FACTOR, Bans
from cotenant.model.zones.setting import Backend, ZoneMode, ZoneSetting
from cotenant.policy.zone.scenes import ServiceUseBand, ZoneScene

LATENCY = ZoneSetting(Backend.ROOT, ZoneMode.LATENCY)
LIGHT, HEAVY = (ZoneScene(band, True) for band in (ServiceUseBand.LIGHT, ServiceUseBand.HEAVY))


def test_each_is_twice_as_long_until_it_is_old() -> None:
    bans = Bans(10.0)
    assert [bans.add(0.0, LATENCY, None) for _ in range(9)] == [10, 20, 40, 80, 160, 320, 640, 640, 640]
    assert bans.add(AGE_S + 1, LATENCY, None) == 10.0


def test_one_of_a_scene_counts_there_and_one_of_none_everywhere() -> None:
    bans = Bans(10.0)
    bans.add(0.0, LATENCY, LIGHT)
    assert bans.left_s(4.0, LIGHT) == {LATENCY: 6.0}
    assert bans.left_s(4.0, HEAVY) == bans.left_s(10.0, LIGHT) == {}
    bans.add(1.0, LATENCY, None)
    assert bans.left_s(4.0, HEAVY) == bans.left_s(4.0, LIGHT) == {LATENCY: 7.0}
    bans.lift(LATENCY)
    assert bans.left_s(4.0, LIGHT) == {}


@given(st.floats(0, 500), st.floats(-1e6, 1e6), st.floats(0, 1e9))
def test_a_restart_goes_on_with_what_is_left(waited_s: float, clock_step_s: float, wall_s: float) -> None:
    before = Bans(100.0)
    before.add(1000.0, LATENCY, LIGHT)
    kept = before.stored(1000.0, wall_s)
    after = Bans(100.0)
    assert after.restore(5.0 + clock_step_s, wall_s + waited_s, kept) == 1
    left = after.left_s(5.0 + clock_step_s, LIGHT).get(LATENCY, 0.0)
    assert abs(left - max(0.0, 100.0 - waited_s)) < 1e-3
    assert after.add(5.0 + clock_step_s, LATENCY, LIGHT) == 200.0  # how often it failed is known


def test_old_ones_refused_ones_and_those_beyond_the_bound_are_not_kept() -> None:
    bans = Bans(10.0)
    bans.add(0.0, LATENCY, None, is_kept=False)
    assert bans.stored(1.0, 1.0) == ()
    for late_us in range(2 * MOST_BANS):
        bans.add(5.0, LATENCY, ZoneScene(ServiceUseBand.LIGHT, True, late_us=late_us))
    kept = bans.stored(6.0, 6.0)
    assert len(kept) == MOST_BANS
    assert Bans(10.0).restore(0.0, 6.0 + AGE_S, kept) == 0
    assert Bans(10.0).restore(0.0, 6.0, kept) == MOST_BANS


def test_a_wall_clock_that_was_set_back_makes_none_longer() -> None:
    before, after = Bans(10.0), Bans(10.0)
    before.add(0.0, LATENCY, None)
    after.restore(0.0, 1000.0, before.stored(0.0, 5000.0))
    assert after.left_s(0.0, None) == {LATENCY: 10.0}
    assert MOST_FACTOR == 64
