"""Strategic merge patches: merge patches that treat some lists as sets or as maps keyed by a field.

Problem: kubectl apply and many controllers patch a container in a list by its name; directives in the patch delete, replace and reorder.
Choice: one recursive merge guided by the kind's schema (merge keys and strategies as published by Kubernetes); the order of a merged list
is that of `$setElementOrder` (elements that the patch does not name keep their position). Limits: built-in kinds only, as in Kubernetes.
Source: Kubernetes' description of strategic merge patch (`$patch`, `$retainKeys`, `$deleteFromPrimitiveList`, `$setElementOrder`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from cotenant.drivers.kube.manifests import tree
from cotenant.drivers.kube.manifests.document import copy_value, read_mapping, refuse_deep
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant.drivers.kube.manifests.ordering import interleave
from cotenant.drivers.kube.manifests.tree import DEDUCED, SchemaNode

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_DELETED = object()  # the place of a removed element


def strategic_merge(obj: Manifest, body: bytes | Manifest, node: SchemaNode = DEDUCED) -> Manifest:
    """The patched object; `node`: its kind, without which lists are replaced. Raises ApiError 400 for a malformed patch, 422 for a list element without its merge key."""
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
        kept = {_identity(each) for each in retained}
        for key in list(target):
            if key not in kept:
                del target[key]
    orders: dict[str, list[Any]] = {}
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
                    removed = {_identity(each) for each in value}
                    target[name] = [each for each in present if _identity(each) not in removed]
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


def _merge_list(present: list[Any], patch: list[Any], node: SchemaNode, order: list[Any] | None) -> list[Any]:
    if node.item.kind != tree.STRUCT:
        if any(isinstance(each, dict | list) for each in patch):
            raise _bad(f"expected a list of scalars, got {_shown(patch)}")
        known = {_identity(each) for each in present}
        result = list(present)
        for each in patch:
            if each not in known:
                known.add(each)
                result.append(each)
        return _ordered(result, order, node) if order is not None else result
    key = node.merge_key
    for each in patch:
        if not isinstance(each, dict):
            raise _bad(f"expected a list of objects, got {_shown(patch)}")
    if any(each.get(_PATCH) == "replace" for each in patch):
        return [_without_directives(each) for each in patch if each.get(_PATCH) != "replace" or len(each) > 1]
    result = list(present)
    at: dict[Hashable, list[int]] = {}  # positions by merge key
    for index, other in enumerate(present):
        if isinstance(other, dict) and key in other:
            at.setdefault(_identity(other[key]), []).append(index)
    for each in patch:
        if each.get(_PATCH) not in (None, "delete", "merge"):
            raise _bad(f"unknown patch type: {each[_PATCH]} in map: {_shown(each)}")
        if key not in each:
            raise _unmergeable(f"map: {_shown(each)} does not contain declared merge key: {key}")
        identity = _identity(each[key])
        if each.get(_PATCH) == "delete":
            for index in at.pop(identity, ()):
                result[index] = _DELETED
        elif identity in at:
            index = at[identity][0]
            result[index] = _merge_map(result[index], each, node.item)
        else:
            at[identity] = [len(result)]
            result.append(_merge_map({}, each, node.item))
    result = [each for each in result if each is not _DELETED]
    return _ordered(result, order, node) if order is not None else result


def _ordered(items: list[Any], order: list[Any], node: SchemaNode) -> list[Any]:
    """The items in the given order; items not named in it keep their position among the others."""
    key = node.merge_key if node.item.kind == tree.STRUCT else ""

    def identity(item: Any) -> Hashable:
        return _identity(item.get(key) if key and isinstance(item, dict) else item)

    merge_value = [identity(each) for each in order]
    known = {identity(each): each for each in items}
    if len(known) < len(items):  # duplicate keys (e.g. two ports with one number) cannot be told apart
        return items
    return [
        known[each] for each in interleave([identity(each) for each in items], [w for w in merge_value if w in known])
    ]


def _child(node: SchemaNode, key: str) -> SchemaNode:
    if node.kind == tree.STRUCT:
        return node.fields.get(key, DEDUCED)
    return node.item if node.kind == tree.MAP else DEDUCED


def _identity(value: Any) -> Hashable:
    """A hashable stand-in for a merge key or a list's scalar; equal values have equal ones."""
    return value if isinstance(value, Hashable) else msgspec.json.encode(value, order="sorted")


def _without_directives(value: Any) -> Any:
    if type(value) is dict:
        return {
            key: _without_directives(each)
            for key, each in value.items()
            if each is not None and not key.startswith("$")
        }
    return [_without_directives(each) for each in value] if type(value) is list else value


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else text[:200] + "..."


def _bad(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def _unmergeable(message: str) -> ApiError:
    return ApiError(422, "Invalid", message)
