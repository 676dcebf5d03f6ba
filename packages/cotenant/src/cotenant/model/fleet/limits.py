"""Limits as people write them, and the knobs that they are."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.knob_values import canonical, parse_cpu_max
from cotenant.model.quantities import format_bytes, format_milli, milli, whole

_PERIOD_US = 100_000
NAMES: Mapping[str, Knob] = {"cpu": Knob.CPU_MAX, "memory": Knob.MEMORY_MAX, "cpus": Knob.CPUSET_CPUS}


def knobs_of(limits: Mapping[str, str]) -> tuple[dict[Knob, str], tuple[Knob, ...]]:
    """Canonical values by knob, and the knobs to give back (an empty value).

    Raises `InvalidInput` that names the limit.
    """
    if not limits:
        raise InvalidInput("limits", "", "at least one of " + ", ".join(NAMES), "as cpu=2")
    wanted: dict[Knob, str] = {}
    given_back = []
    for name, text in limits.items():
        knob = NAMES.get(name)
        if knob is None:
            raise InvalidInput("limits", name, "one of " + ", ".join(NAMES))
        if text == "":
            given_back.append(knob)
        else:
            wanted[knob] = _value(name, knob, text)
    return wanted, tuple(given_back)


def shown_limit(knob: Knob, value: str) -> str:
    """A knob's value as people write it."""
    name = next((name for name, known in NAMES.items() if known is knob), str(knob))
    if knob is Knob.CPU_MAX:
        cpu_milli = parse_cpu_max(value).cpu_m
        return f"{name}={format_milli(cpu_milli) if cpu_milli is not None else 'max'}"
    if knob is Knob.MEMORY_MAX and value.isdecimal():
        return f"{name}={format_bytes(int(value))}"
    return f"{name}={value}"


def _value(name: str, knob: Knob, text: str) -> str:
    if knob is Knob.CPU_MAX:
        amount = milli(text, name)
        if amount < 10:
            raise InvalidInput(name, text, "10m CPU or more")
        return f"{amount * _PERIOD_US // 1000} {_PERIOD_US}"
    if knob is Knob.MEMORY_MAX:
        amount = whole(text, name)
        if amount < 1 << 20:
            raise InvalidInput(name, text, "1Mi or more")
        return str(amount // 4096 * 4096)
    try:
        return canonical(knob, text)
    except InvalidInput as error:
        raise InvalidInput(name, text, error.expected, error.hint) from None
