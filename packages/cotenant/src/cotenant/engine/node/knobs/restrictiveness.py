"""The rank of a knob's value by how restrictive it is, so that of two desired values the more restrictive one wins.

Two policies want different values of one knob, and which one wins must not depend on the order in which they run. Each
knob's canonical text becomes a rank; the smaller rank wins.
Limits: ranks are totally ordered, so one value wins as a whole; parts of two values are never mixed, since no policy
asked for the mixture.

    quota, burst, weights, memory.high, memory.max       less is more restrictive; "max" is least
    io.max                                               more limits over all devices, then smaller ones
    cpu.idle, cgroup.freeze                              idle, frozen is more restrictive
    cpuset.cpus                                          fewer CPUs; "" (the parent's) is least
    memory.min, memory.low                               more protection wins: it restricts all other groups
    memory.reclaim                                       more is reclaimed
    schemata, tc.rate                                    fewer ways and less bandwidth; a smaller ceiling, then a
                                                         smaller floor
    gpu.power, gpu.clocks, mps.threads, mps.memory       less; without a lock of clocks is least
    gpu.timeslice                                        shorter; the driver's own is least
    gpu.mig                                              more instances

Source of the canonical forms: `model/machine/knob_values.py`; of the others `model/machine/knob.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import UNLIMITED, Knob, KnobScope
from cotenant.model.machine.knob_values import (
    MAX_PERIOD_US,
    TIME_SLICES,
    canonical,
    parse_bytes,
    parse_clocks,
    parse_cpu_max,
    parse_io_max,
    parse_io_weight,
    parse_profiles,
)

Rank = tuple[int, ...]  # the smaller, the more restrictive

_UNLIMITED = 2**63


@lru_cache(maxsize=4096)
def restrictiveness(knob: Knob, value: str) -> Rank | None:
    """The rank of a value; None where it is not of the knob's canonical form."""
    try:
        if knob.scope is KnobScope.CGROUP and canonical(knob, value) != value:
            return None
        return _RANKS[knob](value)
    except (InvalidInput, ValueError):
        return None


def _quota(value: str) -> Rank:
    limit = parse_cpu_max(value)
    if limit.quota_us is None:
        return (_UNLIMITED,)
    # Rates compare across periods; of equal rates the shorter period throttles for less time at once.
    return (limit.quota_us * MAX_PERIOD_US // limit.period_us, -limit.period_us)


def _less(value: str) -> Rank:
    return (int(value),)


def _more(value: str) -> Rank:
    return (-int(value),)


def _cpus(value: str) -> Rank:
    return (len(parse_cpus(value)) or _UNLIMITED,)


def _bytes_of(knob: Knob) -> Callable[[str], Rank]:
    def rank(value: str) -> Rank:
        amount = parse_bytes(knob, value)
        return (_UNLIMITED if amount is None else amount,)

    return rank


def _more_bytes_of(knob: Knob) -> Callable[[str], Rank]:
    def rank(value: str) -> Rank:
        amount = parse_bytes(knob, value)
        return (-(_UNLIMITED if amount is None else amount),)

    return rank


def _io_weight(value: str) -> Rank:
    return (parse_io_weight(value),)


def _io_max(value: str) -> Rank:
    limits = [
        limit
        for device in parse_io_max(value)
        for limit in (device.rbps, device.wbps, device.riops, device.wiops)
        if limit is not None
    ]
    return (-len(limits), sum(limits))


def _schemata(value: str) -> Rank:
    ways, bandwidth = 0, 0
    for line in value.split("\n"):
        resource, colon, domains = line.partition(":")
        if not colon:
            raise ValueError(value)
        for domain in domains.split(";"):
            number, equals, setting = domain.partition("=")
            if not equals:
                raise ValueError(value)
            int(number)
            if resource.strip().startswith("MB"):
                bandwidth += int(setting)
            else:
                ways += int(setting, 16).bit_count()
    return (ways, bandwidth)


def _rate(value: str) -> Rank:
    least, most = value.split(" ")
    return (_UNLIMITED if most == UNLIMITED else int(most), int(least))


def _clocks(value: str) -> Rank:
    clocks = parse_clocks(value)
    return (_UNLIMITED,) if clocks is None else (clocks[1], clocks[0])


def _time_slice(value: str) -> Rank:
    """The driver's own, whose length nobody tells, after the others."""
    return ((TIME_SLICES.index(value) or len(TIME_SLICES)),)


def _instances(value: str) -> Rank:
    return (-len(parse_profiles(value)),)


_RANKS: dict[Knob, Callable[[str], Rank]] = {
    Knob.CPU_MAX: _quota,
    Knob.CPU_BURST: _less,
    Knob.CPU_WEIGHT: _less,
    Knob.CPU_IDLE: _more,
    Knob.CGROUP_FREEZE: _more,
    Knob.CPUSET_CPUS: _cpus,
    Knob.MEMORY_MIN: _more_bytes_of(Knob.MEMORY_MIN),
    Knob.MEMORY_LOW: _more_bytes_of(Knob.MEMORY_LOW),
    Knob.MEMORY_HIGH: _bytes_of(Knob.MEMORY_HIGH),
    Knob.MEMORY_MAX: _bytes_of(Knob.MEMORY_MAX),
    Knob.MEMORY_RECLAIM: _more,
    Knob.IO_WEIGHT: _io_weight,
    Knob.IO_MAX: _io_max,
    Knob.SCHEMATA: _schemata,
    Knob.RATE: _rate,
    Knob.GPU_POWER: _less,
    Knob.GPU_CLOCKS: _clocks,
    Knob.GPU_TIMESLICE: _time_slice,
    Knob.GPU_MIG: _instances,
    Knob.MPS_THREADS: _less,
    Knob.MPS_MEMORY: _less,
}
