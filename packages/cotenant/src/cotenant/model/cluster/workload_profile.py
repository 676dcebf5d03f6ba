"""The profile of one workload: what its pods use and what they suffer from, resource by resource.

Placement, people and the console need one form of what is known of a workload, from three sources of different quality,
and must tell a low value from an unknown one. Eight axes, each with a tendency and a sensitivity; a figure is an
integer in [0, 1000] with its interval, its number of samples and its source, or it is absent with the reason. A
measured sensitivity (`cotenant profile run`) counts before a learned one, that before a declared one, and all before
what other clusters of a federation learned.
Limits: a sensitivity of 1000 means twice the time or more, so beyond that axes are not told apart.

Units: tendency is the mean use of one pod, in thousandths of its node's capacity (start-up: CPU use in the first two
minutes; disk: what it would use of the disks without neighbours). Sensitivity is the additional time, in thousandths,
when others use all that the node has of the resource.
Source: Delimitrou and Kozyrakis, Paragon, ASPLOS'13 (interference by resource); Mars et al., Bubble-Up, MICRO'11
(sensitivity and pressure).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.errors import InvalidInput

LARGEST = 1000


class ProfileAxis(StrEnum):
    """The resources of a profile; the values are the object's."""

    CPU = "cpu"
    CACHE = "cache"
    MEMORY_BANDWIDTH = "memoryBandwidth"
    MEMORY = "memory"
    DISK = "disk"
    NETWORK = "network"
    RUN_QUEUE = "runQueue"
    START_UP = "startUp"


class WorkloadBound(StrEnum):
    """What may hold a workload; the values are the object's. See policy/interference/bound.py."""

    CPU = "cpu"
    MEMORY = "memory"
    MEMORY_BANDWIDTH = "memoryBandwidth"
    DISK = "disk"
    NETWORK = "network"


class FigureSource(StrEnum):
    """Where a figure comes from."""

    DECLARED = "declared"
    LEARNED = "learned"
    MEASURED = "measured"
    SHARED = "shared"  # learned by other clusters


@dataclass(frozen=True, slots=True)
class ProfileFigure:
    """A value with its 95 % interval, in thousandths. A declared one has no samples, and its interval is the value.
    Raises `InvalidInput`.
    """

    value: int
    low: int
    high: int
    samples: int
    source: FigureSource

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.value <= self.high <= LARGEST:
            raise InvalidInput(
                "profile figure", f"{self.low}..{self.value}..{self.high}", f"0 <= low <= value <= high <= {LARGEST}"
            )
        if self.samples < 0:
            raise InvalidInput("profile figure: samples", self.samples, "0 or more")


@dataclass(frozen=True, slots=True)
class Unknown:
    """A figure that cannot be told."""

    because: str


Reading = ProfileFigure | Unknown


def figure(value: float, half_width: float, samples: int, source: FigureSource) -> ProfileFigure:
    """A figure from fractions: rounded to thousandths and cut to [0, 1000]."""
    middle = _thousandths(value)
    return ProfileFigure(
        middle,
        min(middle, _thousandths(value - half_width)),
        max(middle, _thousandths(value + half_width)),
        samples,
        source,
    )


def _thousandths(value: float) -> int:
    return min(LARGEST, max(0, round(value * LARGEST)))


@dataclass(frozen=True, slots=True)
class AxisReading:
    """Both figures of one axis."""

    tendency: Reading
    sensitivity: Reading


NOT_SEEN = Unknown("nothing has been measured yet")


@dataclass(frozen=True, slots=True)
class Overall:
    """Interference over all resources together, as placement's model has it: additional time per unit of pressure,
    pressure per core in use, and the additional time with which a service still meets its objective.
    """

    sensitivity: Reading
    pressure: Reading
    tolerates: Reading = NOT_SEEN


NO_READING = AxisReading(NOT_SEEN, NOT_SEEN)
NO_OVERALL = Overall(NOT_SEEN, NOT_SEEN)


@dataclass(frozen=True, slots=True)
class WorkloadRef:
    """The controller of a workload's pods. A Deployment stands for its ReplicaSets."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class WorkloadProfile:
    """One WorkloadProfile object. Mappings lack what nothing is said about."""

    key: str  # namespace/name
    workload: WorkloadRef
    declared: Mapping[ProfileAxis, AxisReading] = field(default_factory=dict)
    declared_overall: Overall = NO_OVERALL
    learned: Mapping[ProfileAxis, AxisReading] = field(default_factory=dict)
    learned_overall: Overall = NO_OVERALL
    bound: Mapping[WorkloadBound, Reading] = field(default_factory=dict)  # learned: shares of its time by what holds it
    measured: Mapping[ProfileAxis, AxisReading] = field(default_factory=dict)
    shared_as: str = ""  # the name under which clusters of a federation share it; empty: they do not
    shared: Overall = NO_OVERALL
    shared_by: int = 0  # how many other clusters
    measured_on: str = ""  # the node of the last run
    measured_at: str = ""  # RFC 3339
    updated_at: str = ""
    uid: str = ""
    generation: int = 0
    wrong: tuple[str, ...] = ()  # what of the object cannot be used

    @property
    def namespace(self) -> str:
        """The namespace of the object and of its pods."""
        return self.key.partition("/")[0]

    def axis(self, axis: ProfileAxis) -> AxisReading:
        """The figures that count: measured before learned before declared. Without one, the reason that the learner
        gives.
        """
        sources = [entry.get(axis, NO_READING) for entry in (self.measured, self.learned, self.declared)]
        return AxisReading(
            _chosen(*(source.tendency for source in sources)), _chosen(*(source.sensitivity for source in sources))
        )

    @property
    def overall(self) -> Overall:
        """Learned before declared before shared; where neither of the first two says it, the sensitivity is the largest
        one measured on an axis.
        """
        sensitivity = best(self.learned_overall.sensitivity, self.declared_overall.sensitivity)
        if isinstance(sensitivity, Unknown):
            found = [
                axis_reading.sensitivity
                for axis_reading in self.measured.values()
                if isinstance(axis_reading.sensitivity, ProfileFigure)
            ]
            sensitivity = max(found, key=lambda figure: figure.value, default=sensitivity)
        learned, declared, shared = self.learned_overall, self.declared_overall, self.shared
        return Overall(
            best(sensitivity, shared.sensitivity),
            best(learned.pressure, declared.pressure, shared.pressure),
            best(learned.tolerates, declared.tolerates, shared.tolerates),
        )


def _chosen(measured: Reading, learned: Reading, declared: Reading) -> Reading:
    """A run measures some axes only, so its reasons say less than those of the learner."""
    found = best(measured, learned, declared)
    return best(learned, measured, declared) if isinstance(found, Unknown) else found


def best(*readings: Reading) -> Reading:
    """The first figure among these; without one, the most specific reason."""
    for reading in readings:
        if isinstance(reading, ProfileFigure):
            return reading
    reasons = [reading for reading in readings if isinstance(reading, Unknown) and reading != NOT_SEEN]
    return reasons[0] if reasons else NOT_SEEN
