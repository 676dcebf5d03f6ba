"""The informers' cache: typed objects indexed by name, by owner, by namespace and by custom indexes.

A controller that acts on a stale cache creates the same pod twice. Upstream tracks expectations; here the response to
every write of this process is stored at once (`apply`), and resourceVersions, which only increase, decide which of two
versions is newer. The cache is therefore never older than the process's own writes.
Limits: the UIDs of deleted objects are kept for a while so that a late response does not bring one back; objects are
immutable and shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from cotenant_local.controllers.views.core import Meta

Key = tuple[str, str]
_MAX_DELETED_UIDS = 20_000


class NamedObject(Protocol):
    """An object with metadata."""

    @property
    def metadata(self) -> Meta:
        """The object's metadata."""


T = TypeVar("T", bound=NamedObject)
Index = Callable[[T], Iterable[str]]


class CachedObjects(Generic[T]):
    """The cached objects of one resource."""

    def __init__(self, indexes: Mapping[str, Index[T]] | None = None) -> None:
        self._items: dict[Key, T] = {}
        self._versions: dict[Key, int] = {}
        self._indexes: dict[str, Index[T]] = {
            "owner": _owner,
            "orphan": _orphan,
            "namespace": _namespace,
            **(indexes or {}),
        }
        self._by: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in self._indexes}
        self._deleted_uids: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    def get(self, namespace: str, name: str) -> T | None:
        """The object with this namespace and name."""
        return self._items.get((namespace, name))

    def keys(self) -> list[Key]:
        """All keys (namespace, name)."""
        return list(self._items)

    def by(self, index: str, value: str) -> list[T]:
        """The objects with this value in an index, in the order in which they were first seen."""
        items = self._items
        return [items[key] for key in self._by[index].get(value, ())]

    def count(self, index: str, value: str) -> int:
        """The number of objects with this value in an index."""
        return len(self._by[index].get(value, ()))

    def owned(self, uid: str, namespace: str) -> list[T]:
        """Objects controlled by this UID, and the namespace's objects without a controller: the candidates for
        adoption.
        """
        return self.by("owner", uid) + self.by("orphan", namespace)

    def apply(self, obj: T) -> tuple[bool, T | None]:
        """Store a version of an object. Returns (whether it was newer, the previous version)."""
        key = obj.metadata.key
        version = int(obj.metadata.resource_version or 0)
        old = self._items.get(key)
        if obj.metadata.uid in self._deleted_uids or (old is not None and version <= self._versions[key]):
            return False, old
        if old is not None:
            self._unindex(key, old)
        self._items[key] = obj
        self._versions[key] = version
        for name, index in self._indexes.items():
            by_value = self._by[name]
            for value in index(obj):
                by_value.setdefault(value, {})[key] = None
        return True, old

    def remove(self, key: Key, uid: str = "") -> T | None:
        """Remove an object (only the one with this UID, if given). Returns the removed version."""
        if uid:
            self._deleted_uids[uid] = None
            if len(self._deleted_uids) > _MAX_DELETED_UIDS:
                self._deleted_uids.pop(next(iter(self._deleted_uids)))
        old = self._items.get(key)
        if old is None or (uid and old.metadata.uid != uid):
            return None
        self._unindex(key, old)
        del self._items[key], self._versions[key]
        return old

    def _unindex(self, key: Key, old: T) -> None:
        for name, index in self._indexes.items():
            by_value = self._by[name]
            for value in index(old):
                group = by_value.get(value)
                if group is not None:
                    group.pop(key, None)
                    if not group:
                        del by_value[value]


def _owner(obj: NamedObject) -> Iterable[str]:
    return [o.uid for o in obj.metadata.owner_references if o.controller]


def _orphan(obj: NamedObject) -> Iterable[str]:
    return () if any(o.controller for o in obj.metadata.owner_references) else (obj.metadata.namespace,)


def _namespace(obj: NamedObject) -> Iterable[str]:
    return (obj.metadata.namespace,)
