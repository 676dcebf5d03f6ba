"""What a zone measured over a while, and the decision made of it.

A canary compares two readings, a policy decides on one, and `why` shows both later. Late dispatches per group with the
time they were counted over, and the CPU time that batch groups got.
Limits: a late dispatch is what the row's threshold says; a group without a threshold has none.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_decision import Reason
from cotenant.model.zones.setting import ZoneSetting
from cotenant.model.zones.table import ZoneClass, ZoneRow


@dataclass(frozen=True, slots=True)
class GroupResources:
    """What a group had of memory and disk over a reading. `memory_stall`, `io_stall`: the share of time in which a
    task of it waited for them (PSI some); `memory_bytes`: what it is charged with now.
    """

    memory_stall: float
    io_stall: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class GroupReading:
    """One group over the reading's length. `late`: late dispatches; `burn`: of its latency objective, 1.0 uses up
    the budget exactly, None unknown; `resources`: None where they were not read.
    """

    group: str
    zone_class: ZoneClass
    late: int = 0
    worst_us: int = 0
    cpu_us: int = 0
    burn: float | None = None
    resources: GroupResources | None = None


@dataclass(frozen=True, slots=True)
class MachineSigns:
    """What a machine did over a reading. `softirq_cpus`: in soft interrupts; `siblings_busy`: the share of time in
    which both threads of a core were busy, as far as each one's use tells; None without such cores.
    """

    cpus: int
    softirq_cpus: float = 0.0
    siblings_busy: float | None = None


@dataclass(frozen=True, slots=True)
class ZoneReading:
    """All groups of a zone over `length_s`. `signs`: None where the machine's were not read."""

    length_s: float
    groups: tuple[GroupReading, ...]
    signs: MachineSigns | None = None

    def __post_init__(self) -> None:
        if self.length_s <= 0:
            raise InvalidInput("zone reading: length", self.length_s, "more than 0 seconds")

    @property
    def late_per_s(self) -> float:
        """Late dispatches of services, a second."""
        return sum(group.late for group in self.groups if group.zone_class is ZoneClass.SERVICE) / self.length_s

    @property
    def burn(self) -> float | None:
        """The highest burn rate of a service's objective; None where none is known."""
        burns = [
            group.burn for group in self.groups if group.zone_class is ZoneClass.SERVICE and group.burn is not None
        ]
        return max(burns, default=None)

    @property
    def stall(self) -> float | None:
        """The longest share of time in which a service waited for memory or disk; None where none is known."""
        stalls = [
            max(group.resources.memory_stall, group.resources.io_stall)
            for group in self.groups
            if group.zone_class is ZoneClass.SERVICE and group.resources is not None
        ]
        return max(stalls, default=None)

    @property
    def memory_stall(self) -> float | None:
        """As `stall`, for memory alone."""
        stalls = [
            group.resources.memory_stall
            for group in self.groups
            if group.zone_class is ZoneClass.SERVICE and group.resources is not None
        ]
        return max(stalls, default=None)

    @property
    def batch_cpus(self) -> float:
        """CPUs that batch used on average."""
        used = sum(group.cpu_us for group in self.groups if group.zone_class is ZoneClass.BATCH)
        return used / 1e6 / self.length_s

    def plus(self, other: ZoneReading) -> ZoneReading:
        """Both in a row. A group's burn is the larger one."""
        joined = {group.group: group for group in self.groups}
        for group in other.groups:
            own = joined.get(group.group)
            if own is None:
                joined[group.group] = group
                continue
            burns = [burn for burn in (own.burn, group.burn) if burn is not None]
            joined[group.group] = GroupReading(
                group.group,
                group.zone_class,
                own.late + group.late,
                max(own.worst_us, group.worst_us),
                own.cpu_us + group.cpu_us,
                max(burns) if burns else None,
                _joined(own.resources, self.length_s, group.resources, other.length_s),
            )
        return ZoneReading(self.length_s + other.length_s, tuple(joined.values()), other.signs or self.signs)


def _joined(
    one: GroupResources | None, one_s: float, other: GroupResources | None, other_s: float
) -> GroupResources | None:
    if one is None or other is None:
        return other or one
    length_s = one_s + other_s
    return GroupResources(
        (one.memory_stall * one_s + other.memory_stall * other_s) / length_s,
        (one.io_stall * one_s + other.io_stall * other_s) / length_s,
        other.memory_bytes,
    )


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Change rows of these groups; the scheduler stays."""

    rows: tuple[tuple[str, ZoneRow], ...]
    reason: Reason


@dataclass(frozen=True, slots=True)
class SwitchTo:
    """Run another setting."""

    setting: ZoneSetting
    reason: Reason


@dataclass(frozen=True, slots=True)
class Stay:
    """Change nothing."""

    reason: Reason


Decision = ChangeRows | SwitchTo | Stay
