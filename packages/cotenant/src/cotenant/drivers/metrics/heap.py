"""What of a process's memory is in use.

A resident set that grows may hold more and more objects, or the free parts of a fragmented heap; the figure alone does
not tell. The C library's own account (glibc's `mallinfo2`: bytes in use and free) and CPython's number of allocated
blocks, read when a scrape asks. Objects up to 512 bytes are counted as blocks only: CPython keeps them in arenas of its
own.
Limits: glibc 2.33 or newer; elsewhere only the blocks are reported. A call walks the free lists, about a millisecond
for a heap of 400 MB.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class _Mallinfo2(ctypes.Structure):
    """`struct mallinfo2` of malloc.h: ten numbers of type size_t."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


@dataclass(frozen=True, slots=True)
class HeapBytes:
    """The C heap: allocated to the program, and kept free for it."""

    in_use: int
    free: int


def heap_bytes() -> HeapBytes | None:
    """The C heap now; None where the C library does not tell."""
    try:
        read = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return None
    read.restype = _Mallinfo2
    found = read()
    return HeapBytes(in_use=found.uordblks + found.hblkhd, free=found.fordblks)


class HeapCollector(Collector):
    """`cotenant_heap_bytes` by state, and `cotenant_python_blocks`."""

    def __init__(self, heap: Callable[[], HeapBytes | None] = heap_bytes) -> None:
        self._heap = heap

    def collect(self) -> Iterator[Metric]:
        """The values now."""
        found = self._heap()
        if found is not None:
            family = GaugeMetricFamily(
                "cotenant_heap_bytes",
                "The C heap: bytes in use, and bytes that are free and kept.",
                labels=("state",),
            )
            family.add_metric(("in_use",), found.in_use)
            family.add_metric(("free",), found.free)
            yield family
        yield GaugeMetricFamily(
            "cotenant_python_blocks", "Memory blocks that CPython has allocated.", value=sys.getallocatedblocks()
        )
