"""Events: namespace validation, and expiry after an hour.

A scheduler writes one event per pod; kept forever they would outgrow all other objects. As in Kubernetes an event is
deleted an hour after its last write, and, unlike upstream, when too many newer ones exist. Both happen when another
event is written.
Limits: the hour starts again when the server starts.
Source: Kubernetes API reference, Event; an event about a cluster-scoped object is in `default`.
"""

from __future__ import annotations

from collections import deque

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.kinds.behaviour import KindBehaviour
from cotenant_local.apiserver.storage.stored import Key, StoredObject
from cotenant_local.apiserver.storage.table import ObjectTable
from cotenant_local.apiserver.verbs.errors import shown


class EventBehaviour(KindBehaviour):
    """An event, in either API's form."""

    may_create_on_update = True

    def __init__(self, *, age_s: float = 3_600.0, max_events: int = 50_000) -> None:
        super().__init__()
        self._age_s = age_s
        self._max_events = max_events
        self._written: deque[tuple[float, Key, int]] = deque()  # (time, key, resourceVersion) of each write
        self._is_loaded = False

    def expired(self, table: ObjectTable, written: StoredObject, now: float) -> list[StoredObject]:
        """Events last written more than an hour ago, or beyond the maximum number."""
        if not self._is_loaded:
            self._is_loaded = True
            older = sorted(
                (stored for stored in table.walk() if stored is not written), key=lambda stored: stored.resource_version
            )
            self._written.extend((now, stored.key, stored.resource_version) for stored in older)
        self._written.append((now, written.key, written.resource_version))
        found: list[StoredObject] = []
        while self._written and (
            now - self._written[0][0] > self._age_s or table.count - len(found) > self._max_events
        ):
            _, key, revision = self._written.popleft()
            stored = table.get(key)
            if stored is not None and stored.resource_version == revision:
                found.append(stored)
        return found

    def check_create(self, obj: Manifest) -> list[FieldError]:
        """The namespaces of the event and its object must agree."""
        field = "involvedObject" if "involvedObject" in obj else "regarding"
        about = obj.get(field) or {}
        named, namespace = about.get("namespace") or "", obj["metadata"].get("namespace") or ""
        if obj.get("eventTime"):  # events.k8s.io's rule
            agrees = bool(named) or namespace in ("default", "kube-system")
        else:
            agrees = named == namespace or (not named and namespace in ("", "default"))
        if agrees:
            return []
        why = f"Invalid value: {shown(named)}: does not match event.namespace"
        return [FieldError("FieldValueInvalid", why, f"{field}.namespace")]
