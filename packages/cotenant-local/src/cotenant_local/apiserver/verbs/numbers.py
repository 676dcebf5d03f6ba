"""Numbers in requests: resourceVersions and integers as text, with bounds.

Python converts no text of more than 4,300 digits, and calendars and timers accept no number of 64 bits. A number is
bounded where it is parsed, with the message that Go's strconv gives.
Limits: a shown value is cut at 64 characters.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import ApiError

MAX_INTEGER = (1 << 63) - 1
MAX_DIGITS = 20  # of a number of 64 bits
_MAX_VERSION = (1 << 64) - 1
_SHOWN = 64


def shortened(text: str) -> str:
    """A value as errors show it."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def parse_version(text: str) -> int:
    """A resourceVersion parameter, 0 for none. Raises ApiError 400."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise _invalid(text, "invalid syntax")
    digits = text.lstrip("0")
    if len(digits) > MAX_DIGITS or int(digits or "0") > _MAX_VERSION:
        raise _invalid(text, "value out of range")
    return int(digits or "0")


def _invalid(text: str, why: str) -> ApiError:
    value = shortened(text)
    message = f'resourceVersion: Invalid value: "{value}": strconv.ParseUint: parsing "{value}": {why}'
    return ApiError(400, "BadRequest", f"invalid resource version: {message}")
