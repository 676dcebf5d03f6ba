"""Server-side apply: a manager states the fields it wants, the server records which manager stated what.

Several managers share an object; none may silently undo another, and a field that a manager no longer states must be
removed unless another owns it. Kubernetes' procedure. Merge the configuration into the live object; a changed field
owned by another manager is a conflict (409) unless forced, in which case ownership moves; equal values are shared;
fields that the manager stated before, states no longer and no other owns are removed. Applying the same configuration
again changes nothing, times included.
Limits: entries of several API versions of a kind are assumed to name the same fields; kubectl's client-side annotation
is not migrated.
Source: Kubernetes documentation, Server-Side Apply.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.drivers.kube.manifests import tree
from cotenant.drivers.kube.manifests.document import copied, read_mapping, refuse_deep
from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant.drivers.kube.manifests.tree import DEDUCED, SchemaNode
from cotenant_local.apiserver.contract import Schema
from cotenant_local.apiserver.patching import managers as entries
from cotenant_local.apiserver.patching.fieldsets import (
    FieldSet,
    applied_object,
    changes,
    difference,
    element_key,
    intersection,
    paths,
    written_object,
)
from cotenant_local.apiserver.patching.managers import APPLY, UPDATE, ManagedFieldsEntry, Managers
from cotenant_local.apiserver.patching.ownership import reset_fields
from cotenant_local.apiserver.patching.typedmerge import child_of, merge, remove


def apply(
    obj: Manifest | None,
    body: bytes | Manifest,
    schema: Schema | None,
    manager: str,
    force: bool,
    api_version: str,
    now: float | str,
    subresource: str = "",
    reset: frozenset[str] | None = None,
) -> Manifest:
    """The object after the apply, managedFields included; `obj` None creates it. `now` is Unix seconds.

    Raises ApiError 400 if the body is not an object of this kind, 409 with one cause per field that another manager
    owns.
    """
    config = copied(_checked(body, api_version, manager))
    root: SchemaNode = getattr(schema, "tree", DEDUCED)
    _decode(config, schema, api_version)
    config.get("metadata", {}).pop("managedFields", None)
    _refuse_duplicates(config, root, "", api_version)
    skipped = reset_fields(schema, subresource) if reset is None else reset
    if skipped:
        config = {key: value for key, value in config.items() if key not in skipped}
    stated = applied_object(config, root, skipped)
    if subresource == "status":
        stated = {"f:status": stated["f:status"]} if "f:status" in stated else {}
    own = ManagedFieldsEntry(manager, APPLY, api_version, entries.timestamp(now), stated, subresource)
    if obj is None:
        entries.write(config, {own.identity: own})
        return config

    live = {**obj, "metadata": {key: value for key, value in obj.get("metadata", {}).items() if key != "managedFields"}}
    before = _managers_before(obj, live, root, api_version, subresource)
    merged: Manifest = merge(live, config, root)
    set_, _ = changes(live, merged, root, skipped)
    after = _with_ownership(before, own, set_, force)
    last = before.get(own.identity)
    if last is not None:
        others = [entry.fields for identity, entry in after.items() if identity != own.identity]
        # Keep the metadata itself, even if this manager was the only one to own fields of it.
        merged = remove(merged, last.fields, {"f:metadata": {}, **stated}, others, root)
        _, removed = changes(live, merged, root, skipped)
        if removed:
            after = {
                identity: entry
                if identity == own.identity
                else replace(entry, fields=difference(entry.fields, removed))
                for identity, entry in after.items()
            }
    if last is not None and last.fields == stated and last.api_version == api_version and merged == live:
        after = {**after, own.identity: last}
    if after == before and merged == live:
        return obj
    entries.write(merged, entries.capped(after))
    return merged


def _checked(body: bytes | Manifest, api_version: str, manager: str) -> Manifest:
    config = read_mapping(body, yaml=True)
    refuse_deep(config)
    if not manager:
        message = "fieldManager: Required value: is required for apply patch"
        cause = FieldError("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
        raise ApiError(422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {message}', causes=(cause,))
    found = config.get("apiVersion", "")
    if found != api_version:
        text = f"Incorrect version specified in apply patch. Specified patch version: {found}, expected: {api_version}"
        raise ApiError(400, "BadRequest", text)
    metadata = config.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise ApiError(400, "BadRequest", "error decoding patch: metadata must be an object")
    if metadata and metadata.get("managedFields"):
        raise ApiError(400, "BadRequest", "metadata.managedFields must be nil")
    return config


def _decode(config: Manifest, schema: Schema | None, api_version: str) -> None:
    """Bring the configuration to canonical form, so that it compares with the live object; refuse unknown fields."""
    if schema is None:
        _drop_nulls(config)
        return
    unknown = schema.unknown_fields(config)
    if unknown:
        raise _untyped(config, api_version, "\n".join(f".{path}: field not declared in schema" for path in unknown))
    schema.prune(config)
    _drop_nulls(config)


def _drop_nulls(value: object) -> None:
    if type(value) is dict:
        for key in [key for key, entry in value.items() if entry is None]:
            del value[key]
        for entry in value.values():
            _drop_nulls(entry)
    elif type(value) is list:
        for entry in value:
            _drop_nulls(entry)


def _untyped(config: Manifest, api_version: str, message: str) -> ApiError:
    metadata = config.get("metadata", {})
    key = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    what = f"{key}; {api_version}, Kind={config.get('kind', '')}"
    return ApiError(400, "BadRequest", f"failed to create typed patch object ({what}): {message}")


def _refuse_duplicates(config: Manifest, root: SchemaNode, path: str, api_version: str) -> None:
    """Elements of keyed lists must have their keys and be unique, or ownership would be ambiguous."""
    waiting: list[tuple[object, SchemaNode, str]] = [(config, root, path)]
    while waiting:
        value, node, here = waiting.pop()
        if type(value) is dict and not node.atomic:
            waiting.extend((entry, child_of(node, key), f"{here}.{key}") for key, entry in value.items())
        elif type(value) is list and node.list_type != tree.ATOMIC:
            seen: set[str] = set()
            for index, entry in enumerate(value):
                if node.list_type == tree.ASSOCIATIVE:
                    if type(entry) is not dict:
                        raise _untyped(config, api_version, f"{here}: element {index}: associative list needs objects")
                    for key in node.keys:
                        if key not in entry and key not in node.defaults:
                            message = f'associative list with keys has an element that omits key field "{key}"'
                            raise _untyped(
                                config,
                                api_version,
                                f"{here}: element {index}: {message} (and doesn't have default value)",
                            )
                name = element_key(entry, node)
                if name in seen:
                    shown = next(paths({name: {}}))
                    raise _untyped(config, api_version, f"{here}: duplicate entries for key {shown}")
                seen.add(name)
                waiting.append((entry, node.item, f"{here}[{index}]"))


def _managers_before(obj: Manifest, live: Manifest, root: SchemaNode, api_version: str, subresource: str) -> Managers:
    found = entries.read(obj, is_stored=True)
    if (
        not found
    ):  # no manager was recorded: all earlier writers count as one updater, with which the apply may conflict
        first = ManagedFieldsEntry(
            entries.BEFORE_FIRST_APPLY, UPDATE, api_version, "", written_object(live, root, frozenset())
        )
        found[first.identity] = first
    return found


def _with_ownership(before: Managers, own: ManagedFieldsEntry, set_: FieldSet, force: bool) -> Managers:
    """The managers with `own` in its new state. Raises ApiError 409 if others own changed fields, unless forced."""
    conflicts: list[tuple[ManagedFieldsEntry, FieldSet]] = []
    after: Managers = {}
    for identity, entry in before.items():
        if identity == own.identity:
            continue
        shared = intersection(entry.fields, set_) if set_ else {}
        if shared:
            conflicts.append((entry, shared))
            entry = replace(entry, fields=difference(entry.fields, shared))
        if entry.fields:
            after[identity] = entry
    if conflicts and not force:
        raise _conflict(conflicts)
    if own.fields:
        after[own.identity] = own
    return after


def _conflict(conflicts: list[tuple[ManagedFieldsEntry, FieldSet]]) -> ApiError:
    by_manager = sorted((entry.shown(), list(paths(fields))) for entry, fields in conflicts)
    causes = tuple(
        FieldError("FieldManagerConflict", f"conflict with {manager}", path)
        for manager, changed_paths in by_manager
        for path in changed_paths
    )
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        listed = [
            line
            for manager, changed_paths in by_manager
            for line in (f"conflicts with {manager}:", *(f"- {path}" for path in changed_paths))
        ]
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(listed)
    return ApiError(409, "Conflict", text, causes=causes)
