"""Knobs as properties of systemd's units, in both directions of one write: what to set, and what to ask for beforehand.

Source: systemd, man/systemd.resource-control.xml and src/core/dbus-cgroup.c: quotas are microseconds of CPU a second,
CPUs a bit mask, and the largest 64-bit number stands for "no limit" and for "not set"; a CPUWeight of 0 is the idle
class (252).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.knob_values import parse_bytes, parse_cpu_max

UNSET = 2**64 - 1
IDLE_WEIGHT = 0
_SECOND_US = 1_000_000
_MEMORY = {
    Knob.MEMORY_MIN: "MemoryMin",
    Knob.MEMORY_LOW: "MemoryLow",
    Knob.MEMORY_HIGH: "MemoryHigh",
    Knob.MEMORY_MAX: "MemoryMax",
}
_NAMES = {
    Knob.CPU_MAX: ("CPUQuotaPerSecUSec", "CPUQuotaPeriodUSec"),
    Knob.CPU_WEIGHT: ("CPUWeight",),
    Knob.CPU_IDLE: ("CPUWeight",),
    Knob.CPUSET_CPUS: ("AllowedCPUs",),
    **{knob: (name,) for knob, name in _MEMORY.items()},
}


@dataclass(frozen=True, slots=True)
class UnitProperty:
    """A property with its D-Bus signature: `t` for numbers, `ay` for CPUs."""

    name: str
    signature: str
    value: int | bytes


def names_of(knob: Knob) -> tuple[str, ...]:
    """The properties that a knob sets. Raises `InvalidInput` where there is none."""
    names = _NAMES.get(knob)
    if names is None:
        raise InvalidInput("knob", str(knob), f"one with a property of systemd: {', '.join(_NAMES)}")
    return names


def properties_of(knob: Knob, value: str) -> tuple[UnitProperty, ...]:
    """The properties that hold a knob at a canonical value. Raises `InvalidInput`."""
    names = names_of(knob)
    match knob:
        case Knob.CPU_MAX:
            limit = parse_cpu_max(value)
            share = UNSET if limit.quota_us is None else limit.quota_us * _SECOND_US // limit.period_us
            return (UnitProperty(names[0], "t", share), UnitProperty(names[1], "t", limit.period_us))
        case Knob.CPU_IDLE:
            return (UnitProperty(names[0], "t", IDLE_WEIGHT if value == "1" else UNSET),)
        case Knob.CPUSET_CPUS:
            return (UnitProperty(names[0], "ay", mask_of(parse_cpus(value) if value else ())),)
        case Knob.CPU_WEIGHT:
            return (UnitProperty(names[0], "t", int(value)),)
        case _:
            amount = parse_bytes(knob, value)
            return (UnitProperty(names[0], "t", UNSET if amount is None else amount),)


def mask_of(cpus: Sequence[int]) -> bytes:
    """CPUs as systemd's bit mask, the lowest first; empty for none, which means all."""
    mask = sum(1 << cpu for cpu in set(cpus))
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")
