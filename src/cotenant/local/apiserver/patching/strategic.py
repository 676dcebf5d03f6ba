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

from cotenant.local.apiserver.contract import ApiError, Manifest, Schema
from cotenant.local.apiserver.patching.document import copy_value, read_mapping, refuse_deep
from cotenant.local.apiserver.patching.ordering import interleave
from cotenant.local.apiserver.schema import tree
from cotenant.local.apiserver.schema.tree import DEDUCED, SchemaNode

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_merge(obj: Manifest, body: bytes | Manifest, schema: Schema | None) -> Manifest:
    """The patched object. Raises ApiError 400 for a malformed patch, 422 for a list element without its merge key."""
    patch = read_mapping(body)
    refuse_deep(patch)
    return _merge_map(obj, patch, getattr(schema, "tree", DEDUCED))


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
        for key in list(target):
            if key not in retained:
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
                    target[name] = [each for each in present if each not in value]
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
        result = list(present)
        for each in patch:
            if each not in result:
                result.append(each)
        return _ordered(result, order, node) if order is not None else result
    key = node.merge_key
    for each in patch:
        if not isinstance(each, dict):
            raise _bad(f"expected a list of objects, got {_shown(patch)}")
    if any(each.get(_PATCH) == "replace" for each in patch):
        return [_without_directives(each) for each in patch if each.get(_PATCH) != "replace" or len(each) > 1]
    result = list(present)
    for each in patch:
        if each.get(_PATCH) not in (None, "delete", "merge"):
            raise _bad(f"unknown patch type: {each[_PATCH]} in map: {_shown(each)}")
        if key not in each:
            raise _unmergeable(f"map: {_shown(each)} does not contain declared merge key: {key}")
        merge_value = each[key]
        if each.get(_PATCH) == "delete":
            result = [other for other in result if not _has(other, key, merge_value)]
            continue
        for index, other in enumerate(result):
            if _has(other, key, merge_value):
                result[index] = _merge_map(other, each, node.item)
                break
        else:
            result.append(_merge_map({}, each, node.item))
    return _ordered(result, order, node) if order is not None else result


def _ordered(items: list[Any], order: list[Any], node: SchemaNode) -> list[Any]:
    """The items in the given order; items not named in it keep their position among the others."""
    key = node.merge_key if node.item.kind == tree.STRUCT else ""

    def identity(item: Any) -> Hashable:
        value = item.get(key) if key and isinstance(item, dict) else item
        return value if isinstance(value, Hashable) else _shown(value)

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


def _has(item: Any, key: str, value: Any) -> bool:
    return isinstance(item, dict) and key in item and item[key] == value


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
