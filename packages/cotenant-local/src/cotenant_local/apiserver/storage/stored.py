"""A stored object: its encoded bytes, and the fields that lists and watches need without decoding it.

10,000 nodes and 100,000 pods of 3 KB must fit in 2 GiB and be listed and filtered in microseconds each. The bytes are
the object; beside them are the identity, the labels (shared between objects with equal labels) and the values of the
selectable fields, as a tuple in the order that the table declares. After a restart the field values are computed on
first use.
Limits: replaced, never modified in place, so a snapshot is a list of references.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict).decode

Key = tuple[str, str]  # namespace ("" for cluster-scoped), name
Selectable = tuple[tuple[str, Callable[[Manifest], str]], ...]

_NO_LABELS: dict[str, str] = {}
_shared: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
_SHARED_LIMIT = 8_192


def decode(raw: bytes) -> Manifest:
    """Decode a stored object into a new document, which the caller may modify."""
    return _decode(raw)


def share_labels(labels: Mapping[str, str] | None, before: dict[str, str] | None = None) -> dict[str, str]:
    """The shared copy of these labels; `before`, those of the object's last version, if they are equal. Do not
    modify.
    """
    if not labels:
        return _NO_LABELS
    if before == labels:
        return before
    key = tuple(labels.items())
    found = _shared.get(key)
    if found is None:
        if len(_shared) >= _SHARED_LIMIT:
            _shared.clear()  # existing objects keep their copies
        found = _shared[key] = {sys.intern(name): value for name, value in key}
    return found


class StoredObject:
    """One object at one resourceVersion. `id` is its row in the database."""

    __slots__ = ("fields", "id", "key", "labels", "raw", "resource_version", "uid")

    def __init__(
        self,
        row: int,
        key: Key,
        resource_version: int,
        uid: str,
        raw: bytes,
        labels: dict[str, str],
        fields: tuple[str, ...] | None,
    ) -> None:
        self.id = row
        self.key = key
        self.resource_version = resource_version
        self.uid = uid
        self.raw = raw
        self.labels = labels
        self.fields = fields

    @property
    def namespace(self) -> str:
        """Its namespace, empty for a cluster-scoped object."""
        return self.key[0]

    @property
    def name(self) -> str:
        """Its name."""
        return self.key[1]

    def decode(self) -> Manifest:
        """Decode into a new document."""
        return _decode(self.raw)

    def selectable(self, fields: Selectable) -> tuple[str, ...]:
        """The values of the selectable fields, in their order."""
        values = self.fields
        if values is None:
            values = self.fields = field_values(self.decode(), fields)
        return values

    def at_version(self, resource_version: int) -> bytes:
        """The encoded object with another resourceVersion (an object that leaves a selection is sent in its last
        selected state).
        """
        present = b'"resourceVersion":"%d"' % self.resource_version
        if self.raw.count(present) == 1:
            return self.raw.replace(present, b'"resourceVersion":"%d"' % resource_version)
        obj = self.decode()
        obj["metadata"]["resourceVersion"] = str(resource_version)
        return encode(obj)


def field_values(obj: Manifest, fields: Selectable) -> tuple[str, ...]:
    """The values of the selectable fields of a document."""
    return tuple([sys.intern(read(obj)) for _, read in fields])
