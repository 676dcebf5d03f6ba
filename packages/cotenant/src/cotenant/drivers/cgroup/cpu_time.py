"""CPU time of a few groups, and nothing else of them: for looks between two samples.

One read a group, by a descriptor that stays open. A group that is gone, or was made again under its name, is left out
and opened anew at the next reading.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from cotenant.drivers.cgroup import parsing
from cotenant.drivers.cgroup.files import CgroupTree
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.model.errors import Unsupported

_READ_BYTES = 4096


class CpuTimes:
    """Holds the tree, and a descriptor for each group of the last reading, until `close`."""

    def __init__(self, layout: CgroupLayout) -> None:
        """Raises `Unsupported`."""
        hierarchy = layout.by_controller.get("cpuacct") or layout.unified
        if hierarchy is None:
            raise Unsupported("CPU time of groups", "a tree with cpuacct, or of version 2")
        self._nanoseconds = hierarchy.version == 1
        self._name = "cpuacct.usage" if self._nanoseconds else "cpu.stat"
        try:
            self._tree = CgroupTree(hierarchy.path)
        except OSError as error:
            raise Unsupported("CPU time of groups", f"{hierarchy.path} ({error.strerror})") from error
        self._descriptors: dict[str, int] = {}

    def close(self) -> None:
        """Close all."""
        for group in list(self._descriptors):
            self._drop(group)
        self._tree.close()

    def read(self, groups: Sequence[str]) -> dict[str, int]:
        """Microseconds by group; without those that cannot be read."""
        for group in self._descriptors.keys() - set(groups):
            self._drop(group)
        found = {}
        for group in groups:
            used_us = self._read(group)
            if used_us is not None:
                found[group] = used_us
        return found

    def _read(self, group: str) -> int | None:
        try:
            if group not in self._descriptors:
                self._descriptors[group] = self._tree.open(group, self._name)
            text = os.pread(self._descriptors[group], _READ_BYTES, 0)
        except OSError:
            self._drop(group)
            return None
        used = parsing.number(text) if self._nanoseconds else parsing.field(text, b"usage_usec ")
        return used // 1000 if used is not None and self._nanoseconds else used

    def _drop(self, group: str) -> None:
        descriptor = self._descriptors.pop(group, None)
        if descriptor is not None:
            os.close(descriptor)
