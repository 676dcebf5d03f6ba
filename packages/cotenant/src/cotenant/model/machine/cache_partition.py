"""The partitionable last-level cache and memory bandwidth of a machine.

A driver reads these properties and a policy decides by them. One value, validated on construction.
Limits: level 3 only, one mask for code and data.

Source: Linux, Documentation/filesystems/resctrl.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import InvalidInput


class Bandwidth(StrEnum):
    """The unit in which memory bandwidth is limited."""

    NONE = "none"  # the hardware cannot limit it
    PERCENT = "percent"  # Intel: percent of the maximum, in steps
    ABSOLUTE = "absolute"  # AMD: eighths of GB/s


@dataclass(frozen=True, slots=True)
class CacheHardware:
    """What can be partitioned. Raises `InvalidInput` where it is inconsistent."""

    ways: int  # bits of a cache mask
    cache_domains: tuple[int, ...]  # ids of last-level caches
    min_ways: int = 1
    bandwidth: Bandwidth = Bandwidth.NONE
    bandwidth_domains: tuple[int, ...] = ()
    step_percent: int = 10
    min_percent: int = 10
    max_groups: int = 0  # maximum number of classes of service, the root included; 0 = unknown

    def __post_init__(self) -> None:
        if not 1 <= self.min_ways <= self.ways <= 64:
            raise InvalidInput("cache ways", self.ways, "1 to 64, and not less than min_ways (1 or more)")
        if not self.cache_domains:
            raise InvalidInput("cache domains", "none", "the id of each last-level cache")
        for name in ("step_percent", "min_percent"):
            if not 1 <= getattr(self, name) <= 100:
                raise InvalidInput(f"bandwidth {name}", getattr(self, name), "1 to 100")
