"""The garbage collector as the runner meets it: the graph of who owns what, over every resource that is served.

Problem: any object may own any other, custom ones included, and kinds come and go. Choice: one informer a resource (those that other controllers
have are shared); the graph is a map from UIDs to objects and from owners to dependents, kept by events. An owner that the graph does not have is
asked for on the server before anything is deleted. Limits: events (the kind) are left out, as upstream leaves them out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from cotenant.local.apiserver.contract import ApiError, Scope, Target
from cotenant.local.controllers.cleanup import garbage
from cotenant.local.controllers.cleanup.garbage import FOREGROUND, ORPHAN, Dependent, Presence
from cotenant.local.controllers.runtime.actions import Plan, ResourceName
from cotenant.local.controllers.runtime.cache import Key, Named
from cotenant.local.controllers.runtime.controller import GONE
from cotenant.local.controllers.runtime.informer import Informers
from cotenant.local.controllers.runtime.runner import Enqueue
from cotenant.local.controllers.views.core import Meta, Object, OwnerReference

_IGNORED = {("", "events"), ("events.k8s.io", "events")}
_object = msgspec.json.Decoder(Object).decode


class GarbageCollector:
    """Deletes dependents. Its keys are (resource and namespace, name)."""

    name = "generic-garbage-collector"

    def __init__(self, informers: Informers, clock: Callable[[], float] = time.time) -> None:
        self._informers = informers
        self._where: dict[str, tuple[ResourceName, Key]] = {}
        self._dependents: dict[str, dict[str, None]] = {}  # owner's UID -> UIDs
        self._followed: set[ResourceName] = set()
        self._revision = -1
        self._enqueue: Enqueue = lambda key: None

    def attach(self, enqueue: Enqueue) -> None:
        """Follow every resource that is served now; `follow` takes in later ones."""
        self._enqueue = enqueue
        self.follow()

    def follow(self) -> None:
        """Follow resources that have come, and forget those that have gone."""
        registry = self._informers.api.registry
        if registry.revision == self._revision:
            return
        self._revision = registry.revision
        served: set[ResourceName] = set()
        for resource in registry.resources():
            name = (resource.group, resource.plural)
            if resource.storage == name and name not in _IGNORED and {"list", "watch", "delete"} <= resource.verbs:
                served.add(name)
        for name in served - self._followed:
            self._followed.add(name)
            self._informers.of(name).subscribe(self._handler(name))
        for name in self._followed - served:
            self._followed.discard(name)
            self._informers.drop(name)

    def all_keys(self) -> Iterable[Key]:
        """Everything that has an owner."""
        self.follow()
        for where, key in list(self._where.values()):
            obj = self._get(where, key)
            if obj is not None and obj.metadata.owner_references:
                yield _key(where, key)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `garbage.reconcile`."""
        self.follow()
        resource, own = _parse(key)
        obj = self._get(resource, own)
        if obj is None:
            return GONE
        owners = [(o, await self._presence(o, obj.metadata.namespace)) for o in obj.metadata.owner_references]
        return garbage.reconcile(resource, _plain(obj), owners, self._dependents_of(obj.metadata))

    def _get(self, resource: ResourceName, key: Key) -> Named | None:
        informer = self._informers.have(resource)
        found: Named | None = informer.store.get(*key) if informer is not None else None
        return found

    def _dependents_of(self, meta: Meta) -> list[Dependent]:
        out = []
        for uid in self._dependents.get(meta.uid, ()):
            place = self._where.get(uid)
            obj = self._get(*place) if place is not None else None
            if obj is None or place is None:
                continue
            blocks = any(o.uid == meta.uid and o.block_owner_deletion for o in obj.metadata.owner_references)
            out.append(Dependent(place[0], _plain(obj), blocks))
        return out

    async def _presence(self, owner: OwnerReference, namespace: str) -> Presence:
        place = self._where.get(owner.uid)
        obj = self._get(*place) if place is not None else None
        if obj is not None:
            meta = obj.metadata
            return (
                Presence.DELETING_DEPENDENTS if meta.terminating and FOREGROUND in meta.finalizers else Presence.PRESENT
            )
        group, _, version = owner.api_version.rpartition("/")
        api = self._informers.api
        resource = api.registry.by_kind(group, owner.kind, version) or api.registry.by_kind(group, owner.kind)
        if resource is None:
            return Presence.PRESENT  # a kind that is not served: nobody can tell
        target = Target(resource, namespace if resource.scope is Scope.NAMESPACED else "", owner.name)
        try:
            found = _object(await api.get(target))
        except ApiError as error:
            if error.code == 404:
                return Presence.ABSENT
            raise
        return Presence.PRESENT if found.metadata.uid == owner.uid else Presence.ABSENT

    def _handler(self, resource: ResourceName) -> Callable[[Named | None, Named | None], None]:
        def changed(old: Named | None, new: Named | None) -> None:
            self._changed(resource, old, new)

        return changed

    def _changed(self, resource: ResourceName, old: Named | None, new: Named | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._gone(old.metadata)
            if new is None:
                return
            old = None
        assert new is not None
        meta = new.metadata
        if old is None:
            self._where[meta.uid] = (resource, meta.key)
        before = old.metadata.owner_references if old is not None else ()
        if before != meta.owner_references:
            self._link(meta, before)
            for owner in before:
                self._look_at_ending(owner.uid)
            if any(self._suspicious(o) for o in meta.owner_references):
                self._enqueue(_key(resource, meta.key))
        began = meta.terminating and (old is None or not old.metadata.terminating)
        changed = old is None or old.metadata.finalizers != meta.finalizers
        if meta.terminating and (began or changed) and (FOREGROUND in meta.finalizers or ORPHAN in meta.finalizers):
            self._enqueue(_key(resource, meta.key))
            self._look_at_dependents(meta.uid)
        if began:
            for owner in meta.owner_references:
                self._look_at_ending(owner.uid)

    def _link(self, meta: Meta, before: tuple[OwnerReference, ...]) -> None:
        for owner in before:
            held = self._dependents.get(owner.uid)
            if held is not None:
                held.pop(meta.uid, None)
                if not held:
                    del self._dependents[owner.uid]
        for owner in meta.owner_references:
            self._dependents.setdefault(owner.uid, {})[meta.uid] = None

    def _gone(self, meta: Meta) -> None:
        self._where.pop(meta.uid, None)
        self._look_at_dependents(meta.uid)
        for owner in meta.owner_references:
            held = self._dependents.get(owner.uid)
            if held is not None:
                held.pop(meta.uid, None)
                if not held:
                    del self._dependents[owner.uid]
            self._look_at_ending(owner.uid)

    def _suspicious(self, owner: OwnerReference) -> bool:
        """Whether the owner is not known to be there and staying."""
        place = self._where.get(owner.uid)
        obj = self._get(*place) if place is not None else None
        return obj is None or (obj.metadata.terminating and FOREGROUND in obj.metadata.finalizers)

    def _look_at_dependents(self, uid: str) -> None:
        for dependent in self._dependents.get(uid, ()):
            place = self._where.get(dependent)
            if place is not None:
                self._enqueue(_key(*place))

    def _look_at_ending(self, uid: str) -> None:
        """An owner that waits for its dependents may be able to go on."""
        place = self._where.get(uid)
        obj = self._get(*place) if place is not None else None
        if place is not None and obj is not None and obj.metadata.terminating:
            self._enqueue(_key(*place))


def _key(resource: ResourceName, key: Key) -> Key:
    return (f"{resource[0]}|{resource[1]}|{key[0]}", key[1])


def _parse(key: Key) -> tuple[ResourceName, Key]:
    group, plural, namespace = key[0].split("|")
    return (group, plural), (namespace, key[1])


def _plain(obj: Named) -> Object:
    return obj if isinstance(obj, Object) else Object(metadata=obj.metadata)
