"""Durations as people and compose files write them: 10m, 1h30m, 1.5s, 500ms."""

from __future__ import annotations

import re

from cotenant.model.errors import InvalidInput

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|h|m|s)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration_s(field: str, text: str | int | float) -> float:
    """Seconds. Raises `InvalidInput`."""
    if isinstance(text, int | float) and not isinstance(text, bool) and text >= 0:
        return float(text)
    written = str(text).strip().replace(" ", "")
    parts = _PART.findall(written)
    if not parts or "".join(number + unit for number, unit in parts) != written:
        raise InvalidInput(field, text, "a duration such as 10m, 1h30m, 1.5s or 500ms")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
