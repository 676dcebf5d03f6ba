"""The watches of declared workload kinds: what their objects say reaches the pods' reader, and pods that it concerns
are read again.

An object of an owner between a workload and its pods (a ReplicaSet below a Rollout) is known as far as somebody watches
its kind and tells `owner_seen`.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.drivers.kube.kinds.workload.index import WorkloadIndex, named
from cotenant.drivers.kube.kinds.workload.objects import DeclaredObject, controller_of, kind_of, read_declared
from cotenant.model.groups.workload_kind import MAX_OWNERS, WorkloadKind, WorkloadState
from cotenant.services.kube_process.watches import ObjectHandler, Watches

ABSENT_S = 60.0  # between two requests for a kind that is not installed


class WorkloadWatches:
    """Keeps the index. `reread` gets what pods depend on that changed; `seen` each object's state."""

    def __init__(
        self,
        index: WorkloadIndex,
        reread: Callable[[str], None],
        seen: Callable[[WorkloadState], None] = lambda state: None,
    ) -> None:
        self._index, self._reread, self._seen = index, reread, seen
        self._below: dict[str, set[str]] = {}  # UID of a controller -> UIDs of what it owns, of what was seen here
        self._uids: dict[tuple[str, str], str] = {}  # kind and namespace/name of owners -> UID

    def watch(self, watches: Watches) -> None:
        """Watch every declared kind."""
        for kind in self._index.kinds:
            watches.handle(kind_of(kind), self._handler(kind), optional=True, absent_s=ABSENT_S)

    def _handler(self, kind: WorkloadKind) -> ObjectHandler[DeclaredObject, tuple[WorkloadState, ObjectMeta]]:
        return ObjectHandler(
            lambda obj: (read_declared(kind, obj), obj.metadata),
            lambda found: self._object_seen(*found),
            lambda key: self._object_gone(kind, key),
        )

    def _object_seen(self, state: WorkloadState, meta: ObjectMeta) -> None:
        self._note_owner(state.uid, meta)
        news = self._index.put(state, controller_of(meta))
        self._seen(state)
        if news:
            self._reread(named(state))
            self._reread_below(state.uid)

    def _object_gone(self, kind: WorkloadKind, key: str) -> None:
        uid = self._index.drop(kind, key)
        if uid:
            self._reread(f"{kind.plural}.{kind.group} {key}")
            self._reread_below(uid)

    def owner_seen(self, kind: str, meta: ObjectMeta) -> None:
        """An object that may be between a workload and its pods was created or changed."""
        uid = meta.uid or ""
        self._uids[kind, f"{meta.namespace}/{meta.name}"] = uid
        self._note_owner(uid, meta)
        if self._index.put_owner(uid, controller_of(meta)):
            self._reread_below(uid)

    def owner_gone(self, kind: str, key: str) -> None:
        """Such an object was deleted."""
        uid = self._uids.pop((kind, key), "")
        self._below.pop(uid, None)
        self._index.put_owner(uid, None)

    def _note_owner(self, uid: str, meta: ObjectMeta) -> None:
        owner = controller_of(meta)
        if owner is not None:
            self._below.setdefault(owner.uid, set()).add(uid)

    def _reread_below(self, uid: str) -> None:
        level, met = {uid}, {uid}
        for _ in range(MAX_OWNERS):
            for owner in level:
                self._reread(owner)
            level = {below for owner in level for below in self._below.get(owner, ())} - met
            met |= level
