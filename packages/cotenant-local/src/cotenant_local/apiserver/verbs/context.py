"""The state that the verbs share: the store, the registry, each kind's behaviour, admission, patches, the clock and
randomness.

Limits: `Patching` and admission are optional; without patching a PATCH is refused with 415 and managedFields are not
kept.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.contract import Admission, RequestTarget, Resource, Schema
from cotenant_local.apiserver.kinds.behaviour import CustomBehaviour, KindBehaviour
from cotenant_local.apiserver.kinds.quota_sums import QuotaSums
from cotenant_local.apiserver.registry import ResourceRegistry
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.storage.stored import Key, StoredObject
from cotenant_local.apiserver.storage.table import ObjectTable

_METADATA_FIELDS: dict[str, Callable[[Manifest], str]] = {
    "metadata.name": lambda obj: obj["metadata"].get("name", ""),
    "metadata.namespace": lambda obj: obj["metadata"].get("namespace", ""),
}


class Patching(Protocol):
    """Patch formats and managed fields, implemented by cotenant_local/apiserver/patching."""

    def json_patch(self, obj: Manifest, body: bytes) -> Manifest:
        """RFC 6902."""

    def merge_patch(self, obj: Manifest, body: bytes) -> Manifest:
        """RFC 7386."""

    def strategic_merge(self, obj: Manifest, body: bytes, schema: Schema | None) -> Manifest:
        """Kubernetes' strategic merge."""

    def apply(
        self,
        obj: Manifest | None,
        body: bytes,
        schema: Schema | None,
        manager: str,
        force: bool,
        api_version: str,
        now: str,
        subresource: str,
    ) -> Manifest:
        """Server-side apply."""

    def track(
        self,
        old: Manifest | None,
        new: Manifest,
        schema: Schema | None,
        manager: str,
        operation: str,
        now: str,
        subresource: str,
    ) -> None:
        """Update the managedFields of `new`."""


_LAST_S = 253_402_300_799.0  # the end of the year 9999


def timestamp(now: float) -> str:
    """Unix seconds as metav1.Time: RFC 3339, whole seconds, UTC; the year 9999 at most."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(min(now, _LAST_S)))


def _new_uid() -> str:
    return str(uuid.uuid4())


@dataclass(slots=True)
class Context:
    """The shared state of one server."""

    store: Store
    registry: ResourceRegistry
    behaviours: Mapping[tuple[str, str], KindBehaviour] = field(default_factory=dict)  # by storage
    patching: Patching | None = None
    admission: list[Admission] = field(default_factory=list)
    check_room: Callable[[RequestTarget, Manifest], None] | None = (
        None  # raises ApiError 403 for a new object beyond a quota
    )
    clock: Callable[[], float] = time.time
    rng: random.Random = field(default_factory=random.Random)
    new_uid: Callable[[], str] = _new_uid
    bookmark_period_s: float = 60.0
    quota_sums: QuotaSums = field(init=False)
    _custom: dict[bool, KindBehaviour] = field(default_factory=dict)
    _plain: KindBehaviour = field(default_factory=KindBehaviour)
    _ready_tables: dict[tuple[str, str], tuple[int, ObjectTable]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.quota_sums = QuotaSums(self.store)

    def table(self, resource: Resource) -> ObjectTable:
        """The table of a resource, with its selectable fields declared."""
        known = self._ready_tables.get(resource.storage)
        if known is not None and known[0] == self.registry.revision:
            return known[1]
        hub = self.registry.hub(resource)
        selectable = {**_METADATA_FIELDS, **hub.selectable}
        table = self.store.table(resource.storage, tuple(selectable.items()))
        self._ready_tables[resource.storage] = (self.registry.revision, table)
        return table

    def behaviour(self, resource: Resource) -> KindBehaviour:
        """The behaviour of a resource's kind."""
        found = self.behaviours.get(resource.storage)
        if found is not None:
            return found
        if not resource.is_custom:
            return self._plain
        has_status = "status" in resource.subresources
        found = self._custom.get(has_status)
        if found is None:
            found = self._custom[has_status] = CustomBehaviour(has_status=has_status)
        return found

    def key(self, target: RequestTarget) -> Key:
        """The storage key of a target."""
        return (target.namespace, target.name)

    def lookup(self, group: str, plural: str, namespace: str, name: str) -> Manifest | None:
        """One stored object as a new document (`World`)."""
        found = self.find(group, plural, namespace, name)
        return None if found is None else found.decode()

    def find(self, group: str, plural: str, namespace: str, name: str) -> StoredObject | None:
        """One stored object."""
        return self.store.table((group, plural)).get((namespace, name))

    def scan(self, group: str, plural: str, namespace: str = "") -> Iterator[Manifest]:
        """All stored objects of a kind as new documents (`World`)."""
        for stored in self.store.table((group, plural)).walk(namespace):
            yield stored.decode()

    def version(self, group: str, plural: str) -> int:
        """A counter that changes whenever an object of a kind does (`World`)."""
        return self.store.table((group, plural)).changes

    def now(self) -> float:
        """Unix seconds (`World`)."""
        return self.clock()

    def stamp(self) -> str:
        """Now, as metav1.Time."""
        return timestamp(self.clock())
