"""Rounded amounts in the text of a reason: `3.2 CPU`, `25.2 GB`, `95 %`.

Users read the sentence, programs read the terms, and both must agree. The sentence rounds, the terms are exact.
Limits: decimal units only.
"""

from __future__ import annotations

_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def cpu(milli: int) -> str:
    """Milli-CPU as CPUs: `cpu(3200)` is `3.2 CPU`."""
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".") + " CPU"


def size(count_bytes: int) -> str:
    """Bytes in the largest decimal unit not above the amount, to one decimal place."""
    for unit, name in _UNITS:
        if abs(count_bytes) >= unit:
            return f"{count_bytes / unit:.1f} {name}"
    return f"{count_bytes} B"


def rate(bits_per_s: int) -> str:
    """Bits per second in the largest decimal unit not above the rate."""
    for unit, name in ((10**9, "Gbit/s"), (10**6, "Mbit/s"), (10**3, "kbit/s")):
        if abs(bits_per_s) >= unit:
            return f"{bits_per_s / unit:.1f} {name}"
    return f"{bits_per_s} bit/s"


def percent(ppm: int) -> str:
    """Millionths as a percentage, to one decimal place."""
    return f"{ppm / 10_000:.1f} %"


def seconds(us: int) -> str:
    """Microseconds as seconds, to one decimal place."""
    return f"{us / 1_000_000:.1f} s"
