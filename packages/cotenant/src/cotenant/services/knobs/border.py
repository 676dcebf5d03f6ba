"""How far the knobs of an allowed root itself may go: never above what stood before.

What is below a root can only affect what is below it, but the root's own knobs act on its siblings: its memory
protection is taken from them, its weight outweighs them, and a lifted limit lets all of it grow into them. A root's own
knob may be set to what it had before the lease or to something more restrictive, limit by limit.
Limits: knobs of resctrl and tc have no roots; they are named one by one.
"""

from __future__ import annotations

from math import inf

from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.knob_values import (
    DEVICE_LIMITS,
    DeviceLimits,
    parse_bytes,
    parse_cpu_max,
    parse_io_max,
    parse_io_weight,
)


def exceeds(knob: Knob, value: str, before: str) -> bool:
    """Whether a value grants a group more than `before` did, at the expense of its siblings. Both canonical;
    malformed text exceeds.
    """
    try:
        match knob:
            case Knob.MEMORY_RECLAIM:
                return False
            case Knob.CPU_IDLE | Knob.CGROUP_FREEZE:
                return int(value) < int(before)
            case Knob.CPUSET_CPUS:
                return _is_wider(value, before)
            case Knob.IO_MAX:
                return _lifts_a_limit(value, before)
            case _:
                return _amount(knob, value) > _amount(knob, before)
    except (InvalidInput, ValueError):
        return True


def _amount(knob: Knob, value: str) -> float:
    match knob:
        case Knob.CPU_MAX:
            limit = parse_cpu_max(value)
            return inf if limit.quota_us is None else limit.quota_us / limit.period_us
        case Knob.MEMORY_MIN | Knob.MEMORY_LOW | Knob.MEMORY_HIGH | Knob.MEMORY_MAX:
            amount = parse_bytes(knob, value)
            return inf if amount is None else amount
        case Knob.IO_WEIGHT:
            return parse_io_weight(value)
        case _:
            return int(value)


def _is_wider(value: str, before: str) -> bool:
    """An empty set means the parent's CPUs."""
    if not before:
        return False
    return not value or not set(parse_cpus(value)) <= set(parse_cpus(before))


def _lifts_a_limit(value: str, before: str) -> bool:
    stood = {limits.device: limits for limits in parse_io_max(before)}
    for limits in parse_io_max(value):
        old = stood.get(limits.device, DeviceLimits(limits.device))
        for name in DEVICE_LIMITS:
            most, new = getattr(old, name), getattr(limits, name)
            if most is not None and (new is None or new > most):
                return True
    return False
