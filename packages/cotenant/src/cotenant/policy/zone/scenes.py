"""Which scene a zone is in, and which scheduler serves that scene best by what was measured.

The right scheduler depends on who is there and how busy: what helps a light service beside batch harms two services of
which one never sleeps. A scene is a few coarse signs of a reading, each with its evidence; for each, a table has the
outcomes that each mode brought. Outcomes are between 0 and 1: services on time count most, batch's CPU time the rest.
The best mode runs, and another one is tried only where there is something to gain: the *room* of an outcome is what any
mode could have brought more, and once the room of all readings under the best mode is `PRICE`, about what a reading of
a bad mode costs, modes that are not known have a trial of `TRIAL` readings. A trial ends as soon as its mode is clearly
worse. Modes are tried again each time the scene's readings have doubled, one that was clearly worse for one reading and
not before there are `_RARELY` times as many. So of N readings in a scene with K modes at most
(K-1) * TRIAL * (1 + log2(N / (K * TRIAL))), rounded up by a trial, are of modes that are known to be worse. A new scene
tries first what was best in the nearest one, and latency where services are late. Of modes that are as good, the one
that harms other scenes least runs, since a scene changes before it is seen. Old outcomes fade, so a program that
changed is learned anew.
Limits: signs are of the CPU time that was used, which the running mode shares out, so they are coarse: a service that
always runs counts as heavy while batch leaves it a quarter of the CPUs, and batch is there with one short turn a
second. Services are told apart by when they are late and not by name, so that pods that come and go are no new scene.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from math import log2
from types import MappingProxyType

from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.zones.setting import ZoneMode
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import ZoneReading

_LEAST = {ZoneClass.SERVICE: 0.005, ZoneClass.BATCH: 0.002}  # CPUs; a group that uses less is not there
_HEAVY = 0.25  # of the machine's CPUs
_NETWORK_CPUS = 0.15  # of the machine's CPUs, in soft interrupts
_SIBLINGS = 0.25  # of the time, both threads of a core are busy
SERVICE_PART = 0.75  # of an outcome; the rest is batch's
_WORST_LATE = 10.0  # times the limit: late dispatches beyond it are no worse
TRIAL = 5  # readings
MOST_SCENES = 64  # of a table; the one that was not seen for longest goes
PRICE = 0.5  # of a trial's first reading; it is 1 at most
NEAR = 0.005  # of an outcome; less is no difference
_CLEARLY = 0.25  # over the number of readings: a mode that brought so much less is clearly worse
_RARELY = 16  # times the readings of all first trials, before what was clearly worse is tried again
_SAFER = 0.05  # in the other scenes, for a switch between modes that are as good
_REMEMBERED = 64  # outcomes that a mean is of, about


class ServiceUseBand(IntEnum):
    """How much of the machine's CPUs services use."""

    NONE = 0
    LIGHT = 1
    HEAVY = 2


@dataclass(frozen=True, slots=True, order=True)
class ZoneScene:
    """What is to be told apart. `batch`: there is some; `several`: more than one service is there; `network`: soft
    interrupts take a part; `siblings`: both threads of cores are busy at once; `late_us`: the shortest wait that is
    too long for a service that is there, 0 where none has a limit.
    """

    services: ServiceUseBand
    batch: bool
    several: bool = False
    network: bool = False
    siblings: bool = False
    late_us: int = 0

    def __str__(self) -> str:
        parts = [
            f"{'several services' if self.several else 'services'} {self.services.name.lower()}",
            *([f"late after {self.late_us / 1000:g} ms"] if self.late_us else []),
            "batch" if self.batch else "no batch",
        ]
        return ", ".join(
            (*parts, *(["network-bound"] if self.network else []), *(["siblings busy"] if self.siblings else []))
        )

    def distance(self, other: ZoneScene) -> int:
        """How different two scenes are: a step of services' band is 1, whether there is batch 2, any other sign 1."""
        kinds = (self.several != other.several) + (self.network != other.network) + (self.siblings != other.siblings)
        kinds += self.late_us != other.late_us
        return abs(self.services - other.services) + 2 * (self.batch != other.batch) + kinds


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What one mode brought in one scene. `mean`: of the later ones; `room`: what any mode could have brought more, as
    a mean; `last`: the last outcome.
    """

    number: int = 0
    mean: float = 0.0
    room: float = 0.0
    last: float = 0.0

    def plus(self, outcome: float, room: float) -> Outcomes:
        """With one more."""
        number = self.number + 1
        part = 1 / min(number, _REMEMBERED)
        return Outcomes(
            number, self.mean + (outcome - self.mean) * part, self.room + (room - self.room) * part, outcome
        )

    def clearly_worse(self, best: Outcomes) -> bool:
        """Whether so many outcomes are enough to tell that this is not the mode to run."""
        return best.mean - self.mean > _CLEARLY / max(1, self.number)


@dataclass(frozen=True, slots=True)
class SceneTable:
    """All that was learned: outcomes by scene and mode."""

    scenes: Mapping[ZoneScene, Mapping[ZoneMode, Outcomes]] = field(default_factory=dict)

    def learned(self, scene: ZoneScene, mode: ZoneMode, outcome: float, room: float | None = None) -> SceneTable:
        """With one more outcome, after which its scene is the last one. `room`: None: up to 1."""
        outcome = min(1.0, max(0.0, outcome))
        modes = dict(self.scenes.get(scene, {}))
        modes[mode] = modes.get(mode, Outcomes()).plus(outcome, 1.0 - outcome if room is None else room)
        others = {other: found for other, found in self.scenes.items() if other != scene}
        while len(others) >= MOST_SCENES:
            del others[next(iter(others))]
        return SceneTable({**others, scene: modes})

    def worst_elsewhere(self, scene: ZoneScene, mode: ZoneMode) -> float:
        """How much less than the best mode this one brought in the scene that it suits least; 0 where none is
        known.
        """
        losses = [
            max(found.mean for found in modes.values()) - modes[mode].mean
            for other, modes in self.scenes.items()
            if other != scene and mode in modes
        ]
        return max(losses, default=0.0)

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


def recognise(reading: ZoneReading, rows: Mapping[str, ZoneRow] = MappingProxyType({})) -> tuple[ZoneScene, Reason]:
    """The scene of a reading, with its evidence. `rows`: those in force, which say when a service is late."""
    signs = reading.signs
    cpus = signs.cpus if signs is not None else 1
    used: dict[ZoneClass, list[float]] = {ZoneClass.SERVICE: [], ZoneClass.BATCH: []}
    limits: list[int] = []
    for group in reading.groups:
        used_cpus = group.cpu_us / 1e6 / reading.length_s
        if group.zone_class in used and used_cpus >= _LEAST[group.zone_class]:
            used[group.zone_class].append(used_cpus)
            row = rows.get(group.group)
            if group.zone_class is ZoneClass.SERVICE and row is not None and row.late_us:
                limits.append(row.late_us)
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
        min(limits, default=0),
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


def room_of(reading: ZoneReading, scene: ZoneScene, outcome: float) -> float:
    """What any mode could have brought more in this reading. Batch gets what light services leave, since those use what
    they ask for, and up to all CPUs beside heavy ones, which may have had more than their part.
    """
    cpus = reading.signs.cpus if reading.signs is not None else 1
    used = sum(group.cpu_us for group in reading.groups if group.zone_class is ZoneClass.SERVICE)
    light = used / 1e6 / reading.length_s / cpus if scene.services is not ServiceUseBand.HEAVY else 0.0
    most = SERVICE_PART + ((1 - SERVICE_PART) * max(0.0, 1.0 - light) if scene.batch else 0.0)
    return max(0.0, most - outcome)


def choose(
    table: SceneTable,
    scene: ZoneScene,
    modes: Iterable[ZoneMode],
    current: ZoneMode | None,
    *,
    services_late: bool = False,
) -> tuple[ZoneMode, Reason] | None:
    """The mode to run in a scene, None where there is none to choose from. The one that runs wins ties.
    `services_late`: latency is tried before any other mode that is not known.
    """
    choices: list[ZoneMode] = sorted({*modes} if current is None else {*modes, current})
    if not choices:
        return None
    known = {mode: found for mode, found in table.of(scene).items() if mode in choices}
    terms = tuple(
        DecisionTerm(mode.value, round(1000 * found.mean), f"1/1000 of {found.number}") for mode, found in known.items()
    )
    waiting = _waiting(known, choices, current)
    if not waiting:
        best = _best(table, scene, known, current)
        text = f"{scene}: {best.value} brought most, {known[best].mean:.3f}"
        return best, Reason("zone-scene", text, terms)
    # a trial goes on to its end, unless it is of the only mode that is known; then the mode that was best in the
    # nearest scene, then the one with fewer readings
    nearest = table.nearest(scene)
    lent = table.of(nearest) if nearest is not None else {}
    chosen = max(
        waiting,
        key=lambda mode: (
            mode == current and mode in known and len(known) > 1 and bool(known[mode].number % TRIAL),
            services_late and mode is ZoneMode.LATENCY and mode not in known,
            lent[mode].mean if mode in lent and mode not in known else -1.0,
            -known[mode].number if mode in known else 0,
            mode == current,
        ),
    )
    like = f", first as in the nearest scene ({nearest})" if chosen in lent and chosen not in known else ""
    text = f"{scene}: {chosen.value} is tried for {TRIAL} readings{like}"
    return chosen, Reason("zone-scene", text, terms)


def _waiting(known: Mapping[ZoneMode, Outcomes], choices: list[ZoneMode], current: ZoneMode | None) -> list[ZoneMode]:
    """The modes whose trial is due; none where no mode could bring more than the best one does."""
    if not known:
        return choices
    best = max(known.values(), key=lambda found: found.mean)
    if best.room * best.number < PRICE:
        return []
    total = sum(found.number for found in known.values())
    due = wanted_readings(total, len(choices))
    again = wanted_readings(total // _RARELY, len(choices)) // TRIAL
    found = []
    for mode in choices:
        outcomes = known.get(mode)
        if outcomes is None:
            found.append(mode)
        elif not outcomes.clearly_worse(best):
            found += [mode] if outcomes.number < due else []
        elif outcomes.number < again or (
            mode is current and outcomes.last >= best.mean - NEAR and outcomes.number % TRIAL
        ):
            found.append(mode)
    return found


def _best(
    table: SceneTable, scene: ZoneScene, known: Mapping[ZoneMode, Outcomes], current: ZoneMode | None
) -> ZoneMode:
    """The mode that brought most; of those as good the one that runs, unless another is safer in other scenes."""
    most = max(found.mean for found in known.values())
    as_good = [mode for mode, found in known.items() if found.mean >= most - NEAR]
    harm = {mode: table.worst_elsewhere(scene, mode) for mode in as_good}
    if current in harm and harm[current] <= min(harm.values()) + _SAFER:
        return current
    return min(as_good, key=lambda mode: (harm[mode], -known[mode].mean))


def wanted_readings(total: int, modes: int) -> int:
    """How many readings each mode of a scene is to have once it has so many: a trial, and one for each doubling."""
    return TRIAL * (1 + max(0, int(log2(max(1.0, total / (modes * TRIAL))))))
