"""The objects of one storage in memory: by namespace and name, in order for lists, with history and watchers.

A list must return names in order, and sorting at each write would cost more than the write. Names are sorted when they
are read, and a later read merges the names that were added since. When an eighth of the names has been removed since
the last read, the order is dropped and the next read sorts anew, so that a namespace that nothing lists keeps no names
of removed objects.
Limits: one event loop.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator

from cotenant_local.apiserver.storage.history import EventHistory, HistoryBounds, HistoryEvent
from cotenant_local.apiserver.storage.stored import Key, Selectable, StoredObject
from cotenant_local.apiserver.storage.watching import Channel, Convert, Predicate

Storage = tuple[str, str]  # (group, plural)
Observer = Callable[
    [StoredObject | None, StoredObject | None], None
]  # what stood before a write, and what stands after it
_MIN_REMOVED = 256  # removed names that an order may hold whatever the size of the namespace


class _NamespaceTable:
    """The objects of one namespace, and their sorted names (sorted on demand, not at each write)."""

    __slots__ = ("_added", "_order", "_removed", "objects")

    def __init__(self) -> None:
        self.objects: dict[str, StoredObject] = {}
        self._order: list[str] | None = None  # sorted names at the last read; None = to be sorted anew
        self._added: list[str] = []  # since then
        self._removed = 0  # since then

    def put(self, stored: StoredObject) -> bool:
        """Add or replace an object. Returns whether it was added."""
        name = stored.key[1]
        is_new = name not in self.objects
        if is_new and self._order is not None:
            self._added.append(name)
        self.objects[name] = stored
        return is_new

    def drop(self, name: str) -> None:
        del self.objects[name]
        if self._order is not None:
            self._removed += 1
            if self._removed > _MIN_REMOVED + len(self.objects) // 8:
                self._order, self._added, self._removed = None, [], 0

    def order(self) -> list[str]:
        """The names, sorted."""
        objects = self.objects
        if self._order is None:
            self._order = sorted(objects)
        elif self._removed:
            names = dict.fromkeys(self._order)
            names.update(dict.fromkeys(self._added))
            self._order = sorted([name for name in names if name in objects])
        elif self._added:
            self._order = sorted(self._order + self._added)  # two sorted runs merge in linear time
        self._added, self._removed = [], 0
        return self._order


class ObjectTable:
    """The objects of one storage, its history and its watchers."""

    def __init__(self, storage: Storage, compacted: int, bounds: HistoryBounds) -> None:
        self.storage = storage
        self.resource = f"{storage[0]}/{storage[1]}"
        self.selectable: Selectable = ()
        self.history = EventHistory(compacted, bounds)
        self.channels: dict[object, Channel] = {}
        self.observers: list[Observer] = []  # told of each write at once, reverted ones included
        self._namespaces: dict[str, _NamespaceTable] = {}
        self._order: list[str] | None = None
        self.count = 0
        self.changes = 0  # number of writes, reverted ones included

    def get(self, key: Key) -> StoredObject | None:
        """The object with this key, None if absent."""
        entries = self._namespaces.get(key[0])
        return None if entries is None else entries.objects.get(key[1])

    def put(self, stored: StoredObject) -> None:
        """Add or replace."""
        entries = self._namespaces.get(stored.key[0])
        if entries is None:
            entries = self._namespaces[stored.key[0]] = _NamespaceTable()
            self._order = None
        self.changes += 1
        old = entries.objects.get(stored.key[1]) if self.observers else None
        if entries.put(stored):
            self.count += 1
        for observer in self.observers:
            observer(old, stored)

    def drop(self, key: Key) -> None:
        """Remove an object; the key must exist."""
        entries = self._namespaces[key[0]]
        old = entries.objects[key[1]]
        entries.drop(key[1])
        self.changes += 1
        self.count -= 1
        if not entries.objects:
            del self._namespaces[key[0]]
            self._order = None
        for observer in self.observers:
            observer(old, None)

    def size(self, namespace: str = "") -> int:
        """The number of objects in a namespace; in all namespaces if it is empty."""
        if not namespace:
            return self.count
        entries = self._namespaces.get(namespace)
        return 0 if entries is None else len(entries.objects)

    def walk(self, namespace: str = "", after: Key | None = None) -> Iterator[StoredObject]:
        """The objects of a namespace (of all if it is empty) in key order, starting after a key."""
        if namespace:
            names = [namespace] if namespace in self._namespaces else []
        else:
            if self._order is None:
                self._order = sorted(self._namespaces)
            names = self._order
        for name in names[bisect.bisect_left(names, after[0]) :] if after is not None else names:
            entries = self._namespaces[name]
            order = entries.order()
            start = bisect.bisect_right(order, after[1]) if after is not None and name == after[0] else 0
            objects = entries.objects
            for at in range(start, len(order)):
                yield objects[order[at]]

    def channel(self, key: object, predicate: Predicate | None, convert: Convert | None, after: int = 0) -> Channel:
        """The channel of a selection, created on first use; it delivers events after the revision `after`."""
        found = self.channels.get(key)
        if found is None:
            found = self.channels[key] = Channel(predicate, convert, after)
        return found

    def publish(self, events: list[HistoryEvent]) -> None:
        """Deliver committed events to the watchers, and append them to the history."""
        for event in events:
            self.history.append(event)
        for key, channel in tuple(self.channels.items()):
            if channel.watches:
                channel.publish(events)
            else:
                del self.channels[key]
