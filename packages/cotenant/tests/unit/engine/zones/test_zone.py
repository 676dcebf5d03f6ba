from __future__ import annotations

import pytest

from cotenant.engine.zones.transitions import LEGAL
from cotenant.engine.zones.zone import Zone, ZoneLimits
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.zones.setting import FAIR, Backend, ZoneMode, ZoneSetting
from cotenant.model.zones.state import Attach, Detach, PutRows, Verify, ZoneState
from cotenant.model.zones.table import SchedulerExit, ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import GroupReading, ZoneReading
from cotenant.policy.zone.deciding import ZoneConfig

ROWS = {"web": ZoneRow(ZoneClass.SERVICE, late_us=5000), "batch": ZoneRow(ZoneClass.BATCH)}
THROUGHPUT, LATENCY, WEIGHTED = (
    ZoneSetting(Backend.ROOT, mode) for mode in (ZoneMode.THROUGHPUT, ZoneMode.LATENCY, ZoneMode.WEIGHTED)
)
WEIGHTS = ZoneSetting(Backend.WEIGHTS)
STALL = SchedulerExit(9, 1026, "runnable task stall", "spin[71] failed to run for 5.07s")


def reading(late: int, seconds: float = 5.0, batch_us: int = 0) -> ZoneReading:
    return ZoneReading(
        seconds,
        (GroupReading("web", ZoneClass.SERVICE, late), GroupReading("batch", ZoneClass.BATCH, cpu_us=batch_us)),
    )


def make(*ladder: ZoneSetting) -> Zone:
    return Zone(
        "shop", ROWS, ladder or (THROUGHPUT, WEIGHTS), config=ZoneConfig(late_per_s=2), limits=ZoneLimits(5, 15, 100)
    )


def settle(zone: Zone, now_s: float, late: int = 0) -> None:
    """Attach and verify what is being prepared, and keep it."""
    assert zone.attached(now_s) == (Verify(zone.setting),)
    zone.verified(now_s, True)
    zone.measured(now_s + 5, reading(late))
    zone.validate()


def active(*ladder: ZoneSetting) -> Zone:
    zone = make(*ladder)
    zone.start(0)
    settle(zone, 0)
    assert zone.state is ZoneState.ACTIVE
    return zone


def test_a_start_writes_rows_and_attaches_the_first_setting() -> None:
    zone = make()
    assert zone.start(0) == (PutRows(tuple(ROWS.items())), Attach(THROUGHPUT))
    with pytest.raises(Permanent, match="started already"):
        zone.start(1)


def test_late_dispatches_switch_and_the_history_has_what_it_brought() -> None:
    zone = active()
    assert zone.measured(20, reading(200)) == (Attach(LATENCY),)
    settle(zone, 20, late=1)
    assert zone.state is ZoneState.ACTIVE
    change = zone.history[-1]
    assert (change.kept, change.outcome) == (True, "kept: 40.00 late dispatches a second before, 0.20 after")


def test_no_change_within_the_dwell_time() -> None:
    zone = active()
    assert zone.measured(14, reading(200)) == ()
    assert zone.measured(15, reading(200)) == (Attach(LATENCY),)


def test_a_worse_setting_is_undone_and_not_tried_again_for_a_while() -> None:
    zone = active()
    zone.measured(20, reading(50))
    zone.attached(20)
    zone.verified(20, True)
    assert zone.measured(22, reading(90, 2)) == (), "the canary is not over"
    assert Attach(THROUGHPUT) in zone.measured(25, reading(90, 3))
    settle(zone, 25, late=50)
    assert zone.history[-2].kept is False
    assert LATENCY in zone.banned(30)
    assert zone.measured(60, reading(50)) == (), "the only setting that would help is banned"
    assert zone.measured(200, reading(50)) == (Attach(LATENCY),)


def test_rules_that_keep_parties_apart_are_not_given_up_for_speed() -> None:
    apart = ZoneSetting(Backend.ROOT, ZoneMode.APART)
    zone = make(apart)
    zone.start(0, before=reading(0, batch_us=4_000_000))
    zone.attached(0)
    zone.verified(0, True)
    assert zone.measured(5, reading(200, batch_us=1_000_000)) == ()
    assert (zone.state, zone.setting, zone.history[-1].kept) == (ZoneState.ACTIVE, apart, True)
    assert "not weighed against speed" in zone.history[-1].outcome


def test_worse_rows_are_restored() -> None:
    zone = active(WEIGHTED)
    (put,) = zone.measured(20, reading(50))
    assert isinstance(put, PutRows)
    assert zone.rows["web"].weight == 400
    assert zone.measured(25, reading(90)) == (PutRows((("web", ROWS["web"]),)),)
    assert zone.state is ZoneState.ACTIVE
    assert zone.rows == ROWS


def test_an_early_reading_changes_rows_and_is_not_compared_with() -> None:
    zone = active(WEIGHTED)
    assert zone.acts_on(15, 2.1)
    assert not zone.acts_on(14, 2.1)  # within the dwell time
    assert not zone.acts_on(15, 2.0)
    (put,) = zone.measured(20, reading(50), early=True)
    assert isinstance(put, PutRows)
    assert not zone.acts_on(40, 100.0)  # a change is on trial
    assert zone.measured(21, reading(90), early=True) == ()
    # the load rose: more late dispatches than when the first came are no reason to undo
    assert zone.measured(25, reading(90)) == ()
    assert zone.rows["web"].weight == 400
    assert zone.history[-1].kept
    assert "just become late" in zone.history[-1].outcome
    assert zone.history[-1].before == reading(50)


def test_a_switch_waits_for_a_whole_reading() -> None:
    zone = active()
    assert zone.measured(20, reading(200), early=True) == ()
    assert zone.measured(21, reading(200)) == (Attach(LATENCY),)


def test_an_attach_that_does_not_run_goes_down_the_ladder() -> None:
    zone = make()
    zone.start(0)
    zone.attached(0)
    assert Attach(WEIGHTS) in zone.verified(0, False, "state disabled")
    assert "does not run: state disabled" in zone.history[-2].outcome


def test_refused_everywhere_ends_at_the_fair_class_and_can_be_started_again() -> None:
    zone = make()
    zone.start(0)
    assert Attach(WEIGHTS) in zone.refused(0, "no BTF")
    assert zone.refused(0, "no cpu controller")[-1] == Detach()
    assert (zone.state, zone.setting) == (ZoneState.FAILED, FAIR)
    zone.validate()
    assert zone.start(50)[-1] == Detach(), "both are banned still"
    assert zone.start(500)[-1] == Attach(THROUGHPUT)


def test_an_ejection_is_explained_and_the_proven_setting_comes_back() -> None:
    zone = active(WEIGHTED, WEIGHTS)
    zone.request(20, LATENCY)
    settle(zone, 20)
    zone.request(40, THROUGHPUT)
    zone.attached(40)
    zone.verified(40, True)
    assert Attach(LATENCY) in zone.ejected(42, STALL)
    assert "spin[71] failed to run for 5.07s" in zone.history[-2].outcome
    assert zone.banned(42)[THROUGHPUT] == 100
    settle(zone, 42)
    assert Attach(WEIGHTED) in zone.ejected(50, STALL), "the proven one failed: back to the ladder"


def test_a_users_switch_lifts_a_ban_and_needs_a_zone_that_runs_something_else() -> None:
    zone = active()
    zone.measured(20, reading(50))
    zone.attached(20)
    zone.verified(20, True)
    zone.measured(22, reading(90, 2))
    zone.measured(25, reading(90, 3))
    settle(zone, 25, late=50)
    assert LATENCY in zone.banned(30)
    changes = len(zone.history)

    assert zone.request(31, THROUGHPUT) == (), "it runs already"
    assert (zone.state, len(zone.history)) == (ZoneState.ACTIVE, changes)
    assert LATENCY in zone.banned(31), "a ban of another setting stays"
    assert zone.request(31, LATENCY) == (Attach(LATENCY),)
    assert LATENCY not in zone.banned(31)
    with pytest.raises(Permanent, match="a switch needs an active one"):
        zone.request(32, THROUGHPUT)


def test_bans_double_with_each_ejection() -> None:
    zone = active(THROUGHPUT)
    lengths = []
    now = 10.0
    for _ in range(3):
        zone.ejected(now, STALL)
        assert zone.state is ZoneState.FAILED
        lengths.append(zone.banned(now)[THROUGHPUT])
        now += 1000
        zone.start(now)
        settle(zone, now)
    assert lengths == [100, 200, 400]


def test_an_exit_while_nothing_runs_changes_nothing() -> None:
    zone = make()
    assert zone.ejected(0, STALL) == ()
    assert active(WEIGHTS).ejected(20, STALL) == ()


def test_a_destroyed_zone_stays_gone() -> None:
    zone = active()
    assert zone.destroy() == (Detach(),)
    assert zone.destroy() == ()
    assert zone.measured(99, reading(500)) == ()
    with pytest.raises(Permanent):
        zone.request(99, LATENCY)


def test_every_state_but_the_first_can_be_reached_and_every_one_but_the_last_left() -> None:
    assert {after for _, after in LEGAL} == set(ZoneState) - {ZoneState.DEFINED}
    assert {before for before, _ in LEGAL} == set(ZoneState) - {ZoneState.GONE}


def test_a_ladder_out_of_order_or_empty_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ladder"):
        Zone("shop", ROWS, (WEIGHTS, THROUGHPUT))
    with pytest.raises(InvalidInput, match="ladder"):
        Zone("shop", ROWS, ())
    with pytest.raises(InvalidInput, match="one group"):
        Zone("shop", {}, (WEIGHTS,))
