"""`metadata.managedFields`: reading and writing of entries.

An entry is identified by manager name, operation, subresource and (for updates) API version, and clients may send
malformed entries. An immutable record per entry, keyed by that identity; malformed entries are refused or ignored as on
the real server.
Limits: at most `MAX_UPDATERS` update entries; older ones are merged into one named `ancient-changes`, as Kubernetes
does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.patching.fieldsets import FieldSet, union

APPLY = "Apply"
UPDATE = "Update"
MAX_UPDATERS = 10
ANCIENT = "ancient-changes"
BEFORE_FIRST_APPLY = "before-first-apply"

Identity = tuple[str, str, str, str]  # operation, name, API version ("" for apply), subresource


@dataclass(frozen=True, slots=True)
class ManagedFieldsEntry:
    """The fields that one manager owns. `time` is RFC 3339 in whole seconds."""

    manager: str
    operation: str
    api_version: str
    time: str
    fields: FieldSet
    subresource: str = ""

    @property
    def identity(self) -> Identity:
        """The key under which entries of the same manager are merged."""
        return (self.operation, self.manager, "" if self.operation == APPLY else self.api_version, self.subresource)

    def shown(self) -> str:
        """The manager's name in messages."""
        name = f'"{self.manager}"'
        if self.subresource:
            name += f' with subresource "{self.subresource}"'
        return f"{name} using {self.api_version}" if self.operation == UPDATE else name


Managers = dict[Identity, ManagedFieldsEntry]


def read(obj: Manifest | None, *, is_stored: bool = False) -> Managers:
    """The managers of an object; none if its entries are malformed. Entries of a stored object were validated when
    it was written.
    """
    found: Managers = {}
    metadata = obj.get("metadata") if obj else None
    entries: JsonValue = metadata.get("managedFields") if isinstance(metadata, dict) else None
    if not isinstance(entries, list):
        return found
    for raw in entries:
        if not isinstance(raw, dict) or raw.get("operation") not in (APPLY, UPDATE):
            return {}
        fields = raw.get("fieldsV1", {})
        if not isinstance(fields, dict) or raw.get("fieldsType", "FieldsV1") != "FieldsV1":
            return {}
        texts = [raw.get(key, "") for key in ("manager", "apiVersion", "time", "subresource")]
        if not is_stored and not (all(isinstance(text, str) for text in texts) and well_formed(fields)):
            return {}
        entry = ManagedFieldsEntry(texts[0], raw["operation"], texts[1], texts[2], fields, texts[3])
        found[entry.identity] = entry
    return found


def well_formed(fields: object) -> bool:
    """Whether a value is a valid field set: nested mappings with keys of the four kinds."""
    if type(fields) is not dict:
        return False
    for key, value in fields.items():
        if key != "." and key[:2] not in ("f:", "k:", "v:", "i:"):
            return False
        if value and not well_formed(value):
            return False
        if type(value) is not dict:
            return False
    return True


def requests_reset(obj: Manifest) -> bool:
    """Whether the client requests that all entries be removed: a list with one empty entry. (An empty list changes
    nothing, because a client that does not know the field sends that.)
    """
    metadata = obj.get("metadata")
    return isinstance(metadata, dict) and metadata.get("managedFields") == [{}]


def write(obj: Manifest, managers: Managers) -> None:
    """Set an object's managedFields, in Kubernetes' order; managers without fields are left out."""
    kept = [entry for entry in managers.values() if entry.fields]
    if len(kept) > 1:
        kept.sort(key=_order)
    metadata = obj.setdefault("metadata", {})
    if kept:
        metadata["managedFields"] = [_raw(entry) for entry in kept]
    else:
        metadata.pop("managedFields", None)


def capped(managers: Managers) -> Managers:
    """Merge the oldest update entries if there are too many."""
    updaters = [entry for entry in managers.values() if entry.operation == UPDATE]
    if len(updaters) <= MAX_UPDATERS:
        return managers
    updaters.sort(key=_order)
    result = dict(managers)
    excess = updaters[: len(updaters) - MAX_UPDATERS + 1]
    by_version: dict[str, ManagedFieldsEntry] = {}
    for entry in excess:
        del result[entry.identity]
        before = by_version.get(entry.api_version)
        merged = replace(entry, manager=ANCIENT, subresource="")
        if before is not None:
            merged = replace(merged, fields=union(before.fields, entry.fields), time=max(before.time, entry.time))
        by_version[entry.api_version] = merged
    for merged in by_version.values():
        result[merged.identity] = merged
    return result


def timestamp(now: float | str) -> str:
    """Unix seconds as RFC 3339; a string is returned unchanged."""
    return now if isinstance(now, str) else _seconds(int(now))


@lru_cache(maxsize=4)
def _seconds(now: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def _order(entry: ManagedFieldsEntry) -> tuple[str, str, str, str, str]:
    return (entry.operation, entry.time, entry.manager, entry.api_version, entry.subresource)


def _raw(entry: ManagedFieldsEntry) -> Manifest:
    raw: Manifest = {
        "manager": entry.manager,
        "operation": entry.operation,
        "apiVersion": entry.api_version,
        "time": entry.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": entry.fields,
    }
    if not entry.time:
        del raw["time"]
    if entry.subresource:
        raw["subresource"] = entry.subresource
    return raw
