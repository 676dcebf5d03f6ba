"""A zone that learns: what a trial brings is of the scene it began in, and hurts there only."""

from __future__ import annotations

import pytest

from cotenant.engine.zones.scene_memory import SceneMemory
from cotenant.engine.zones.zone import Zone, ZoneLimits
from cotenant.model.zones.setting import USUAL_MODES, Backend, ZoneMode, ZoneSetting
from cotenant.model.zones.state import Attach
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import GroupReading, MachineSigns, ZoneReading
from cotenant.policy.zone.deciding import ZoneConfig
from cotenant.policy.zone.scenes import SceneTable, ServiceUseBand, ZoneScene

ROWS = {"web": ZoneRow(ZoneClass.SERVICE, late_us=5000), "batch": ZoneRow(ZoneClass.BATCH)}
HEAVY = ZoneScene(ServiceUseBand.HEAVY, True, late_us=5000)
THROUGHPUT, LATENCY, WEIGHTED = (
    ZoneSetting(Backend.ROOT, mode) for mode in (ZoneMode.THROUGHPUT, ZoneMode.LATENCY, ZoneMode.WEIGHTED)
)


def reading(late: int, web: float = 0.4) -> ZoneReading:
    """A second of one CPU that is busy."""
    groups = (
        GroupReading("web", ZoneClass.SERVICE, late, cpu_us=round(web * 1e6)),
        GroupReading("batch", ZoneClass.BATCH, cpu_us=round((1 - web) * 1e6)),
    )
    return ZoneReading(1.0, groups, MachineSigns(1))


class Played:
    """A zone whose readings are what `brings` says of the mode that runs: late dispatches, CPUs of the service."""

    def __init__(self, brings: dict[ZoneMode, tuple[int, float]], canary_s: float = 5.0) -> None:
        config, limits = ZoneConfig(scenes=True), ZoneLimits(canary_s, 1.0, 300.0)
        self.zone = Zone("shop", ROWS, (WEIGHTED,), USUAL_MODES, config, limits)
        self.brings, self.now_s, self.ran = brings, 0.0, list[ZoneMode]()
        self._done(self.zone.start(0.0))

    def _done(self, instructions: tuple[object, ...]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Attach):
                self.zone.attached(self.now_s)
                self.zone.verified(self.now_s, True)

    def play(self, seconds: int) -> list[ZoneMode]:
        """So many readings; the mode of each."""
        ran = []
        for _ in range(seconds):
            mode = self.zone.setting.mode
            assert mode is not None
            ran.append(mode)
            self.now_s += 1.0
            self._done(self.zone.measured(self.now_s, reading(*self.brings[mode])))
            self.zone.validate()
        return ran

    @property
    def table(self) -> SceneTable:
        assert self.zone.scenes is not None
        return self.zone.scenes.table


BUSY = {ZoneMode.WEIGHTED: (10, 0.4), ZoneMode.LATENCY: (0, 0.4), ZoneMode.THROUGHPUT: (90, 0.1)}


def test_the_best_mode_runs_after_short_trials() -> None:
    played = Played(BUSY)
    ran = played.play(120)
    assert set(ran[60:]) == {ZoneMode.LATENCY}
    # the canary is 5 s, and a mode that is clearly worse is gone after two: one in which it came, one that counts
    assert ran.count(ZoneMode.THROUGHPUT) == 2
    undone = [change for change in played.zone.history if change.kept is False]
    assert [change.what for change in undone] == ["setting root/throughput"]
    assert undone[0].outcome.startswith("clearly worse: 0.")


def test_what_a_mode_takes_from_a_service_does_not_hide_the_scene() -> None:
    """Under throughput the service gets so little that it looks light: its outcome is of the heavy scene."""
    played = Played(BUSY)
    played.play(120)
    assert set(played.table.scenes) == {HEAVY}
    assert played.table.of(HEAVY)[ZoneMode.THROUGHPUT].mean < 0.3


def test_a_trial_that_is_over_before_a_reading_counts_is_known_all_the_same() -> None:
    played = Played({**BUSY, ZoneMode.THROUGHPUT: (90, 0.4)}, canary_s=1.0)
    ran = played.play(200)
    assert ran.count(ZoneMode.THROUGHPUT) <= 2  # without it, again whenever the ban ends
    assert played.table.of(HEAVY)[ZoneMode.THROUGHPUT].number >= 1


def test_what_hurt_in_one_scene_may_run_in_another() -> None:
    played = Played(BUSY)
    played.play(60)
    assert THROUGHPUT in played.zone.banned(played.now_s)
    played.brings = dict.fromkeys(ZoneMode, (0, 0.0))  # the service is gone
    played.play(3)
    assert THROUGHPUT not in played.zone.banned(played.now_s)
    played.brings = BUSY
    played.play(3)
    assert THROUGHPUT in played.zone.banned(played.now_s)


def test_the_scheduler_of_the_scene_comes_before_rows() -> None:
    """Rows of a mode that is not the one to run would be tried for nothing, while services are late."""
    played = Played({**BUSY, ZoneMode.WEIGHTED: (90, 0.4)})
    played.play(5)
    ran = played.play(8)
    assert ZoneMode.LATENCY in ran
    assert not any(change.what.startswith("rows") for change in played.zone.history)


@pytest.mark.parametrize(("late", "switches"), [(90, True), (0, False)])
def test_a_known_scene_with_late_services_is_acted_on_at_once(late: int, switches: bool) -> None:
    memory = SceneMemory(2.0, 1.0)
    for mode, outcome in ((ZoneMode.LATENCY, 0.9), (ZoneMode.THROUGHPUT, 0.2)):
        for _ in range(9):
            memory.table = memory.table.learned(HEAVY, mode, outcome, 0.01)
    for _ in range(3):
        memory.seen(reading(0, 0.0), THROUGHPUT, ROWS)
    memory.seen(reading(late), THROUGHPUT, ROWS)
    assert (memory.wish(THROUGHPUT, USUAL_MODES) is not None) is switches
    memory.seen(reading(0), THROUGHPUT, ROWS)  # the second one in a row
    wish = memory.wish(THROUGHPUT, USUAL_MODES)
    assert wish is not None
    assert wish.setting == LATENCY
