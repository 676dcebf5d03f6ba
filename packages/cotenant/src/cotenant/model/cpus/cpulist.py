"""CPU lists in the kernel's notation: "0-3,8".

Cpusets, sysfs and policies exchange sets of CPUs as text. One parser and one formatter; the output is the shortest
text, as the kernel prints it, so equal sets have equal text.
Limits: no strides ("0-10:2/4"); numbers below 8192, the largest NR_CPUS of Linux.

Source: Linux, `bitmap_parselist` and "%*pbl" (lib/bitmap-str.c).
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.model.errors import InvalidInput

LARGEST = 8191
_EXPECTED = "CPU numbers and ranges such as 0-3,8"


def parse_cpus(text: str, field: str = "cpus") -> tuple[int, ...]:
    """The CPUs named, ascending, without duplicates. "" (or only white space) is the empty set. Raises
    `InvalidInput` on `field`.
    """
    found: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        first, dash, last = part.strip().partition("-")
        bounds = (first, last) if dash else (first, first)
        if not all(bound.isascii() and bound.isdigit() and len(bound) <= 5 for bound in bounds):
            raise InvalidInput(field, text, _EXPECTED)
        low, high = int(bounds[0]), int(bounds[1])
        if low > high or high > LARGEST:
            raise InvalidInput(field, text, _EXPECTED, f"{part.strip()!r} is no range within 0-{LARGEST}")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def format_cpus(cpus: Iterable[int]) -> str:
    """The shortest list that denotes exactly these CPUs."""
    parts: list[str] = []
    first = last = -2
    for cpu in sorted(set(cpus)):
        if cpu == last + 1:
            last = cpu
            continue
        if first >= 0:
            parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = cpu
    if first >= 0:
        parts.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(parts)
