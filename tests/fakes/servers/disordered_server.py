"""A server of one kind whose watch delivers late, twice and out of order, beside the truth that a client must reach.

Versions grow with every write, as those of an API server do. A list is a snapshot at the present version; a watch after
it owes every later event. A bookmark names a version up to which every event has been sent, so it never promises what
is still owed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from cotenant.drivers.kube.cache.cache import ApiObject, Notification
from cotenant.drivers.kube.cache.listwatch import ListPage, ListWatch, Pause, WatchEventType
from cotenant.drivers.kube.client.errors import Gone

T = TypeVar("T", bound=ApiObject)
WINDOW = 6  # an event overtakes at most so many others
DELETED = WatchEventType.DELETED


class DisorderedServer(Generic[T]):
    """`make(name, uid, version, content)` builds an object; `content` is what a write gives."""

    def __init__(self, make: Callable[[str, str, int, Any], T]) -> None:
        self._make = make
        self.version = 1
        self.objects: dict[str, T] = {}
        self.contents: dict[str, Any] = {}
        self._events: list[tuple[WatchEventType, T, int]] = []
        self._owed: list[int] = []  # places in `_events`
        self._sent: list[int] = []

    # ---- writes

    def put(self, name: str, content: Any) -> None:
        """Create or change an object."""
        self.version += 1
        old = self.objects.get(name)
        uid = (old.metadata.uid or "") if old is not None else f"{name}-{self.version}"
        self._happened(WatchEventType.ADDED if old is None else WatchEventType.MODIFIED, name, uid, content)

    def delete(self, name: str) -> None:
        """Delete an object, if it exists."""
        if name in self.objects:
            self.version += 1
            uid = self.objects[name].metadata.uid or ""
            self._happened(DELETED, name, uid, self.contents[name])
            del self.objects[name], self.contents[name]

    def _happened(self, kind: WatchEventType, name: str, uid: str, content: Any) -> None:
        self.objects[name] = self._make(name, uid, self.version, content)
        self.contents[name] = content
        self._owed.append(len(self._events))
        self._events.append((kind, self.objects[name], self.version))

    # ---- what a client gets

    def deliver(self, client: ListWatch[T], at: int) -> list[Notification[T]]:
        """One event that is owed; `at` of 0 is the oldest."""
        if not self._owed:
            return []
        place = self._owed.pop(at % min(WINDOW, len(self._owed)))
        self._sent.append(place)
        return self._send(client, place)

    def repeat(self, client: ListWatch[T], at: int) -> list[Notification[T]]:
        """One event again; `at` of 0 is the one sent last."""
        return self._send(client, self._sent[-1 - at % len(self._sent)]) if self._sent else []

    def bookmark(self, client: ListWatch[T]) -> list[Notification[T]]:
        """How far the watch is complete."""
        complete = self._events[min(self._owed)][2] - 1 if self._owed else self.version
        return client.on_bookmark(str(complete), False)

    def drain(self, client: ListWatch[T]) -> list[Notification[T]]:
        """Everything that is owed, in order."""
        notifications: list[Notification[T]] = []
        while self._owed:
            notifications += self.deliver(client, 0)
        return notifications

    def expire(self, client: ListWatch[T], pages: int, extra: tuple[int, ...]) -> list[Notification[T]]:
        """The watch expires (410), and the client lists again: in pages, or as a stream with earlier events
        (`extra`) among its objects.
        """
        client.on_error(Gone("too old"), 5.0)
        return self.list(client, pages, extra)

    def list(self, client: ListWatch[T], pages: int = 1, extra: tuple[int, ...] = ()) -> list[Notification[T]]:
        """A complete list, as the client asks for it; events after it are owed."""
        step = client.step()
        while isinstance(step, Pause):
            step = client.step()
        objects = list(self.objects.values())
        notifications: list[Notification[T]] = []
        before = client.cache.resource_version
        if isinstance(step, ListPage):
            size = max(1, -(-len(objects) // pages))
            for first in range(0, max(1, len(objects)), size):
                token = "more" if first + size < len(objects) else ""
                notifications += client.on_page(objects[first : first + size], [], str(self.version), token)
        else:
            client.on_open()
            early, late = [], []  # events from before the snapshot, before and after its objects
            for place in extra if self._events else ():
                _, obj, _ = self._events[place % len(self._events)]
                earlier = [
                    at for at, (_, other, _) in enumerate(self._events) if other.metadata.name == obj.metadata.name
                ]
                if obj.metadata.name in self.objects:
                    early.append(place % len(self._events))
                else:  # without its deletion no client could know that it is gone
                    early.append(earlier[-1])
                late.append(place % len(self._events))
            for place in early:
                notifications += self._send(client, place)
            for obj in objects:
                notifications += client.on_event(WatchEventType.ADDED, obj)
            for place in late:
                notifications += self._send(client, place)
            notifications += client.on_bookmark(str(self.version), True)
        while client.is_reporting:
            assert client.cache.resource_version == before, "a version before everything up to it is reported"
            notifications += client.next_portion()
        self._owed = []
        client.on_open()
        return notifications

    def _send(self, client: ListWatch[T], place: int) -> list[Notification[T]]:
        kind, obj, _ = self._events[place]
        return client.on_event(kind, obj)
