"""The scheduling slice of best-effort tasks, as a person names it."""

from __future__ import annotations

from cotenant.drivers.cgroup.slices import MAX_US
from cotenant.model.errors import InvalidInput


def checked_slice_ms(field: str, slice_ms: int) -> int:
    """The value. Raises `InvalidInput`."""
    if not 0 <= slice_ms <= MAX_US // 1000:
        raise InvalidInput(field, slice_ms, f"0 to {MAX_US // 1000} milliseconds", "0 leaves the kernel's own")
    return slice_ms
