"""Names of kernel functions by address, from /proc/kallsyms.

The table is read at the first use and kept: it is ten megabytes of text. Without the privilege its addresses are
zeros, and a frame stays a number.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from pathlib import Path


@cache
def _symbols(path: Path) -> tuple[list[int], list[str]]:
    found: list[tuple[int, str]] = []
    try:
        with path.open() as lines:
            for line in lines:
                address, kind, name = line.split()[:3]
                if kind in "tTwW" and int(address, 16):
                    found.append((int(address, 16), name))
    except (OSError, ValueError):
        return [], []
    found.sort()
    return [address for address, _ in found], [name for _, name in found]


def symbol(address: int, path: Path = Path("/proc/kallsyms")) -> str:
    """The function that an address is in."""
    addresses, names = _symbols(path)
    at = bisect_right(addresses, address) - 1
    return names[at] if at >= 0 else hex(address)
