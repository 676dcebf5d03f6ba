"""The garbage collector: keeps the ownership graph over every served resource and applies `garbage.reconcile`.

Any object may own any other, custom ones included, and kinds are added and removed. One informer per resource (shared
with the other controllers); the graph maps UIDs to objects and owners to dependents, and is updated by events. An owner
missing from the graph is looked up on the server before anything is deleted. A dependent that owns its owner, directly
or through others, does not block a foreground deletion.
Limits: the kind Event is left out, as upstream; cycles of more than 1,000 objects are not found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import RequestTarget, ResourceScope
from cotenant_local.controllers.cleanup import garbage
from cotenant_local.controllers.cleanup.garbage import FOREGROUND, ORPHAN, Dependent, Presence
from cotenant_local.controllers.runtime.actions import Plan, ResourceName
from cotenant_local.controllers.runtime.cache import Key, NamedObject
from cotenant_local.controllers.runtime.controller import GONE
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.runtime.runner import Enqueue
from cotenant_local.controllers.views.core import Meta, Object, OwnerReferenceView

_IGNORED = {("", "events"), ("events.k8s.io", "events")}
_MAX_CYCLE = 1_000  # objects that are searched for a cycle of owners
_object = msgspec.json.Decoder(Object).decode


class GarbageCollector:
    """Deletes dependents of deleted owners. Its keys are (resource and namespace, name)."""

    name = "generic-garbage-collector"

    def __init__(self, informers: Informers, clock: Callable[[], float] = time.time) -> None:
        self._informers = informers
        self._location: dict[str, tuple[ResourceName, Key]] = {}
        self._dependents: dict[str, dict[str, None]] = {}  # owner's UID -> UIDs
        self._watched: set[ResourceName] = set()
        self._revision = -1
        self._enqueue: Enqueue = lambda key: None

    def attach(self, enqueue: Enqueue) -> None:
        """Watch every resource served now; `sync_resources` adds later ones."""
        self._enqueue = enqueue
        self.sync_resources()

    def sync_resources(self) -> None:
        """Watch resources that were added, and drop those that were removed."""
        registry = self._informers.api.registry
        if registry.revision == self._revision:
            return
        self._revision = registry.revision
        served: set[ResourceName] = set()
        for resource in registry.resources():
            name = (resource.group, resource.plural)
            if resource.storage == name and name not in _IGNORED and {"list", "watch", "delete"} <= resource.verbs:
                served.add(name)
        for name in served - self._watched:
            self._watched.add(name)
            self._informers.of(name).subscribe(self._handler(name))
        for name in self._watched - served:
            self._watched.discard(name)
            self._informers.drop(name)

    def all_keys(self) -> Iterable[Key]:
        """All objects that have an owner."""
        self.sync_resources()
        for where, key in list(self._location.values()):
            obj = self._get(where, key)
            if obj is not None and obj.metadata.owner_references:
                yield _key(where, key)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `garbage.reconcile`."""
        self.sync_resources()
        resource, own = _parse(key)
        obj = self._get(resource, own)
        if obj is None:
            return GONE
        owners = [(o, await self._presence(o, obj.metadata.namespace)) for o in obj.metadata.owner_references]
        return garbage.reconcile(resource, _as_object(obj), owners, self._dependents_of(obj.metadata))

    def _get(self, resource: ResourceName, key: Key) -> NamedObject | None:
        informer = self._informers.existing(resource)
        found: NamedObject | None = informer.store.get(*key) if informer is not None else None
        return found

    def _dependents_of(self, meta: Meta) -> list[Dependent]:
        out = []
        for uid in self._dependents.get(meta.uid, ()):
            location = self._location.get(uid)
            obj = self._get(*location) if location is not None else None
            if obj is None or location is None:
                continue
            blocks = any(o.uid == meta.uid and o.block_owner_deletion for o in obj.metadata.owner_references)
            if blocks and meta.terminating and self._depends(meta.uid, uid):
                blocks = False  # a cycle of owners would wait for itself for ever
            out.append(Dependent(location[0], _as_object(obj), blocks))
        return out

    def _depends(self, uid: str, on: str) -> bool:
        """Whether an object is, directly or through others, a dependent of another."""
        waiting, seen = [on], {on}
        while waiting and len(seen) < _MAX_CYCLE:
            for dependent in self._dependents.get(waiting.pop(), ()):
                if dependent == uid:
                    return True
                if dependent not in seen:
                    seen.add(dependent)
                    waiting.append(dependent)
        return False

    async def _presence(self, owner: OwnerReferenceView, namespace: str) -> Presence:
        location = self._location.get(owner.uid)
        obj = self._get(*location) if location is not None else None
        if obj is not None:
            meta = obj.metadata
            return (
                Presence.DELETING_DEPENDENTS if meta.terminating and FOREGROUND in meta.finalizers else Presence.PRESENT
            )
        group, _, version = owner.api_version.rpartition("/")
        api = self._informers.api
        resource = api.registry.by_kind(group, owner.kind, version) or api.registry.by_kind(group, owner.kind)
        if resource is None:
            return Presence.PRESENT  # the kind is not served, so the owner cannot be looked up
        target = RequestTarget(resource, namespace if resource.scope is ResourceScope.NAMESPACED else "", owner.name)
        try:
            found = _object(await api.get(target))
        except ApiError as error:
            if error.code == 404:
                return Presence.ABSENT
            raise
        return Presence.PRESENT if found.metadata.uid == owner.uid else Presence.ABSENT

    def _handler(self, resource: ResourceName) -> Callable[[NamedObject | None, NamedObject | None], None]:
        def changed(old: NamedObject | None, new: NamedObject | None) -> None:
            self._changed(resource, old, new)

        return changed

    def _changed(self, resource: ResourceName, old: NamedObject | None, new: NamedObject | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._removed(old.metadata)
            if new is None:
                return
            old = None
        assert new is not None
        meta = new.metadata
        if old is None:
            self._location[meta.uid] = (resource, meta.key)
        before = old.metadata.owner_references if old is not None else ()
        if before != meta.owner_references:
            self._link(meta, before)
            for owner in before:
                self._enqueue_if_terminating(owner.uid)
            if any(self._may_be_gone(o) for o in meta.owner_references):
                self._enqueue(_key(resource, meta.key))
        began = meta.terminating and (old is None or not old.metadata.terminating)
        changed = old is None or old.metadata.finalizers != meta.finalizers
        if meta.terminating and (began or changed) and (FOREGROUND in meta.finalizers or ORPHAN in meta.finalizers):
            self._enqueue(_key(resource, meta.key))
            self._enqueue_dependents(meta.uid)
        if began:
            for owner in meta.owner_references:
                self._enqueue_if_terminating(owner.uid)

    def _link(self, meta: Meta, before: tuple[OwnerReferenceView, ...]) -> None:
        for owner in before:
            dependents = self._dependents.get(owner.uid)
            if dependents is not None:
                dependents.pop(meta.uid, None)
                if not dependents:
                    del self._dependents[owner.uid]
        for owner in meta.owner_references:
            self._dependents.setdefault(owner.uid, {})[meta.uid] = None

    def _removed(self, meta: Meta) -> None:
        self._location.pop(meta.uid, None)
        self._enqueue_dependents(meta.uid)
        for owner in meta.owner_references:
            dependents = self._dependents.get(owner.uid)
            if dependents is not None:
                dependents.pop(meta.uid, None)
                if not dependents:
                    del self._dependents[owner.uid]
            self._enqueue_if_terminating(owner.uid)

    def _may_be_gone(self, owner: OwnerReferenceView) -> bool:
        """Whether the owner is missing from the graph or is deleting its dependents."""
        location = self._location.get(owner.uid)
        obj = self._get(*location) if location is not None else None
        return obj is None or (obj.metadata.terminating and FOREGROUND in obj.metadata.finalizers)

    def _enqueue_dependents(self, uid: str) -> None:
        for dependent in self._dependents.get(uid, ()):
            location = self._location.get(dependent)
            if location is not None:
                self._enqueue(_key(*location))

    def _enqueue_if_terminating(self, uid: str) -> None:
        """Queue an owner that waits for its dependents: it may now be able to proceed."""
        location = self._location.get(uid)
        obj = self._get(*location) if location is not None else None
        if location is not None and obj is not None and obj.metadata.terminating:
            self._enqueue(_key(*location))


def _key(resource: ResourceName, key: Key) -> Key:
    return (f"{resource[0]}|{resource[1]}|{key[0]}", key[1])


def _parse(key: Key) -> tuple[ResourceName, Key]:
    group, plural, namespace = key[0].split("|")
    return (group, plural), (namespace, key[1])


def _as_object(obj: NamedObject) -> Object:
    return obj if isinstance(obj, Object) else Object(metadata=obj.metadata)
