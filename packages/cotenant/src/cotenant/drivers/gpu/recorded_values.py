"""Numbers as GPU tools print them: with units, and with words where there is none."""

from __future__ import annotations

import re
from math import isfinite

MAX_BYTES = 8 << 20  # of a recording
MAX_PROCESSES = 20_000  # of a GPU
_NUMBER = re.compile(r"\s*(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z%/]*)\s*")
_UNITS = {
    "": 1.0,
    "%": 10.0,  # to thousandths
    "B": 1.0,
    "KB/s": 1000.0,
    "MB": 1e6,
    "MiB": float(1 << 20),
    "GiB": float(1 << 30),
    "MHz": 1.0,
    "W": 1000.0,  # to milliwatts
}
_MOST, _WHOLE = 2**62, 1000

# Of NVML's clocks event reasons; idleness and clocks that were asked for slow nobody down against their will.
THROTTLING = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}


def amount(text: str | None, unit: str | None = None) -> int | None:
    """A number in its base: bytes, thousandths, milliwatts, MHz; None for N/A, other words, and what is out of range.
    `unit`: where the text has none.
    """
    found = _NUMBER.fullmatch(text or "")
    scale = _UNITS.get((found[2] or unit or "") if found else "?")
    if found is None or scale is None:
        return None
    value = float(found[1]) * scale
    most = _WHOLE if (found[2] or unit) == "%" else _MOST
    return round(value) if isfinite(value) and 0 <= value <= most else None


def reasons(mask: int | None) -> tuple[str, ...]:
    """The reasons in a mask of NVML's."""
    return tuple(name for bit, name in THROTTLING.items() if (mask or 0) & bit)
