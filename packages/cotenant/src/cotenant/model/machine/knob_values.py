"""Canonical text of knob values: validation, parsing, formatting.

Desired values, readings, a state file and a simulated node are compared as text, so one value must have one text, and
invalid values must be rejected before anything is written. `canonical` parses the text of a cgroup v2 knob and formats
it in the one form; callers that need the numbers use the parsers here.
Limits: knobs of resctrl and tc are checked by their own drivers; only the kernel decides whether it accepts a value.

Source of forms and ranges: Linux, Documentation/admin-guide/cgroup-v2.rst; kernel/sched/core.c for the bounds of CFS
bandwidth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.cpus.cpulist import format_cpus, parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import UNLIMITED, Knob

USUAL_PERIOD_US = 100_000
MIN_PERIOD_US = 1_000
MAX_PERIOD_US = 1_000_000
MIN_QUOTA_US = 1_000
MAX_BYTES = 2**63 - 1
MAX_RATE_BITS = 30_000_000_000  # the token bucket counts bytes in 32 bits
MAX_DELAY_US = 10_000_000
MAX_LOSS_PPM = 999_999
MAX_POWER_MW = 10_000_000
MAX_CLOCK_MHZ = 20_000
MAX_DEVICE_MIB = 1 << 24
SHORT_SLICE = "short"
TIME_SLICES = ("default", SHORT_SLICE, "medium", "long")  # by NVIDIA's number
NO_INSTANCES = "none"
MAX_INSTANCES = 32
_LARGEST_PAGE_BYTES = 64 << 10
_OF_MEMORY = frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH, Knob.MEMORY_MAX})
DEVICE_LIMITS = ("rbps", "wbps", "riops", "wiops")  # in the order the kernel prints them

_NUMBER = re.compile(r"[0-9]{1,19}")
_DEVICE = re.compile(r"[0-9]{1,7}:[0-9]{1,7}")
_PROFILE = re.compile(r"[1-9]g\.[0-9]{1,4}gb([+-][a-z]{1,8}(\.[a-z]{1,8})?){0,3}")


@dataclass(frozen=True, slots=True)
class CpuMax:
    """CPU bandwidth: `quota_us` of CPU time each `period_us`. None = no limit."""

    quota_us: int | None
    period_us: int = USUAL_PERIOD_US

    @property
    def cpu_m(self) -> int | None:
        """As milli-CPU, rounded down; None = no limit."""
        return None if self.quota_us is None else self.quota_us * 1000 // self.period_us

    def __str__(self) -> str:
        return f"{UNLIMITED if self.quota_us is None else self.quota_us} {self.period_us}"


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """I/O limits of one block device, bytes and operations a second. None = no limit."""

    device: str  # MAJOR:MINOR
    rbps: int | None = None
    wbps: int | None = None
    riops: int | None = None
    wiops: int | None = None

    @property
    def unlimited(self) -> bool:
        """Whether it sets no limit: writing it clears the device, and readings never contain it."""
        return self.rbps is None and self.wbps is None and self.riops is None and self.wiops is None

    def __str__(self) -> str:
        limits = (self.rbps, self.wbps, self.riops, self.wiops)
        pairs = " ".join(
            f"{name}={UNLIMITED if n is None else n}" for name, n in zip(DEVICE_LIMITS, limits, strict=True)
        )
        return f"{self.device} {pairs}"


def _number(knob: Knob, text: str, least: int, most: int, expected: str) -> int:
    value = int(text) if _NUMBER.fullmatch(text) else -1
    if not least <= value <= most:
        raise InvalidInput(str(knob), text, expected)
    return value


def parse_cpu_max(text: str) -> CpuMax:
    """Parse "QUOTA" or "QUOTA PERIOD" in microseconds; QUOTA may be "max"."""
    expected = (
        f'"QUOTA PERIOD" in microseconds, QUOTA "max" or at least {MIN_QUOTA_US}, PERIOD {MIN_PERIOD_US} to '
        f"{MAX_PERIOD_US}"
    )
    parts = text.split()
    if not 1 <= len(parts) <= 2:
        raise InvalidInput(str(Knob.CPU_MAX), text, expected)
    period_us = USUAL_PERIOD_US
    if len(parts) == 2:
        period_us = _number(Knob.CPU_MAX, parts[1], MIN_PERIOD_US, MAX_PERIOD_US, expected)
    if parts[0] == UNLIMITED:
        return CpuMax(None, period_us)
    return CpuMax(_number(Knob.CPU_MAX, parts[0], MIN_QUOTA_US, MAX_BYTES // 1000, expected), period_us)


def parse_bytes(knob: Knob, text: str) -> int | None:
    """Bytes; None for "max"."""
    text = text.strip()
    return None if text == UNLIMITED else _number(knob, text, 0, MAX_BYTES, 'bytes or "max"')


def parse_rate(text: str) -> int | None:
    """Bits a second, whole bytes; None for "max"."""
    text = text.strip()
    if text == UNLIMITED:
        return None
    expected = f'8000 to {MAX_RATE_BITS} bits a second, or "max"'
    return _number(Knob.NETWORK_RATE, text, 8_000, MAX_RATE_BITS, expected) // 8 * 8


def parse_clocks(text: str) -> tuple[int, int] | None:
    """The least and the highest clock in MHz; None without a lock."""
    expected = f'"MIN MAX" in MHz, 1 to {MAX_CLOCK_MHZ}, MIN not above MAX, or "max"'
    if text.strip() == UNLIMITED:
        return None
    low, _, high = text.strip().partition(" ")
    clocks = tuple(_number(Knob.GPU_CLOCKS, part, 1, MAX_CLOCK_MHZ, expected) for part in (low, high))
    if clocks[0] > clocks[1]:
        raise InvalidInput(str(Knob.GPU_CLOCKS), text, expected)
    return clocks[0], clocks[1]


def parse_profiles(text: str) -> tuple[str, ...]:
    """Profiles of MIG instances, in order; () for none."""
    names = tuple(sorted(text.split()))
    if names == (NO_INSTANCES,):
        return ()
    if not names or len(names) > MAX_INSTANCES or not all(_PROFILE.fullmatch(name) for name in names):
        expected = f'profiles such as "1g.10gb 3g.40gb" (nvidia-smi mig -lgip), at most {MAX_INSTANCES}, or "none"'
        raise InvalidInput(str(Knob.GPU_MIG), text, expected)
    return names


def format_profiles(names: Iterable[str]) -> str:
    """The canonical text of MIG instances' profiles."""
    return " ".join(sorted(names)) or NO_INSTANCES


def parse_io_weight(text: str) -> int:
    """The default weight of "default N" (or "N")."""
    expected = '"default N", N 1 to 10000'
    parts = text.split()
    if not parts or len(parts) > 2 or (len(parts) == 2 and parts[0] != "default"):
        raise InvalidInput(str(Knob.IO_WEIGHT), text, expected)
    return _number(Knob.IO_WEIGHT, parts[-1], 1, 10_000, expected)


def parse_io_max(text: str) -> tuple[DeviceLimits, ...]:
    """One device per line, ascending by device. Omitted limits are "max"; "" is no device."""
    found: dict[str, DeviceLimits] = {}
    for line in text.splitlines():
        parts = line.split()
        if not parts:
            continue
        expected = '"MAJOR:MINOR rbps=N wbps=N riops=N wiops=N", each N above 0 or "max"'
        limits: dict[str, int | None] = {}
        for part in parts[1:]:
            name, _, amount = part.partition("=")
            if name not in DEVICE_LIMITS or name in limits:
                raise InvalidInput(str(Knob.IO_MAX), line, expected)
            limits[name] = (
                None if amount == UNLIMITED else _number(Knob.IO_MAX, amount, 1, MAX_BYTES, f"{expected}; not {part}")
            )
        if not _DEVICE.fullmatch(parts[0]) or parts[0] in found:
            raise InvalidInput(str(Knob.IO_MAX), line, expected)
        found[parts[0]] = DeviceLimits(parts[0], **limits)
    return tuple(found[device] for device in sorted(found, key=lambda name: tuple(map(int, name.split(":")))))


def is_default(knob: Knob, value: str) -> bool:
    """Whether a canonical value is the one that a knob has where nobody set it. A CPU set is the parent's when it
    is empty.
    """
    match knob:
        case Knob.CPU_MAX:
            return value.startswith(f"{UNLIMITED} ")
        case Knob.MEMORY_HIGH | Knob.MEMORY_MAX:
            return value == UNLIMITED
        case Knob.CPU_WEIGHT:
            return value == "100"
        case Knob.IO_WEIGHT:
            return value == "default 100"
        case Knob.NETWORK_RATE | Knob.GPU_CLOCKS:
            return value == UNLIMITED
        case Knob.GPU_TIMESLICE:
            return value == TIME_SLICES[0]
        case Knob.MPS_THREADS:
            return value == "100"
        case Knob.CPUSET_CPUS | Knob.IO_MAX:
            return value == ""
        case (
            Knob.CPU_IDLE
            | Knob.CPU_BURST
            | Knob.CGROUP_FREEZE
            | Knob.MEMORY_MIN
            | Knob.MEMORY_LOW
            | Knob.NETWORK_DELAY
            | Knob.NETWORK_LOSS
        ):
            return value == "0"
        case _:
            return False


def is_form_of(knob: Knob, stands: str, written: str) -> bool:
    """Whether this canonical value may be how a kernel, or systemd in its place, shows the one that was written: a
    quota of the same CPU within a hundredth, memory in whole pages. True of other knobs: their forms are not known.
    """
    if knob is Knob.CPU_MAX:
        shown, asked = parse_cpu_max(stands), parse_cpu_max(written)
        if shown.quota_us is None or asked.quota_us is None:
            return shown.quota_us == asked.quota_us
        cpu, wanted = shown.quota_us * asked.period_us, asked.quota_us * shown.period_us
        return abs(cpu - wanted) * 100 <= wanted
    if knob in _OF_MEMORY:
        bytes_shown, bytes_asked = parse_bytes(knob, stands), parse_bytes(knob, written)
        if bytes_shown is None or bytes_asked is None:
            return bytes_shown == bytes_asked
        return abs(bytes_shown - bytes_asked) < _LARGEST_PAGE_BYTES
    return True


def canonical(knob: Knob, text: str) -> str:
    """The canonical text of a cgroup knob's value. Raises `InvalidInput` where it is invalid."""
    field = str(knob)
    match knob:
        case Knob.CPU_MAX:
            return str(parse_cpu_max(text))
        case Knob.CPU_BURST:
            return str(_number(knob, text.strip(), 0, MAX_BYTES // 1000, "microseconds"))
        case Knob.CPU_WEIGHT:
            return str(_number(knob, text.strip(), 1, 10_000, "a weight of 1 to 10000"))
        case Knob.CPU_IDLE | Knob.CGROUP_FREEZE:
            return str(_number(knob, text.strip(), 0, 1, "0 or 1"))
        case Knob.CPUSET_CPUS:
            return format_cpus(parse_cpus(text, field))
        case Knob.MEMORY_MIN | Knob.MEMORY_LOW | Knob.MEMORY_HIGH | Knob.MEMORY_MAX:
            amount = parse_bytes(knob, text)
            return UNLIMITED if amount is None else str(amount)
        case Knob.MEMORY_RECLAIM:
            return str(_number(knob, text.strip(), 0, MAX_BYTES, "bytes"))
        case Knob.NETWORK_RATE:
            rate_bits = parse_rate(text)
            return UNLIMITED if rate_bits is None else str(rate_bits)
        case Knob.NETWORK_DELAY:
            return str(_number(knob, text.strip(), 0, MAX_DELAY_US, f"0 to {MAX_DELAY_US} microseconds"))
        case Knob.NETWORK_LOSS:
            return str(_number(knob, text.strip(), 0, MAX_LOSS_PPM, f"0 to {MAX_LOSS_PPM} of a million packets"))
        case Knob.GPU_POWER:
            return str(_number(knob, text.strip(), 1, MAX_POWER_MW, "milliwatts"))
        case Knob.GPU_CLOCKS:
            clocks = parse_clocks(text)
            return UNLIMITED if clocks is None else f"{clocks[0]} {clocks[1]}"
        case Knob.GPU_TIMESLICE:
            if text.strip() not in TIME_SLICES:
                raise InvalidInput(field, text, f"one of {', '.join(TIME_SLICES)}")
            return text.strip()
        case Knob.GPU_MIG:
            return format_profiles(parse_profiles(text))
        case Knob.MPS_THREADS:
            return str(_number(knob, text.strip(), 1, 100, "1 to 100 percent"))
        case Knob.MPS_MEMORY:
            return str(_number(knob, text.strip(), 1, MAX_DEVICE_MIB, "MiB"))
        case Knob.IO_WEIGHT:
            return f"default {parse_io_weight(text)}"
        case Knob.IO_MAX:
            return "\n".join(str(limits) for limits in parse_io_max(text))
        case _:
            raise InvalidInput("knob", field, "one of a cgroup")
