"""Returns unused pages of the C heap to the kernel once a minute.

Problem: every chunk of a watch is another size between a few hundred bytes and some hundred kilobytes, and small objects that live for minutes come to lie between
them. The heap's free parts then grow by about 40 bytes for each pod that comes and goes, although what is in use stays the same (measured over an hour's worth of
pods: 0 +- 10 bytes a pod in use). Choice: glibc's `malloc_trim`, which gives back whole free pages; it takes about a millisecond for the extender's 25 MiB.
Limits: glibc only; elsewhere nothing is done. Not for the API server of `cotenant up`, whose heap is six times as large: a trim there stopped it for up to 0.17 s.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Awaitable, Callable

PERIOD_S = 60.0


def trim() -> bool:
    """Return unused pages now. Whether the C library can."""
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return False
    found(ctypes.c_size_t(0))
    return True


async def keep_trimmed(
    trim: Callable[[], bool] = trim, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Trim once a period, until cancelled."""
    while True:
        await sleep(PERIOD_S)
        trim()
