"""Limits as people write them, and the knobs that they are.

Several I/O limits are one knob, so what is held already is part of the next value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.durations import duration_s
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.knob_values import DeviceLimits, canonical, parse_bytes, parse_cpu_max, parse_io_max
from cotenant.model.quantities import format_bytes, format_milli, milli, whole

_PERIOD_US = 100_000
_USUAL: Mapping[str, Knob] = {
    "cpu": Knob.CPU_MAX,
    "memory": Knob.MEMORY_MAX,
    "cpus": Knob.CPUSET_CPUS,
    "weight": Knob.CPU_WEIGHT,
    "idle": Knob.CPU_IDLE,
    "net-up": Knob.NETWORK_RATE,
}
_EXPERIMENTS: Mapping[str, Knob] = {"delay": Knob.NETWORK_DELAY, "loss": Knob.NETWORK_LOSS}
_IO: Mapping[str, str] = {"io-read": "rbps", "io-write": "wbps", "io-read-ops": "riops", "io-write-ops": "wiops"}
EXPERIMENTS = frozenset(_EXPERIMENTS)  # spoil something on purpose: a right and a function of their own
_KNOBS = {**_USUAL, **_EXPERIMENTS}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMG]?)bit(?:/s)?")
_FACTORS = {"": 1, "k": 1_000, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_PERCENT = re.compile(r"(\d{1,2}(?:\.\d{1,4})?)\s*%?")


@dataclass(frozen=True, slots=True)
class IoWish:
    """One I/O limit. `device`: as it was written, empty for all disks; `amount` None lifts it."""

    field: str  # of `DeviceLimits`
    device: str
    amount: int | None


@dataclass(frozen=True, slots=True)
class WantedLimits:
    """What a request asks for."""

    values: Mapping[Knob, str]  # canonical
    given_back: tuple[Knob, ...] = ()
    io: tuple[IoWish, ...] = ()


def wanted_limits(limits: Mapping[str, str], experiments: bool = False) -> WantedLimits:
    """From NAME=VALUE pairs; an empty value gives back. Raises `InvalidInput` that names the limit."""
    names = [*_EXPERIMENTS] if experiments else [*_USUAL, *_IO]
    if not limits:
        raise InvalidInput("limits", "", "at least one of " + ", ".join(names), "as cpu=2")
    values: dict[Knob, str] = {}
    given_back, io = [], []
    for written, text in limits.items():
        name, _, device = written.partition("@")
        if name not in names or (device and name not in _IO):
            raise InvalidInput("limits", written, "one of " + ", ".join(names), "I/O also as io-write@vda=10Mi")
        if name in _IO:
            io.append(IoWish(_IO[name], device, _io_amount(written, text) if text else None))
        elif text == "":
            given_back.append(_KNOBS[name])
        else:
            values[_KNOBS[name]] = _value(name, _KNOBS[name], text)
    return WantedLimits(values, tuple(given_back), tuple(io))


def io_value(held: str, wishes: Iterable[IoWish], disks: tuple[str, ...], number_of: Callable[[str], str]) -> str:
    """The value of io.max that adds these wishes to what is held; empty where no limit is left.

    `disks`: MAJOR:MINOR of those that are meant where none is named; `number_of` a named one's.
    """
    limits = {limit.device: limit for limit in parse_io_max(held)}
    for wish in wishes:
        devices = (number_of(wish.device),) if wish.device else disks if wish.amount is not None else tuple(limits)
        if not devices and wish.amount is not None:
            raise InvalidInput("limits", "io", "a disk to limit", "this host has used none; name it: io-write@vda=10Mi")
        for device in devices:
            limits[device] = _with(limits.get(device, DeviceLimits(device)), wish)
    return canonical(Knob.IO_MAX, "\n".join(str(limit) for limit in limits.values() if not limit.unlimited))


def shown_limit(knob: Knob, value: str) -> str:
    """A knob's value as people write it."""
    name = next((name for name, known in _KNOBS.items() if known is knob), str(knob))
    match knob:
        case Knob.CPU_MAX:
            cpu_milli = parse_cpu_max(value).cpu_m
            return f"{name}={format_milli(cpu_milli) if cpu_milli is not None else 'max'}"
        case Knob.MEMORY_MAX if value.isdecimal():
            return f"{name}={format_bytes(parse_bytes(knob, value) or 0)}"
        case Knob.NETWORK_RATE if value.isdecimal():
            return f"{name}={_shown_rate(int(value))}"
        case Knob.NETWORK_DELAY:
            return f"{name}={int(value) / 1000:g}ms"
        case Knob.NETWORK_LOSS:
            return f"{name}={int(value) / 10_000:g}%"
        case Knob.IO_MAX:
            return " ".join(_shown_io(limits) for limits in parse_io_max(value))
    return f"{name}={value}"


def _with(limits: DeviceLimits, wish: IoWish) -> DeviceLimits:
    match wish.field:
        case "rbps":
            return replace(limits, rbps=wish.amount)
        case "wbps":
            return replace(limits, wbps=wish.amount)
        case "riops":
            return replace(limits, riops=wish.amount)
    return replace(limits, wiops=wish.amount)


def _shown_io(limits: DeviceLimits) -> str:
    found = []
    for name, field in _IO.items():
        amount = getattr(limits, field)
        if amount is not None:
            found.append(f"{name}@{limits.device}={amount if field.endswith('iops') else format_bytes(amount)}")
    return " ".join(found)


def _shown_rate(bits: int) -> str:
    for unit in "GMk":
        if bits >= _FACTORS[unit]:
            return f"{bits / _FACTORS[unit]:g}{unit}bit"
    return f"{bits}bit"


def _io_amount(name: str, text: str) -> int:
    amount = whole(text.removesuffix("B"), name)
    if amount < 1:
        raise InvalidInput(name, text, "1 or more a second, as 10Mi or, of operations, 100")
    return amount


def _value(name: str, knob: Knob, text: str) -> str:
    match knob:
        case Knob.CPU_MAX:
            amount = milli(text, name)
            if amount < 10:
                raise InvalidInput(name, text, "10m CPU or more")
            return f"{amount * _PERIOD_US // 1000} {_PERIOD_US}"
        case Knob.MEMORY_MAX:
            amount = whole(text.removesuffix("B"), name)
            if amount < 1 << 20:
                raise InvalidInput(name, text, "1Mi or more")
            return str(amount // 4096 * 4096)
        case Knob.NETWORK_RATE:
            found = _RATE.fullmatch(text.strip())
            if found is None:
                raise InvalidInput(name, text, "a rate as 20Mbit or 500kbit")
            text = str(int(float(found[1]) * _FACTORS[found[2]]))
        case Knob.NETWORK_DELAY:
            text = str(round(duration_s(name, text) * 1e6))
        case Knob.NETWORK_LOSS:
            found = _PERCENT.fullmatch(text.strip())
            if found is None:
                raise InvalidInput(name, text, "a share of the packets as 1% or 0.05%, below 100%")
            text = str(round(float(found[1]) * 10_000))
    try:
        return canonical(knob, text)
    except InvalidInput as error:
        raise InvalidInput(name, text, error.expected, error.hint) from None
