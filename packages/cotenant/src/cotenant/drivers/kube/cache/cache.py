"""The objects of one kind as last received, and what changed.

A server may send the same event twice, in the wrong order, or skip what happened while no watch was open; whoever keeps
state must see each object's life as a consistent sequence. Every event goes through here, and results in `Changed(old,
new)` or nothing. An object never goes back to an older resource version, and one that was deleted is not restored by a
late event. A name that is used again by another object (another UID) is a deletion followed by an addition.
Limits: versions are compared only where both are whole numbers, as the API conventions allow to assume since v1.35 and
every server has done; otherwise the last event wins. The memory of deletions is bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

TOMBSTONES = 8192


class ObjectMetadata(Protocol):
    """The metadata that the cache needs of an object."""

    @property
    def name(self) -> str | None:
        """Unique in its namespace."""

    @property
    def namespace(self) -> str | None:
        """Empty for cluster-scoped kinds."""

    @property
    def uid(self) -> str | None:
        """Unique over time."""

    @property
    def resource_version(self) -> str | None:
        """The version of the object."""


class ApiObject(Protocol):
    """Any API object."""

    @property
    def metadata(self) -> ObjectMetadata:
        """Its metadata."""


T = TypeVar("T", bound=ApiObject)


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """An object was added (no `old`), deleted (no `new`) or modified. `key` is namespace/name, or the name alone."""

    kind: str
    key: str
    old: T | None
    new: T | None


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything that existed at `resource_version` has been reported. Repeated after every new list."""

    kind: str
    resource_version: str
    objects: int


@dataclass(frozen=True, slots=True)
class MalformedObject:
    """The server sent an object that cannot be decoded. What was known of it stays as it was."""

    kind: str
    key: str  # empty where not even the name can be decoded
    why: str


Notification = Changed[T] | Synced | MalformedObject


def key_of(meta: ObjectMetadata) -> str:
    """namespace/name, or the name alone where there is no namespace."""
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name or ""


def number(version: str | None) -> int | None:
    """A resource version as a number; None for other text."""
    return int(version) if version and version.isdecimal() and version.isascii() and len(version) < 40 else None


def _differ(old: ApiObject, new: ApiObject) -> bool:
    was, now = old.metadata, new.metadata
    return was.uid != now.uid or was.resource_version != now.resource_version


class Cache(Generic[T]):
    """The objects of one kind by key."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.resource_version = ""  # of the objects; empty = nothing is known
        self.stale = 0  # events older than the known object
        self._objects: dict[str, T] = {}
        self._gone: OrderedDict[str, int] = OrderedDict()  # deleted keys and the version of the deletion
        self._floor = -1  # the version of the last list: events up to it are old

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def get(self, key: str) -> T | None:
        """One object, None if there is none."""
        return self._objects.get(key)

    def known(self, obj: T) -> T:
        """The object as it is held here, where that is the same version of it: so that a list is held once."""
        old = self._objects.get(key_of(obj.metadata))
        return obj if old is None or _differ(old, obj) else old

    def differences(self, listed: Cache[T], keep: Collection[str] = ()) -> list[Changed[T]]:
        """What a complete list changes, to be taken in this order: `take` each, then `listed_up_to`. `keep` names
        objects that exist but could not be decoded.
        """
        known, theirs = self._objects, listed._objects
        changes = [
            Changed(self.kind, key, old, None) for key, old in known.items() if key not in theirs and key not in keep
        ]  # capacity is freed before it is taken
        for key, obj in theirs.items():
            old = known.get(key)
            if old is obj:
                continue
            if old is None:
                changes.append(Changed(self.kind, key, None, obj))
            elif old.metadata.uid != obj.metadata.uid:
                changes += (Changed(self.kind, key, old, None), Changed(self.kind, key, None, obj))
            elif old.metadata.resource_version != obj.metadata.resource_version:
                changes.append(Changed(self.kind, key, old, obj))
        return changes

    def take(self, changes: Iterable[Changed[T]]) -> None:
        """Some of the differences from a list."""
        for change in changes:
            if change.new is None:
                del self._objects[change.key]
            else:
                self._objects[change.key] = change.new

    def listed_up_to(self, resource_version: str) -> None:
        """All differences from the list of this version are taken."""
        self._gone.clear()
        self.resource_version = resource_version
        floor = number(resource_version)
        self._floor = -1 if floor is None else floor

    def gather(self, obj: T) -> None:
        """An object of a list that comes in pages, for a cache to which nothing but this list was told."""
        if self._objects.setdefault(key_of(obj.metadata), obj) is not obj:
            self.put(obj)  # on two pages: the newer one stays

    def put(self, obj: T) -> list[Changed[T]]:
        """An ADDED or MODIFIED event."""
        meta = obj.metadata
        key, version = key_of(meta), number(meta.resource_version)
        old = self._objects.get(key)
        if old is not None:
            known = number(old.metadata.resource_version)
            if version is not None and known is not None:
                if version <= known:
                    self.stale += 1
                    return []
            elif meta.resource_version == old.metadata.resource_version:
                self.stale += 1
                return []
        elif version is not None and version <= max(self._floor, self._gone.get(key, -1)):
            self.stale += 1
            return []
        self._objects[key] = obj
        self._gone.pop(key, None)
        self.advance(meta.resource_version)
        if old is not None and old.metadata.uid != meta.uid:
            return [Changed(self.kind, key, old, None), Changed(self.kind, key, None, obj)]
        return [Changed(self.kind, key, old, obj)]

    def drop(self, obj: T) -> list[Changed[T]]:
        """A DELETED event: the object is gone, or no longer matches the watched selectors."""
        meta = obj.metadata
        key, version = key_of(meta), number(meta.resource_version)
        old = self._objects.get(key)
        if version is not None:
            known = number(old.metadata.resource_version) if old is not None else None
            if known is not None and version < known:
                self.stale += 1
                return []
            self._gone[key] = max(version, self._gone.pop(key, -1))
            if len(self._gone) > TOMBSTONES:
                self._gone.popitem(last=False)
        self.advance(meta.resource_version)
        if old is None:
            return []
        del self._objects[key]
        return [Changed(self.kind, key, old, None)]

    def advance(self, resource_version: str | None) -> None:
        """Advance the version of the watch; never backwards where both are numbers."""
        if not resource_version:
            return
        new, old = number(resource_version), number(self.resource_version)
        if new is None or old is None or new > old:
            self.resource_version = resource_version
