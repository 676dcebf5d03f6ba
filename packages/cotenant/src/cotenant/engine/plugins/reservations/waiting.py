"""Maps waiting pods to the reservations they may use, and back.

Pods and reservations arrive, leave and change owners at any time. The relation is stored on both sides, so that each
direction is a single lookup; an index by owner keys finds the matches.
Limits: whether a reservation has room, or is open, is not checked here.
"""

from __future__ import annotations

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.reservations.records import Index, ReservationRecord
from cotenant.engine.plugins.reservations.reservation_views import sentences
from cotenant.policy.placement.reservations.owners import is_owner, obstacle

_NONE: tuple[ReservationRecord, ...] = ()


class Waiters:
    """Unassigned pods, and the reservations kept for them."""

    def __init__(self) -> None:
        self.index = Index()
        self._pods: dict[str, PodInfo] = {}
        self._kept: dict[str, tuple[ReservationRecord, ...]] = {}  # pod's uid -> reservations; none for most pods

    def __contains__(self, uid: str) -> bool:
        return bool(self._kept.get(uid))

    def clear(self) -> None:
        """Forget all pods."""
        self._pods.clear()
        self._kept.clear()

    def kept_for(self, uid: str) -> tuple[ReservationRecord, ...]:
        """The reservations kept for a waiting pod, in any state."""
        return self._kept.get(uid, _NONE)

    def open_for(self, entry: PodInfo) -> list[ReservationRecord]:
        """The open reservations that the pod may use now, by their own rules and its reservation affinity."""
        found = self.kept_for(entry.seen.uid)
        return [record for record in found if record.is_open and not obstacle(record.reservation, entry.seen)]

    def find(self, uid: str) -> PodInfo | None:
        """The waiting pod with this UID, if any."""
        return self._pods.get(uid)

    def about(self, uid: str) -> tuple[str, ...]:
        """Why a waiting pod does not draw from its reservations, in sentences."""
        entry = self._pods.get(uid)
        return sentences(entry, self.kept_for(uid)) if entry is not None else ()

    # ---- pods

    def add(self, entry: PodInfo) -> None:
        """Add a waiting pod."""
        seen = entry.seen
        self._pods[seen.uid] = entry
        found = tuple(self.index.owned_by(seen))
        if found:
            self._kept[seen.uid] = found
            for record in found:
                record.waiting[seen.uid] = entry

    def remove(self, uid: str) -> None:
        """Remove a pod that no longer waits."""
        self._pods.pop(uid, None)
        for record in self._kept.pop(uid, _NONE):
            record.waiting.pop(uid, None)

    # ---- reservations

    def owners_changed(self, record: ReservationRecord) -> None:
        """Match a reservation that is new or whose owners have changed."""
        self.index.remove(record)
        self.index.add(record)
        self._unlink(record)
        record.waiting.clear()
        for pod, entry in self._pods.items():
            if is_owner(record.reservation, entry.seen):
                record.waiting[pod] = entry
                self._kept[pod] = (*self._kept.get(pod, _NONE), record)

    def drop(self, record: ReservationRecord) -> None:
        """Remove a deleted reservation."""
        self.index.remove(record)
        self._unlink(record)

    def _unlink(self, record: ReservationRecord) -> None:
        for pod in list(record.waiting):
            self._kept[pod] = tuple(entry for entry in self._kept[pod] if entry is not record)


def insists(entry: PodInfo) -> bool:
    """Whether the pod may only be placed in a reservation."""
    return entry.seen.demands.reservation_affinity is not None
