"""Durations as Go writes them."""

from __future__ import annotations

import re
from math import isfinite

from cotenant.model.errors import InvalidInput

_PARTS = re.compile(r"([0-9]*\.?[0-9]+)(ns|us|µs|ms|s|m|h)")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_CLOCK = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})(?:\.[0-9]+)?s)?")


def duration_s(text: str, field: str) -> float:
    """A duration as Go writes it ("1h30m", "90s"). Raises `InvalidInput`."""
    parts = _PARTS.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidInput(field, text, 'a duration such as "10m" or "90s"')
    total = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    if not isfinite(total):
        raise InvalidInput(field, text, "a duration that is finite")
    return total


def whole_seconds(text: str) -> int | None:
    """Hours, minutes and seconds as Go prints them ("5m0s"), rounded down; None for any other text."""
    found = _CLOCK.fullmatch(text)
    if not text or found is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds
