"""Strategic merge patches: merge patches that treat some lists as sets or as maps keyed by a field.

Kubectl apply and many controllers patch a container in a list by its name; directives in the patch delete, replace and
reorder. One recursive merge guided by the kind's schema (merge keys and strategies as published by Kubernetes); the
order of a merged list is that of `$setElementOrder` (elements that the patch does not name keep their position).
Limits: built-in kinds only, as in Kubernetes.
Source: Kubernetes' description of strategic merge patch (`$patch`, `$retainKeys`, `$deleteFromPrimitiveList`,
`$setElementOrder`).
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from cotenant.drivers.kube.manifests import tree
from cotenant.drivers.kube.manifests.document import copy_value, read_mapping, refuse_deep
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant.drivers.kube.manifests.ordering import interleave
from cotenant.drivers.kube.manifests.tree import DEDUCED, SchemaNode
from cotenant.model.json_object import JsonValue

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_DELETED = object()  # the place of a removed element


def strategic_merge(obj: Manifest, body: bytes | Manifest, node: SchemaNode = DEDUCED) -> Manifest:
    """The patched object; `node`: its kind, without which lists are replaced. Raises ApiError 400 for a malformed
    patch, 422 for a list element without its merge key.
    """
    patch = read_mapping(body)
    refuse_deep(patch)
    return _merge_map(obj, patch, node)


def _merge_map(target: Manifest, patch: Manifest, node: SchemaNode) -> Manifest:
    directive = patch.get(_PATCH)
    if directive is not None:
        if directive == "replace":
            return _without_directives({key: value for key, value in patch.items() if key != _PATCH})
        if directive == "delete":
            return {}
        if directive != "merge":
            raise _bad(f"unknown patch type: {directive} in map: {_shown(patch)}")
    retained = patch.get(_RETAIN)
    if retained is not None:
        if not isinstance(retained, list):
            raise _bad(f"{_RETAIN} must be a list")
        kept = {_identity(entry) for entry in retained}
        for key in list(target):
            if key not in kept:
                del target[key]
    orders: dict[str, list[JsonValue]] = {}
    for key, value in patch.items():
        if key.startswith("$"):
            if key.startswith(_ORDER):
                if not isinstance(value, list):
                    raise _bad(f"invalid value type for {key}: it must be a list")
                orders[key.removeprefix(_ORDER)] = value
            elif key.startswith(_DELETE):
                name = key.removeprefix(_DELETE)
                if not isinstance(value, list):
                    raise _bad(f"invalid value type for {key}: it must be a list")
                present = target.get(name)
                if isinstance(present, list):
                    removed = {_identity(entry) for entry in value}
                    target[name] = [entry for entry in present if _identity(entry) not in removed]
            elif key not in (_PATCH, _RETAIN):
                raise _bad(f"invalid directive {key}")
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            target.pop(key, None)
            continue
        child = _child(node, key)
        if type(value) is dict:
            inner = target.get(key)
            if value.get(_PATCH) == "delete" and key not in target:
                continue
            target[key] = _merge_map(inner if type(inner) is dict else {}, value, child)
        elif type(value) is list and child.merges:
            inner = target.get(key)
            target[key] = _merge_list(inner if type(inner) is list else [], value, child, orders.pop(key, None))
        else:
            target[key] = copy_value(value)
    for key, order in orders.items():  # lists that are only reordered
        child = _child(node, key)
        if child.merges and isinstance(target.get(key), list):
            target[key] = _ordered(target[key], order, child)
    return target


def _merge_list(
    present: list[JsonValue], patch: list[JsonValue], node: SchemaNode, order: list[JsonValue] | None
) -> list[JsonValue]:
    if node.item.kind != tree.STRUCT:
        if any(isinstance(entry, dict | list) for entry in patch):
            raise _bad(f"expected a list of scalars, got {_shown(patch)}")
        known = {_identity(entry) for entry in present}
        result = list(present)
        for entry in patch:
            if entry not in known:
                known.add(entry)
                result.append(entry)
        return _ordered(result, order, node) if order is not None else result
    key = node.merge_key
    for entry in patch:
        if not isinstance(entry, dict):
            raise _bad(f"expected a list of objects, got {_shown(patch)}")
    if any(entry.get(_PATCH) == "replace" for entry in patch):
        return [_without_directives(entry) for entry in patch if entry.get(_PATCH) != "replace" or len(entry) > 1]
    result = list(present)
    at: dict[Hashable, list[int]] = {}  # positions by merge key
    for index, other in enumerate(present):
        if isinstance(other, dict) and key in other:
            at.setdefault(_identity(other[key]), []).append(index)
    for entry in patch:
        if entry.get(_PATCH) not in (None, "delete", "merge"):
            raise _bad(f"unknown patch type: {entry[_PATCH]} in map: {_shown(entry)}")
        if key not in entry:
            raise _unmergeable(f"map: {_shown(entry)} does not contain declared merge key: {key}")
        identity = _identity(entry[key])
        if entry.get(_PATCH) == "delete":
            for index in at.pop(identity, ()):
                result[index] = _DELETED
        elif identity in at:
            index = at[identity][0]
            result[index] = _merge_map(result[index], entry, node.item)
        else:
            at[identity] = [len(result)]
            result.append(_merge_map({}, entry, node.item))
    result = [entry for entry in result if entry is not _DELETED]
    return _ordered(result, order, node) if order is not None else result


def _ordered(items: list[JsonValue], order: list[object], node: SchemaNode) -> list[object]:
    """The items in the given order; items not named in it keep their position among the others."""
    key = node.merge_key if node.item.kind == tree.STRUCT else ""

    def identity(item: object) -> Hashable:
        return _identity(item.get(key) if key and isinstance(item, dict) else item)

    merge_value = [identity(entry) for entry in order]
    known = {identity(entry): entry for entry in items}
    if len(known) < len(items):  # duplicate keys (e.g. two ports with one number) cannot be told apart
        return items
    return [
        known[hashable]
        for hashable in interleave([identity(entry) for entry in items], [w for w in merge_value if w in known])
    ]


def _child(node: SchemaNode, key: str) -> SchemaNode:
    if node.kind == tree.STRUCT:
        return node.fields.get(key, DEDUCED)
    return node.item if node.kind == tree.MAP else DEDUCED


def _identity(value: object) -> Hashable:
    """A hashable stand-in for a merge key or a list's scalar; equal values have equal ones."""
    return value if isinstance(value, Hashable) else msgspec.json.encode(value, order="sorted")


def _without_directives(value: object) -> JsonValue:
    if type(value) is dict:
        return {
            key: _without_directives(entry)
            for key, entry in value.items()
            if entry is not None and not key.startswith("$")
        }
    return [_without_directives(entry) for entry in value] if type(value) is list else value


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else text[:200] + "..."


def _bad(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def _unmergeable(message: str) -> ApiError:
    return ApiError(422, "Invalid", message)
