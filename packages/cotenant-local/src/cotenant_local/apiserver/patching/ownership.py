"""Updates managedFields after a create, an update or a patch other than server-side apply.

Every write must be recorded in `managedFields`, so it must be cheap. A create records the whole object in one walk; an
update compares the two objects (equal parts are skipped at C speed) and moves only what changed: the writing manager
gains what it set, all others lose that and what was removed.
Limits: an object without any recorded manager stays so until its first apply, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.drivers.kube.manifests.tree import DEDUCED, SchemaNode
from cotenant_local.apiserver.contract import Schema
from cotenant_local.apiserver.patching import managers as entries
from cotenant_local.apiserver.patching.fieldsets import FieldSet, changes, difference, union, written_object
from cotenant_local.apiserver.patching.managers import ManagedFieldsEntry, Managers

_NONE: frozenset[str] = frozenset()


def track(
    old: Manifest | None,
    new: Manifest,
    schema: Schema | None,
    manager: str,
    operation: str,
    now: float | str,
    subresource: str = "",
    api_version: str = "",
    reset: Iterable[str] | None = None,
) -> None:
    """Write `new`'s managedFields, in place. `old` is the stored object (None on create), `now` Unix seconds,
    `operation` "Update".

    `reset`: top-level fields that this write cannot set, whatever its body contains; by default the schema's (status,
    for a write of the main resource). `api_version` defaults to the object's own.
    """
    root: SchemaNode = getattr(schema, "tree", DEDUCED)
    version = api_version or new.get("apiVersion", "")
    skipped = reset_fields(schema, subresource) if reset is None else frozenset(reset)
    if old is None:
        fields = written_object(new, root, skipped)
        own = ManagedFieldsEntry(manager, operation, version, entries.timestamp(now), fields, subresource)
        entries.write(new, {own.identity: own})
        return
    if entries.requests_reset(new) and not subresource:
        before: Managers = {}
        is_tracked = False
    else:
        is_untouched = new["metadata"].get("managedFields") == old["metadata"].get("managedFields")
        before = {} if subresource or is_untouched else entries.read(new)
        before = before or entries.read(old, is_stored=True)
        is_tracked = bool(before)
    if not is_tracked:
        entries.write(new, {})
        return
    set_, removed = changes(old, new, root, skipped)
    if subresource == "status":
        set_, removed = _only_status(set_), _only_status(removed)
    own = ManagedFieldsEntry(manager, operation, version, entries.timestamp(now), {}, subresource)
    entries.write(new, after_change(before, own, set_, removed))


def after_change(before: Managers, own: ManagedFieldsEntry, set_: FieldSet, removed: FieldSet) -> Managers:
    """The managers after `own` has set and removed fields: it gains the set ones, the others lose both."""
    if not set_ and not removed:
        return before
    managers: Managers = {}
    for identity, entry in before.items():
        fields = entry.fields
        if set_ and identity != own.identity:
            fields = difference(fields, set_)
        if removed:
            fields = difference(fields, removed)
        if fields:
            managers[identity] = entry if fields is entry.fields else replace(entry, fields=fields)
    if set_:
        known = managers.get(own.identity)
        managers[own.identity] = replace(own, fields=union(known.fields, set_) if known else set_)
    return entries.capped(managers)


def reset_fields(schema: Schema | None, subresource: str) -> frozenset[str]:
    """The top-level fields that a write of this (sub)resource does not change."""
    if subresource:
        return frozenset({"spec"}) if subresource == "status" else _NONE
    found: frozenset[str] = getattr(schema, "reset", _NONE)
    return found


def _only_status(fields: FieldSet) -> FieldSet:
    return {"f:status": fields["f:status"]} if "f:status" in fields else {}
