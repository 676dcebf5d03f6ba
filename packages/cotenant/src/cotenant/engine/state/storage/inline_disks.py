"""Disks that pods name themselves, and the rows on which another pod's use conflicts.

A disk without a claim has no object that says who may attach it; two pods on one node may share it only for reading.
Assigned uses are kept by the disk's identity, so a pod is compared only with the users of its own disks.
Limits: none of its own.
Source: kube-scheduler's VolumeRestrictions plugin.
"""

from __future__ import annotations

from collections.abc import Iterator

from cotenant.model.cluster.observed import InlineDisk

REASON = "node(s) had no available disk"


class InlineDisks:
    """The uses of disks by assigned pods."""

    def __init__(self) -> None:
        self._users: dict[str, dict[int, tuple[int, InlineDisk]]] = {}  # identity -> pod's number -> row and use

    def assign(self, number: int, row: int, disk: InlineDisk) -> None:
        """An assigned pod uses the disk on its row."""
        self._users.setdefault(disk.identity, {})[number] = row, disk

    def unassign(self, number: int, disk: InlineDisk) -> None:
        """A pod leaves its row."""
        users = self._users[disk.identity]
        del users[number]
        if not users:
            del self._users[disk.identity]

    def conflicts(self, number: int, disk: InlineDisk) -> Iterator[tuple[int, int]]:
        """The other pods whose use conflicts with this one on their row: number and row."""
        for other, (row, used) in self._users.get(disk.identity, {}).items():
            if other != number and used.conflicts(disk):
                yield other, row
