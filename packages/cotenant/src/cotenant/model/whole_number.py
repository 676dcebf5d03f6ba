"""Whole numbers in text from outside: files of the kernel, annotations, query strings.

`int()` takes signs, spaces, underscores and digits of every script, and refuses more than 4,300 digits with an error
that readers do not expect; `str.isdecimal` protects from neither. 1 to 20 ASCII digits, which holds every unsigned
number of 64 bits.
Limits: no signs.
"""

from __future__ import annotations

MAX_DIGITS = 20  # of 2^64 - 1


def whole_number(text: bytes | str) -> int | None:
    """The number; None for anything but 1 to `MAX_DIGITS` ASCII digits."""
    return int(text) if len(text) <= MAX_DIGITS and text.isascii() and text.isdigit() else None
