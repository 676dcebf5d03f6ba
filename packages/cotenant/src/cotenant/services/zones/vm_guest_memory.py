"""Memory and disk of the groups in a zone's guest: what each waits for, what is protected, what is reclaimed.

As `protection.py` does on the host by leases, and written directly here, where nobody else writes: the guest and its
groups end with the zone. The kernel protects a group's memory only as far as the groups above it are protected, so
those have the sum of what is below. A kernel that lacks a file says so once in each answer (`refused`), and the zone's
trial ends. Standard library only.

Source: Documentation/admin-guide/cgroup-v2.rst, Documentation/accounting/psi.rst.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_USUAL_IO_WEIGHT = 100


def delegate(folder: Path) -> None:
    """Let the groups below this one have these controllers, each where the guest's kernel has it."""
    for controller in ("cpu", "memory", "io"):
        try:
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError:
            if controller == "cpu":
                raise


class GuestMemory:
    """The groups below `tree`. `refused`: what the kernel did not take, by group and file."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._low: dict[str, int] = {}
        self._io: dict[str, int] = {}
        self.refused: dict[str, str] = {}

    def protect(self, rows: Mapping[str, dict[str, Any]]) -> None:
        """Exactly what the rows say; what they do not say any more is as it was before."""
        low: dict[str, int] = {}
        for group, row in rows.items():
            amount = int(row.get("memoryLow", 0))
            parts = group.split("/")
            for length in range(1, len(parts) + 1) if amount else ():
                place = "/".join(parts[:length])
                low[place] = low.get(place, 0) + amount
        io = {group: int(row["ioWeight"]) for group, row in rows.items() if row.get("ioWeight")}
        for group in sorted(low.keys() | self._low.keys()):
            self._write(group, "memory.low", str(low.get(group, 0)), self._low.get(group) == low.get(group))
        for group in sorted(io.keys() | self._io.keys()):
            weight = io.get(group, _USUAL_IO_WEIGHT)
            self._write(group, "io.weight", f"default {weight}", self._io.get(group) == io.get(group))
        self._low, self._io = low, io

    def reclaim(self, steps: Iterable[tuple[str, int]]) -> None:
        """Ask the kernel to reclaim so many bytes of each group; it takes what it finds, which may take a while."""
        for group, amount in steps:
            self._write(group, "memory.reclaim", str(int(amount)), False)

    def counted(self, groups: Iterable[str]) -> dict[str, Any]:
        """Of each group the microseconds in which a task of it waited for memory and for disk, and what it is charged
        with, at this time of the guest; a group without one of them is left out.
        """
        found: dict[str, list[int]] = {}
        for group in groups:
            folder = self._tree / group
            with suppress(OSError, ValueError, IndexError):
                found[group] = [
                    _some_us((folder / "memory.pressure").read_text()),
                    _some_us((folder / "io.pressure").read_text()),
                    int((folder / "memory.current").read_text()),
                ]
        return {"atUs": time.monotonic_ns() // 1000, "groups": found, "refused": dict(sorted(self.refused.items()))}

    def _write(self, group: str, file: str, text: str, unchanged: bool) -> None:
        if unchanged:
            return
        name, path = f"{group} {file}", self._tree / group / file
        try:
            with path.open("r+") as knob:  # makes no file where the kernel has none
                knob.write(text)
        except OSError as error:
            if error.errno == errno.EAGAIN:  # of memory.reclaim: less was found than asked for
                return
            self.refused[name] = error.strerror or str(error)
            return
        self.refused.pop(name, None)


def _some_us(text: str) -> int:
    return int(text.split("\n", 1)[0].rpartition("total=")[2])
