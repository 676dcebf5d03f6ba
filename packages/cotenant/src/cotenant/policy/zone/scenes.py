"""Which scene a zone is in, and which scheduler serves that scene best by what was measured.

The right scheduler depends on who is there and how busy: what helps a light service beside batch harms two services of
which one never sleeps. A scene is a few coarse signs of a reading, each with its evidence; for each, a table has the
outcomes that each mode brought. Each mode is tried for `TRIAL` readings, the best runs, and the others are tried again
each time the scene's readings have doubled: so of N readings in a scene with K modes at most
(K-1) * TRIAL * (1 + log2(N / (K * TRIAL))), rounded up by a trial, are of modes that are known to be worse. A new scene
tries first what was best in the nearest one. Old outcomes fade, so a program that changed is learned anew.
Outcomes are between 0 and 1: services on time count most, batch's CPU time the rest.
Limits: signs are of the CPU time that was used, which the running mode shares out, so they are coarse: a service that
always runs counts as heavy while batch leaves it a quarter of the CPUs, and batch is there with one short turn a
second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from math import log2

from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.zones.setting import ZoneMode
from cotenant.model.zones.table import ZoneClass
from cotenant.model.zones.zone_reading import ZoneReading

_LEAST = {ZoneClass.SERVICE: 0.005, ZoneClass.BATCH: 0.002}  # CPUs; a group that uses less is not there
_HEAVY = 0.25  # of the machine's CPUs
_NETWORK_CPUS = 0.15  # of the machine's CPUs, in soft interrupts
_SIBLINGS = 0.25  # of the time, both threads of a core are busy
SERVICE_PART = 0.75  # of an outcome; the rest is batch's
_WORST_LATE = 10.0  # times the limit: late dispatches beyond it are no worse
TRIAL = 5  # readings
_REMEMBERED = 64  # outcomes that a mean is of, about


class ServiceUseBand(IntEnum):
    """How much of the machine's CPUs services use."""

    NONE = 0
    LIGHT = 1
    HEAVY = 2


@dataclass(frozen=True, slots=True, order=True)
class ZoneScene:
    """What is to be told apart. `batch`: there is some; `several`: more than one service is there; `network`: soft
    interrupts take a part; `siblings`: both threads of cores are busy at once.
    """

    services: ServiceUseBand
    batch: bool
    several: bool = False
    network: bool = False
    siblings: bool = False

    def __str__(self) -> str:
        parts = [
            f"{'several services' if self.several else 'services'} {self.services.name.lower()}",
            "batch" if self.batch else "no batch",
        ]
        return ", ".join(
            (*parts, *(["network-bound"] if self.network else []), *(["siblings busy"] if self.siblings else []))
        )

    def distance(self, other: ZoneScene) -> int:
        """How different two scenes are: a step of services' band is 1, whether there is batch 2, any other sign 1."""
        kinds = (self.several != other.several) + (self.network != other.network) + (self.siblings != other.siblings)
        return abs(self.services - other.services) + 2 * (self.batch != other.batch) + kinds


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What one mode brought in one scene. `mean`: of the later ones."""

    number: int = 0
    mean: float = 0.0

    def plus(self, outcome: float) -> Outcomes:
        """With one more."""
        number = self.number + 1
        return Outcomes(number, self.mean + (outcome - self.mean) / min(number, _REMEMBERED))


@dataclass(frozen=True, slots=True)
class SceneTable:
    """All that was learned: outcomes by scene and mode."""

    scenes: Mapping[ZoneScene, Mapping[ZoneMode, Outcomes]] = field(default_factory=dict)

    def learned(self, scene: ZoneScene, mode: ZoneMode, outcome: float) -> SceneTable:
        """With one more outcome."""
        modes = dict(self.scenes.get(scene, {}))
        modes[mode] = modes.get(mode, Outcomes()).plus(min(1.0, max(0.0, outcome)))
        return SceneTable({**self.scenes, scene: modes})

    def of(self, scene: ZoneScene) -> Mapping[ZoneMode, Outcomes]:
        """The outcomes in a scene."""
        return self.scenes.get(scene, {})

    @property
    def readings(self) -> int:
        """Of how many readings it is."""
        return sum(found.number for modes in self.scenes.values() for found in modes.values())

    def nearest(self, scene: ZoneScene) -> ZoneScene | None:
        """The scene most like this one of which something was learned."""
        others = [other for other in self.scenes if other != scene]
        return min(others, key=lambda other: (other.distance(scene), other), default=None)


def recognise(reading: ZoneReading) -> tuple[ZoneScene, Reason]:
    """The scene of a reading, with its evidence."""
    signs = reading.signs
    cpus = signs.cpus if signs is not None else 1
    used: dict[ZoneClass, list[float]] = {ZoneClass.SERVICE: [], ZoneClass.BATCH: []}
    for group in reading.groups:
        used_cpus = group.cpu_us / 1e6 / reading.length_s
        if group.zone_class in used and used_cpus >= _LEAST[group.zone_class]:
            used[group.zone_class].append(used_cpus)
    services, batch = sum(used[ZoneClass.SERVICE]), sum(used[ZoneClass.BATCH])
    softirq = signs.softirq_cpus if signs is not None else 0.0
    siblings = (signs.siblings_busy or 0.0) if signs is not None else 0.0
    scene = ZoneScene(
        ServiceUseBand.NONE
        if not services
        else ServiceUseBand.HEAVY
        if services / cpus >= _HEAVY
        else ServiceUseBand.LIGHT,
        batch > 0,
        len(used[ZoneClass.SERVICE]) > 1,
        softirq / cpus > _NETWORK_CPUS,
        siblings > _SIBLINGS,
    )
    terms = (
        DecisionTerm("services", round(services * 1000), "mCPU"),
        DecisionTerm("services present", len(used[ZoneClass.SERVICE]), ""),
        DecisionTerm("batch", round(batch * 1000), "mCPU"),
        DecisionTerm("softirq", round(softirq * 1000), "mCPU"),
        DecisionTerm("siblings", round(siblings * 1000), "1/1000"),
        DecisionTerm("CPUs", cpus, ""),
    )
    return scene, Reason("zone-scene", f"{scene}", terms)


def outcome_of(reading: ZoneReading, late_limit_per_s: float, burn_limit: float = 1.0) -> float:
    """How good a reading is, 0 to 1: services on time, and CPU time of batch."""
    late = reading.late_per_s / (late_limit_per_s * _WORST_LATE)
    burn = max(0.0, (reading.burn or 0.0) - burn_limit) / _WORST_LATE
    cpus = reading.signs.cpus if reading.signs is not None else 1
    services = 1.0 - min(1.0, max(late, burn))
    return SERVICE_PART * services + (1 - SERVICE_PART) * min(1.0, reading.batch_cpus / cpus)


def choose(
    table: SceneTable, scene: ZoneScene, modes: Iterable[ZoneMode], current: ZoneMode | None
) -> tuple[ZoneMode, Reason] | None:
    """The mode to run in a scene, None where there is none to choose from. The one that runs wins ties."""
    choices: list[ZoneMode] = sorted({*modes} if current is None else {*modes, current})
    if not choices:
        return None
    outcomes = table.of(scene)
    number = {mode: outcomes[mode].number if mode in outcomes else 0 for mode in choices}
    due = wanted_readings(sum(number.values()), len(choices))
    waiting = [mode for mode in choices if number[mode] < due]
    terms = tuple(
        DecisionTerm(mode.value, round(1000 * found.mean), f"1/1000 of {found.number}")
        for mode, found in outcomes.items()
    )
    if not waiting:
        best = max(choices, key=lambda mode: (outcomes[mode].mean, mode is current))
        text = f"{scene}: {best.value} brought most, {outcomes[best].mean:.3f}"
        return best, Reason("zone-scene", text, terms)
    # a trial goes on to its end; then the mode that was best in the nearest scene, then the one with fewer readings
    nearest = table.nearest(scene)
    lent = table.of(nearest) if nearest is not None else {}
    chosen = max(
        waiting,
        key=lambda mode: (
            mode == current and bool(number[mode] % TRIAL),
            lent[mode].mean if mode in lent and not number[mode] else -1.0,
            -number[mode],
            mode == current,
        ),
    )
    like = f", first as in the nearest scene ({nearest})" if chosen in lent and not number[chosen] else ""
    text = f"{scene}: {chosen.value} is tried for {TRIAL} readings{like}"
    return chosen, Reason("zone-scene", text, terms)


def wanted_readings(total: int, modes: int) -> int:
    """How many readings each mode of a scene is to have once it has so many: a trial, and one for each doubling."""
    return TRIAL * (1 + max(0, int(log2(max(1.0, total / (modes * TRIAL))))))
