"""A day of changing phases on one CPU: a zone that learns its scenes against every fixed scheduler.

The same engine as on a node (`engine/zones`) decides, on readings of `ZoneCpu`; the fixed ones run the same phases with
the same wake-ups. An outcome is what the policy calls one (`policy/zone/scenes.py`); the regret of a phase is what the
best fixed scheduler of that phase had more, summed over its readings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cotenant.engine.zones.zone import Zone, ZoneLimits
from cotenant.model.zones.setting import USUAL_MODES, Backend, ZoneMode, ZoneSetting
from cotenant.model.zones.state import Attach, PutRows, Verify, ZoneInstruction
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import ZoneReading
from cotenant.policy.zone.deciding import ZoneConfig
from cotenant.policy.zone.scenes import outcome_of
from cotenant_lab.plant.zone_schedulers import TaskSpec, ZoneCpu

_BATCH = (TaskSpec("batch", ZoneClass.BATCH), TaskSpec("batch", ZoneClass.BATCH))
_LIGHT = TaskSpec("web", ZoneClass.SERVICE, work_us=2_000, wakes_per_s=30.0, late_us=5_000)
_BULK = TaskSpec("bulk", ZoneClass.SERVICE, late_us=60_000)
_BUSY = TaskSpec("shop", ZoneClass.SERVICE, work_us=3_000, wakes_per_s=110.0, late_us=2_000)
PHASES: dict[str, tuple[TaskSpec, ...]] = {
    "a light service beside batch": (_LIGHT, *_BATCH),
    "a bulk service beside batch": (_BULK, *_BATCH),
    "batch alone": _BATCH,
    "a light service beside a bulk one": (_LIGHT, _BULK),
    "a busy service beside batch": (_BUSY, *_BATCH),
}
DAY = (*PHASES, "a light service beside batch", "batch alone", "a bulk service beside batch", *PHASES)
_PERIOD_US = 1_000_000


class MidDay(StrEnum):
    """What happens to the zone's process at the sixth phase."""

    NOTHING = "nothing"
    KEPT = "kept"  # it starts again, and what it learned is there
    LOST = "lost"  # it starts again, and learns anew


@dataclass(frozen=True, slots=True)
class PhaseOutcome:
    """One phase. `fixed`: mean outcome by scheduler; `learned`: the zone's; `settled`, `fixed_settled`: of the last
    half.
    """

    phase: str
    fixed: dict[ZoneMode, float]
    learned: float
    settled: float
    readings: int
    fixed_settled: dict[ZoneMode, float]

    @property
    def best(self) -> float:
        """Of the fixed ones."""
        return max(self.fixed.values())

    @property
    def regret(self) -> float:
        """Outcomes that the best fixed one had more, 0 where the zone had more."""
        return max(0.0, (self.best - self.learned) * self.readings)


def day(
    seed: int,
    readings: int = 120,
    phases: Iterable[str] = DAY,
    scenes: bool = True,
    mid_day: MidDay = MidDay.NOTHING,
) -> list[PhaseOutcome]:
    """Every phase with so many readings. `scenes` False: the zone follows its rules instead of what it learned."""
    names = tuple(phases)
    config = ZoneConfig(scenes=scenes, calm_s=5.0)
    fixed = {mode: _fixed(mode, names, readings, seed, config) for mode in USUAL_MODES}
    learned = _learned(names, readings, seed, config, mid_day)
    half = readings // 2
    return [
        PhaseOutcome(
            name,
            {mode: float(np.mean(outcomes[at])) for mode, outcomes in fixed.items()},
            float(np.mean(learned[at])),
            float(np.mean(learned[at][half:])),
            readings,
            {mode: float(np.mean(outcomes[at][half:])) for mode, outcomes in fixed.items()},
        )
        for at, name in enumerate(names)
    ]


def _fixed(mode: ZoneMode, names: tuple[str, ...], readings: int, seed: int, config: ZoneConfig) -> list[list[float]]:
    cpu, found = ZoneCpu((), mode, np.random.default_rng(seed)), []
    for name in names:
        cpu.replace(PHASES[name])
        found.append([outcome_of(cpu.run(_PERIOD_US), config.late_per_s) for _ in range(readings)])
    return found


def _zone(config: ZoneConfig) -> Zone:
    services = (_LIGHT, _BULK, _BUSY)
    rows = {spec.group: ZoneRow(ZoneClass.SERVICE, late_us=spec.late_us) for spec in services}
    rows["batch"] = ZoneRow(ZoneClass.BATCH)
    limits = ZoneLimits(canary_s=1.0, dwell_s=3.0, ban_s=10.0)
    return Zone("day", rows, (ZoneSetting(Backend.ROOT, ZoneMode.WEIGHTED),), USUAL_MODES, config, limits)


def _learned(
    names: tuple[str, ...], readings: int, seed: int, config: ZoneConfig, mid_day: MidDay
) -> list[list[float]]:
    zone = _zone(config)
    cpu, found, now_s = ZoneCpu((), ZoneMode.WEIGHTED, np.random.default_rng(seed)), [], 0.0
    _carry_out(zone, zone.start(now_s), now_s, cpu)
    for at, name in enumerate(names):
        cpu.replace(PHASES[name])
        if at == len(names) // 2 and mid_day is not MidDay.NOTHING:
            before, zone = zone, _zone(config)
            if mid_day is MidDay.KEPT and zone.scenes is not None and before.scenes is not None:
                zone.scenes.restore(before.scenes.table)
            _carry_out(zone, zone.start(now_s), now_s, cpu)
        outcomes = []
        for _ in range(readings):
            reading: ZoneReading = cpu.run(_PERIOD_US)
            now_s += reading.length_s
            outcomes.append(outcome_of(reading, config.late_per_s))
            _carry_out(zone, zone.measured(now_s, reading), now_s, cpu)
        found.append(outcomes)
    return found


def _carry_out(zone: Zone, instructions: tuple[ZoneInstruction, ...], now_s: float, cpu: ZoneCpu) -> None:
    """Every setting attaches, and rows are in force at once."""
    waiting = list(instructions)
    while waiting:
        instruction = waiting.pop(0)
        if isinstance(instruction, Attach):
            assert instruction.setting.mode is not None
            cpu.mode = instruction.setting.mode
            waiting += zone.attached(now_s)
        elif isinstance(instruction, PutRows):
            cpu.rows = {**cpu.rows, **dict(instruction.rows)}
        elif isinstance(instruction, Verify):
            waiting += zone.verified(now_s, True)


def table(phases: Iterable[PhaseOutcome]) -> list[str]:
    """One line a phase, the fixed schedulers beside the zone."""
    modes = sorted(USUAL_MODES)
    lines = [
        f"{'phase':36}" + "".join(f"{mode.value:>12}" for mode in modes) + f"{'zone':>9}{'settled':>9}{'regret':>9}"
    ]
    for phase in phases:
        fixed = "".join(f"{phase.fixed[mode]:12.3f}" for mode in modes)
        lines.append(f"{phase.phase:36}{fixed}{phase.learned:9.3f}{phase.settled:9.3f}{phase.regret:9.1f}")
    return lines
