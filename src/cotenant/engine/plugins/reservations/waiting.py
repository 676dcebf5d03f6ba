"""Which waiting pods may draw from which reservations.

Problem: both come and go, and change whose they are, at any time. Choice: kept on both sides, so that a pod's reservations and a reservation's pods are
each one look; found by an index of the owners' keys. Limits: whether a reservation has room, or is open, is not looked at here.
"""

from __future__ import annotations

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.reservations.records import Index, Record
from cotenant.policy.placement.reservations.owners import is_owner, obstacle

_NONE: tuple[Record, ...] = ()


class Waiters:
    """Pods that sit nowhere, and the reservations that are kept for them."""

    def __init__(self) -> None:
        self._index = Index()
        self._pods: dict[str, PodInfo] = {}
        self._kept: dict[str, tuple[Record, ...]] = {}  # pod's uid -> reservations; none for most pods

    def __contains__(self, uid: str) -> bool:
        return bool(self._kept.get(uid))

    def clear(self) -> None:
        """No pod is known."""
        self._pods.clear()
        self._kept.clear()

    def kept_for(self, uid: str) -> tuple[Record, ...]:
        """The reservations that are kept for a waiting pod, whatever their state."""
        return self._kept.get(uid, _NONE)

    def open_for(self, entry: PodInfo) -> list[Record]:
        """Those from which it may draw now, as far as they and its own affinity decide."""
        found = self.kept_for(entry.seen.uid)
        return [each for each in found if each.is_open and not obstacle(each.reservation, entry.seen)]

    def find(self, uid: str) -> PodInfo | None:
        """A pod that waits."""
        return self._pods.get(uid)

    # ---- pods

    def add(self, entry: PodInfo) -> None:
        """It waits."""
        seen = entry.seen
        self._pods[seen.uid] = entry
        found = tuple(self._index.owned_by(seen))
        if found:
            self._kept[seen.uid] = found
            for record in found:
                record.waiting[seen.uid] = entry

    def remove(self, uid: str) -> None:
        """It waits no more."""
        self._pods.pop(uid, None)
        for record in self._kept.pop(uid, _NONE):
            record.waiting.pop(uid, None)

    # ---- reservations

    def owners_changed(self, record: Record) -> None:
        """The reservation is new, or its owners are others than before."""
        self._index.remove(record)
        self._index.add(record)
        self._let_go(record)
        record.waiting.clear()
        for pod, entry in self._pods.items():
            if is_owner(record.reservation, entry.seen):
                record.waiting[pod] = entry
                self._kept[pod] = (*self._kept.get(pod, _NONE), record)

    def drop(self, record: Record) -> None:
        """The reservation is gone."""
        self._index.remove(record)
        self._let_go(record)

    def _let_go(self, record: Record) -> None:
        for pod in list(record.waiting):
            self._kept[pod] = tuple(each for each in self._kept[pod] if each is not record)


def insists(entry: PodInfo) -> bool:
    """Whether a pod wants reservations or nothing."""
    return entry.seen.demands.reservation_affinity is not None
