"""How many volumes of a CSI driver a node can still attach.

A node attaches a limited number of a driver's volumes; pods that share a volume need it once, and volumes may be
attached of which no pod is known. The distinct volumes of each row are counted by driver, and a row is feasible where
its volumes and the pod's further ones stay within the limit. Counts exist only for drivers that some node limits;
without such a node a pod costs nothing more.
Limits: counts are made again after a node is added or removed, or its labels change. For preemption a resident frees
the volumes that it alone uses: volumes that two victims share are not found.
Source: kube-scheduler's NodeVolumeLimits plugin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.observed import Attachment, NodeStorage

REASON = "node(s) exceed max volume count"
PLUGIN = "NodeVolumeLimits"
_UNLIMITED = np.int64(1) << np.int64(60)


class DriverTotals(NamedTuple):
    """For one driver: the volumes of each row, and how many may be there beside the pod; more than can be where the
    pod adds none.
    """

    driver: str
    held: Int  # [N]
    limit: Int  # [N]


class AttachLimits:
    """The volumes of every row by driver, and the limits of nodes. Rows are the encoder's."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._storage: dict[str, NodeStorage] = {}  # by node name
        self._limiting: Counter[str] = Counter()  # driver -> nodes that limit it
        self._attached_at: dict[Attachment, set[str]] = {}  # names of nodes
        self._users: dict[Attachment, Counter[int]] = {}  # row -> assigned pods
        self._counts: dict[str, Int] = {}  # by driver: [N] distinct volumes
        self._limits: dict[str, Int] = {}  # by driver: [N]
        self._revision = -1  # of the labels of nodes, when counts and limits were made

    def set_storage(self, storage: NodeStorage) -> bool:
        """What a node can attach and has attached now. Whether anything changed."""
        before = self._storage.get(storage.node, NodeStorage(storage.node))
        if storage == before:
            return False
        if storage.limits or storage.attached:
            self._storage[storage.node] = storage
        else:
            del self._storage[storage.node]
        self._limiting.subtract(driver for driver, _ in before.limits)
        self._limiting.update(driver for driver, _ in storage.limits)
        for attachment in before.attached - storage.attached:
            self._attached_at[attachment].discard(storage.node)
            if not self._attached_at[attachment]:
                del self._attached_at[attachment]
        for attachment in storage.attached - before.attached:
            self._attached_at.setdefault(attachment, set()).add(storage.node)
        if before.limits != storage.limits:
            self._revision = -1
        else:
            row = self._encoder.node_rows.get(storage.node, -1)
            for attachment in before.attached ^ storage.attached:
                if row >= 0 and not self._is_used(attachment, row):
                    self._add(attachment.driver, row, 1 if attachment in storage.attached else -1)
        return True

    def storages(self) -> tuple[NodeStorage, ...]:
        """What is known of nodes."""
        return tuple(self._storage.values())

    def is_limited(self, driver: str) -> bool:
        """Whether some node limits the volumes of a driver."""
        return self._limiting[driver] > 0

    def assign(self, attachments: Iterable[Attachment], row: int) -> None:
        """A pod with these volumes is assigned to a row."""
        for attachment in set(attachments):
            here = self._users.setdefault(attachment, Counter())
            here[row] += 1
            if here[row] == 1 and not self._is_attached(attachment, row):
                self._add(attachment.driver, row, 1)

    def unassign(self, attachments: Iterable[Attachment], row: int) -> None:
        """A pod with these volumes leaves its row."""
        for attachment in set(attachments):
            here = self._users[attachment]
            here[row] -= 1
            if not here[row]:
                del here[row]
                if not here:
                    del self._users[attachment]
                if not self._is_attached(attachment, row):
                    self._add(attachment.driver, row, -1)

    def totals(self, attachments: Iterable[Attachment]) -> Iterator[DriverTotals]:
        """For each driver of these volumes that some node limits: what rows hold, and what they may hold beside a
        pod with them.
        """
        by_driver: dict[str, set[Attachment]] = {}
        for attachment in attachments:
            if self.is_limited(attachment.driver):
                by_driver.setdefault(attachment.driver, set()).add(attachment)
        for driver, wanted in by_driver.items():
            counts, limits = self._of(driver)
            new = np.full(len(counts), len(wanted), dtype=np.int64)
            for attachment in wanted:
                present = set(self._users.get(attachment, ()))
                present.update(self._rows(self._attached_at.get(attachment, ())))
                new[list(present)] -= 1
            yield DriverTotals(driver, counts, np.where(new > 0, limits - new, _UNLIMITED))

    def feasible(self, attachments: Iterable[Attachment]) -> Mask | None:
        """`bool[N]`: rows that can attach these volumes; None where no node limits them."""
        mask: Mask | None = None
        for total in self.totals(attachments):
            fits = total.held <= total.limit
            mask = fits if mask is None else mask & fits
        return mask

    def freed(
        self, driver: str, attachments: Iterable[Attachment], row: int, wanted: Callable[[Attachment], bool]
    ) -> int:
        """How many of a driver's volumes a resident with these would free on its row, without those that are
        `wanted` there.
        """
        return sum(
            attachment.driver == driver
            and self._users[attachment][row] == 1
            and not self._is_attached(attachment, row)
            and not wanted(attachment)
            for attachment in set(attachments)
        )

    def _of(self, driver: str) -> tuple[Int, Int]:
        size = self._encoder.all_rows
        if self._revision != self._encoder.labels_revision:
            self._revision = self._encoder.labels_revision
            self._counts.clear()
            self._limits.clear()
        counts = self._counts.get(driver)
        if counts is None or len(counts) != size:
            counts = self._counts[driver] = np.zeros(size, dtype=np.int64)
            for row, _ in self._present(driver):
                counts[row] += 1
            limits = self._limits[driver] = np.full(size, _UNLIMITED, dtype=np.int64)
            for storage in self._storage.values():
                row = self._encoder.node_rows.get(storage.node, -1)
                limit = dict(storage.limits).get(driver)
                if row >= 0 and limit is not None:
                    limits[row] = limit
        return counts, self._limits[driver]

    def _present(self, driver: str) -> set[tuple[int, Attachment]]:
        """The volumes of a driver on every row, by pods or attached."""
        found = {(row, user) for user, here in self._users.items() if user.driver == driver for row in here}
        for attachment, names in self._attached_at.items():
            if attachment.driver == driver:
                found.update((row, attachment) for row in self._rows(names))
        return found

    def _rows(self, names: Iterable[str]) -> Iterator[int]:
        rows = self._encoder.node_rows
        return (rows[name] for name in names if name in rows)

    def _is_used(self, attachment: Attachment, row: int) -> bool:
        users = self._users.get(attachment)
        return users is not None and row in users

    def _is_attached(self, attachment: Attachment, row: int) -> bool:
        names = self._attached_at.get(attachment)
        return names is not None and row in self._rows(names)

    def _add(self, driver: str, row: int, change: int) -> None:
        counts = self._counts.get(driver)
        if counts is not None:
            if row < len(counts):
                counts[row] += change
            else:
                del self._counts[driver]  # made again for all rows
