"""Parsing of *.pressure files.

One line each for "some avg10=.. total=N" and "full .."; "full" is missing for the CPU on kernels before 5.13. Only the
totals are read, the averages follow from them.
Limits: a text that ends within a number is not a reading: None.

Source: Linux, Documentation/accounting/psi.rst.
"""

from __future__ import annotations

from cotenant.model.machine.counters import Stall
from cotenant.model.whole_number import whole_number


def parse_pressure(text: bytes) -> Stall | None:
    """The totals in microseconds; `full_us` is 0 where there is no such line."""
    some_us = _total(text, b"some ")
    if some_us is None:
        return None
    full_us = _total(text, b"full ")
    if full_us is None:
        return Stall(some_us, 0) if b"full" not in text else None
    return Stall(some_us, full_us)


def _total(text: bytes, line: bytes) -> int | None:
    start = text.find(line)
    if start < 0 or (start and text[start - 1] != 10):
        return None
    end = text.find(b"\n", start)
    at = text.find(b"total=", start, end) if end >= 0 else -1
    return whole_number(text[at + 6 : end]) if at >= 0 else None
