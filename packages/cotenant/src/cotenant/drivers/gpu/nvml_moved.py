"""Bytes that a card moved over PCIe and NVLink, as rates between two readings of NVML's counters.

NVML's own throughput of PCIe would take 20 ms for each direction.

Source: NVML API reference, "Field Value Enums".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_PCIE = ("NVML_FI_DEV_PCIE_COUNT_TX_BYTES", "NVML_FI_DEV_PCIE_COUNT_RX_BYTES")
_NVLINK = ("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX")
_ALL_LINKS = 0xFFFFFFFF
_KIB = 1024
_Count = tuple[int, int]  # bytes so far, and the driver's time of that in microseconds


class CardBytes:
    """Of one card, between two readings. None for a first one."""

    def __init__(self) -> None:
        self._moved: _Count | None = None
        self._linked: _Count | None = None

    def pcie_bps(self, nvml: Any, handle: Any) -> int | None:
        """Sent and received. Raises NVML's error."""
        before, self._moved = self._moved, None
        self._moved = _count(nvml, nvml.nvmlDeviceGetFieldValues(handle, [getattr(nvml, name) for name in _PCIE]))
        return _rate(before, self._moved)

    def nvlink_bps(self, nvml: Any, handle: Any) -> int | None:
        """As over PCIe, over all links. A card without links does not know the counters, which is no gap."""
        before, self._linked = self._linked, None
        try:
            asked = [(getattr(nvml, name), _ALL_LINKS) for name in _NVLINK]
            found = _count(nvml, nvml.nvmlDeviceGetFieldValues(handle, asked))
        except nvml.NVMLError:
            found = None
        self._linked = None if found is None else (found[0] * _KIB, found[1])
        return _rate(before, self._linked)


def _count(nvml: Any, answers: Sequence[Any]) -> _Count | None:
    """The sum of the fields; None where one is not answered."""
    if any(one.nvmlReturn != nvml.NVML_SUCCESS for one in answers):
        return None
    is_short = nvml.NVML_VALUE_TYPE_UNSIGNED_INT
    values = [one.value.uiVal if one.valueType == is_short else one.value.ullVal for one in answers]
    return sum(map(int, values)), int(answers[0].timestamp)


def _rate(before: _Count | None, now: _Count | None) -> int | None:
    """Bytes a second; None for a first reading, one without time between, and a counter that wrapped."""
    if before is None or now is None or now[0] < before[0] or now[1] <= before[1]:
        return None
    return (now[0] - before[0]) * 1_000_000 // (now[1] - before[1])
