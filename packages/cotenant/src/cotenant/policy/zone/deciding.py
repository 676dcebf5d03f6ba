"""Decisions of a zone: rows first, a switch second, each with its reason.

Late dispatches of services ask for a scheduler that serves them first, batch that nobody waits for asks for long
slices, and each switch puts all tasks under the fair class for some milliseconds. A service is *pressed* while its late
dispatches exceed `late_per_s` or its objective burns faster than `burn`. Then rows are changed while the running
scheduler obeys them (weights under `weighted`, shorter slices of batch under `latency`), and the zone switches to
latency once rows are used up, from there to siblings and to exclusive where its author allows that. After `calm_s`
without pressure it goes back: rows first, then throughput if batch runs. Pressure ends below half of both limits, so
that a load at the limit changes nothing.
Limits: it never leaves the back end; it knows of the past only what is in `Memory`; under `throughput` and the weights
back end rows change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.zones.setting import Backend, ZoneMode, ZoneSetting
from cotenant.model.zones.table import HEAVIEST, ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import ChangeRows, Decision, Stay, SwitchTo, ZoneReading
from cotenant.policy.zone.protecting import protected
from cotenant.policy.zone.reclaiming import taken_from_batch

_RELIEF = (ZoneMode.LATENCY, ZoneMode.SIBLINGS, ZoneMode.EXCLUSIVE)  # what a pressed zone switches to, in this order
_BRINGS = {
    ZoneMode.LATENCY: "services first",
    ZoneMode.SIBLINGS: "cores without batch while services run",
    ZoneMode.EXCLUSIVE: "CPUs of services' own",
}
_USUAL_WEIGHT = 100
_STEP = 4  # of a weight, up or down
_SHORTEST_US = 1000
_LONGEST_US = 10_000


@dataclass(frozen=True, slots=True)
class ZoneConfig:
    """Limits of a zone's switch policy. Rates a second; `batch_cpus`: batch that uses less is not worth a switch to
    throughput; `scenes`: the scheduler is what was measured best in the scene (policy/zone/scenes.py); `stall`: a
    service that waits for memory or disk for a larger share of the time is pressed.
    """

    late_per_s: float = 2.0
    burn: float = 1.0
    calm_s: float = 30.0
    batch_cpus: float = 0.2
    heaviest: int = 1600  # the row weight that services are raised to
    scenes: bool = False
    stall: float = 0.1

    def __post_init__(self) -> None:
        for name, value, least in (
            ("late_per_s", self.late_per_s, 0.0),
            ("burn", self.burn, 0.0),
            ("calm_s", self.calm_s, 0.0),
            ("batch_cpus", self.batch_cpus, -1.0),
            ("stall", self.stall, 0.0),
        ):
            if not least < value < inf:  # refuses NaN, too
                raise InvalidInput(f"zone policy: {name}", value, f"more than {max(least, 0):g}")
        if not _USUAL_WEIGHT <= self.heaviest <= HEAVIEST:
            raise InvalidInput("zone policy: heaviest", self.heaviest, f"{_USUAL_WEIGHT} to {HEAVIEST}")


@dataclass(frozen=True, slots=True)
class Memory:
    """What a decision needs of earlier ones. `calm_s`: how long no service has been pressed."""

    pressed: bool = False
    calm_s: float = 0.0


def decide(
    reading: ZoneReading,
    setting: ZoneSetting,
    rows: dict[str, ZoneRow],
    usual: dict[str, ZoneRow],
    modes: tuple[ZoneMode, ...],
    config: ZoneConfig,
    memory: Memory,
    *,
    reclaims: bool = True,
) -> tuple[Decision, Memory]:
    """The decision on one reading. `rows`: those in force, `usual`: those of the zone's definition, by group;
    `modes`: the schedulers that may run; `reclaims`: whether batch's memory may be reclaimed now.
    """
    limit = 0.5 if memory.pressed else 1.0
    burn = reading.burn or 0.0
    stall = reading.stall or 0.0
    waits = stall > config.stall * limit
    pressed = reading.late_per_s > config.late_per_s * limit or burn > config.burn * limit or waits
    memory = Memory(pressed, 0.0 if pressed else memory.calm_s + reading.length_s)
    terms = (
        DecisionTerm("late dispatches", round(reading.late_per_s * 1000), "1/1000 s"),
        DecisionTerm("burn", round(burn * 1000), "1/1000"),
        DecisionTerm("batch", round(reading.batch_cpus * 1000), "mCPU"),
    )
    if pressed:
        protection = protected(reading, rows, config.stall)
        if protection is None and reclaims:
            protection = taken_from_batch(reading, rows, config.stall)
        if protection is not None:
            return ChangeRows(*protection), memory
        if not (reading.late_per_s > config.late_per_s * limit or burn > config.burn * limit):
            # no scheduler gives memory or disk
            return Stay(Reason("zone-exhausted", "services wait for memory or disk, and are protected", terms)), memory
        return _relieve(reading, setting, rows, modes, config, terms), memory
    if memory.calm_s < config.calm_s:
        return Stay(Reason("zone-steady", f"no service is late for {memory.calm_s:.0f} s", terms)), memory
    decision = _relax(reading, setting, rows, usual, modes, config, terms)
    # what was given back is observed for as long again
    return decision, memory if isinstance(decision, Stay) else replace(memory, calm_s=0.0)


def _relieve(
    reading: ZoneReading,
    setting: ZoneSetting,
    rows: dict[str, ZoneRow],
    modes: tuple[ZoneMode, ...],
    config: ZoneConfig,
    terms: tuple[DecisionTerm, ...],
) -> Decision:
    late = {
        group_reading.group
        for group_reading in reading.groups
        if group_reading.zone_class is ZoneClass.SERVICE
        and (group_reading.late or (group_reading.burn or 0.0) > config.burn / 2)
    }
    changed: dict[str, ZoneRow] = {}
    if setting.mode is ZoneMode.WEIGHTED:
        for group in sorted(late & rows.keys()):
            weight = min(config.heaviest, (rows[group].weight or _USUAL_WEIGHT) * _STEP)
            if weight > rows[group].weight:
                changed[group] = replace(rows[group], weight=weight)
    elif setting.mode is ZoneMode.LATENCY:
        for group, row in sorted(rows.items()):
            if row.zone_class is ZoneClass.BATCH and (row.slice_us or _LONGEST_US) > _SHORTEST_US:
                changed[group] = replace(row, slice_us=max(_SHORTEST_US, (row.slice_us or _LONGEST_US) // 2))
    if changed:
        what = "a larger weight" if setting.mode is ZoneMode.WEIGHTED else "shorter slices of batch"
        names = ", ".join(changed)
        return ChangeRows(tuple(changed.items()), Reason("zone-rows", f"services are late: {what} for {names}", terms))
    wanted = _RELIEF[_RELIEF.index(setting.mode) + 1 :] if setting.mode in _RELIEF else _RELIEF
    for mode in wanted if setting.mode is not None else ():
        if mode in modes:
            what = _BRINGS[mode]
            return SwitchTo(
                ZoneSetting(setting.backend, mode),
                Reason("zone-switch", f"services are late, and rows can do no more: {what}", terms),
            )
    return Stay(Reason("zone-exhausted", f"services are late, and {setting} has nothing left to change", terms))


def _relax(
    reading: ZoneReading,
    setting: ZoneSetting,
    rows: dict[str, ZoneRow],
    usual: dict[str, ZoneRow],
    modes: tuple[ZoneMode, ...],
    config: ZoneConfig,
    terms: tuple[DecisionTerm, ...],
) -> Decision:
    changed = tuple(sorted((group, row) for group, row in usual.items() if rows.get(group, row) != row))
    if changed:
        return ChangeRows(
            changed, Reason("zone-rows", f"no service was late for {config.calm_s:.0f} s: rows as defined", terms)
        )
    wanted = ZoneMode.THROUGHPUT
    busy = any(
        group_reading.zone_class is ZoneClass.SERVICE and group_reading.cpu_us for group_reading in reading.groups
    )
    if (
        setting.backend in (Backend.ROOT, Backend.SUB)
        and setting.mode is not wanted
        and wanted in modes
        and reading.batch_cpus >= config.batch_cpus
        and not busy
    ):
        return SwitchTo(
            ZoneSetting(setting.backend, wanted),
            Reason("zone-switch", "services are idle and batch runs: long slices", terms),
        )
    return Stay(Reason("zone-steady", "no service is late", terms))
