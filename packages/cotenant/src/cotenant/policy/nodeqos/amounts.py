"""Exact amounts in the text of a reason, to the milli-CPU.

The numbers in a reason's text must add up like its terms. No rounding.
Limits: CPU only.
"""

from __future__ import annotations


def cpu_text(cpu_m: int) -> str:
    """3200 -> "3.2"; -400 -> "-0.4"."""
    sign = "-" if cpu_m < 0 else ""
    whole, rest = divmod(abs(cpu_m), 1000)
    return f"{sign}{whole}" + (f".{rest:03d}".rstrip("0") if rest else "")


def percent_text(ppm: int) -> str:
    """125_000 -> "12.5 %"; rounded down to a tenth of a percent."""
    return cpu_text(ppm // 1000 * 100) + " %"
