"""Recent events of one resource, so that a watch can start in the past and a paged list can stay at its snapshot.

A client that lost its connection resumes from its last resourceVersion; a paged list is one snapshot. A ring of events
that reference the object before and after (not copies), bounded by count, by age and by the bytes that only the ring
keeps alive. Dropping an event raises `compacted`; requests for older revisions get 410 Expired.
Limits: in memory; a restart compacts all earlier history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.storage.stored import Key, StoredObject

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class HistoryBounds:
    """How much history a resource keeps: events, seconds, and bytes of superseded objects."""

    events: int = 65_536
    age_s: float = 300.0
    superseded_bytes: int = 128 << 20


class HistoryEvent:
    """One write. `old` is the object before (None if created), `new` after (for DELETED its last state)."""

    __slots__ = ("at", "new", "old", "resource_version", "type")

    def __init__(self, kind: str, new: StoredObject, old: StoredObject | None, at: float) -> None:
        self.type = kind
        self.resource_version = new.resource_version
        self.new = new
        self.old = old
        self.at = at  # Unix seconds


def expired(requested: int, compacted: int) -> ApiError:
    """The error for a watch or list from before the retained history."""
    return ApiError(410, "Expired", f"too old resource version: {requested} ({compacted})")


class EventHistory:
    """The event ring of one resource."""

    __slots__ = ("_bounds", "_bytes", "_events", "compacted")

    def __init__(self, compacted: int, bounds: HistoryBounds) -> None:
        self._bounds = bounds
        self._events: deque[HistoryEvent] = deque()
        self._bytes = 0
        self.compacted = compacted  # all events after this revision are retained

    def __len__(self) -> int:
        return len(self._events)

    def append(self, event: HistoryEvent) -> None:
        """Append an event and drop the oldest beyond the bounds."""
        self._events.append(event)
        if event.old is not None:
            self._bytes += len(event.old.raw)
        bounds = self._bounds
        while self._events and (
            len(self._events) > bounds.events
            or self._bytes > bounds.superseded_bytes
            or event.at - self._events[0].at > bounds.age_s
        ):
            oldest = self._events.popleft()
            self.compacted = oldest.resource_version
            if oldest.old is not None:
                self._bytes -= len(oldest.old.raw)

    def since(self, revision: int) -> list[HistoryEvent]:
        """The events after a revision, oldest first. Raises ApiError 410 if some of them have been dropped."""
        if revision < self.compacted:
            raise expired(revision, self.compacted)
        found: list[HistoryEvent] = []
        for event in reversed(self._events):
            if event.resource_version <= revision:
                break
            found.append(event)
        found.reverse()
        return found

    def undo(self, revision: int, state: dict[Key, StoredObject | None]) -> None:
        """Add to `state` the version at a revision of each object changed after it. Raises ApiError 410 as `since`."""
        for event in reversed(self.since(revision)):
            state[event.new.key] = event.old

    def __iter__(self) -> Iterator[HistoryEvent]:
        return iter(self._events)
