"""Sets of fields in the form of `managedFields` (FieldsV1), and the algebra on them.

Every write needs the set of fields it changed, as cheaply as possible, and differences of other managers' sets with it.
No separate representation: a set is the nested mapping that will be stored. A path that is a member and has members
below it has the key "."; a member with nothing below is an empty mapping.
Limits: the root is never a member; index elements (`i:`) do not occur, as lists without keys are atomic.
Source: Kubernetes' description of FieldsV1; structured-merge-diff's notions of atomic, set and map lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from cotenant.drivers.kube.manifests import tree
from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.drivers.kube.manifests.tree import DEDUCED, SchemaNode
from cotenant.model.json_object import JsonValue

FieldSet = Manifest

# Set by the server, or the object's identity: not owned by any manager.
_UNOWNED = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)
# Present (if empty) in the Go type's zero value, so that setting something below does not add the field itself.
_ALWAYS_PRESENT = frozenset(
    {"spec", "status", "template", "metadata", "strategy", "updateStrategy", "jobTemplate", "containers"}
)

_LEAF: FieldSet = {}  # a member with nothing below; shared, as sets are never modified in place
_CACHED_SETS = 2048  # maximum number of cached sets
_CACHED_BYTES = 16 * 1024  # longer values are not cached

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


# -- the elements of lists
# ------------------------------------------------------------------------------------------------


def element_key(item: object, node: SchemaNode) -> str:
    """The path element of an item of a set or associative list: `v:"a"`, `k:{"name":"web"}`."""
    if node.list_type == tree.SET or type(item) is not dict:
        return "v:" + _encode(item).decode()
    keys = node.keys
    if len(keys) == 1:
        value = item.get(keys[0], node.defaults.get(keys[0]))
        if type(value) is str and value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
            return f'k:{{"{keys[0]}":"{value}"}}'
    named = {key: item.get(key, node.defaults.get(key)) for key in sorted(keys)}
    return "k:" + _encode(named).decode()


# -- sets of values
# -------------------------------------------------------------------------------------------------------


def written(value: object, node: SchemaNode) -> FieldSet:
    """The fields of a newly written value, including the value itself: what its manager owns."""
    if type(value) is dict:
        if node.atomic or not value:
            return _LEAF
        found: FieldSet = {".": _LEAF}
        if node.kind == tree.STRUCT:
            fields = node.fields
            for key, entry in value.items():
                if type(entry) is dict or type(entry) is list:
                    inner = written(entry, fields.get(key, DEDUCED))
                    if key in _ALWAYS_PRESENT and len(inner) > 1:
                        del inner["."]
                    found["f:" + key] = inner
                else:
                    found["f:" + key] = _LEAF
            return found
        item = node.item if node.kind == tree.MAP else DEDUCED
        for key, entry in value.items():
            found["f:" + key] = written(entry, item) if type(entry) is dict or type(entry) is list else _LEAF
        return found
    if type(value) is list and value and node.list_type != tree.ATOMIC:
        found = {".": _LEAF}
        item = node.item
        for entry in value:
            found[element_key(entry, node)] = written(entry, item)
        return found
    return _LEAF


def _inner(key: str, value: object, node: SchemaNode) -> FieldSet:
    found = written(value, node)
    if key in _ALWAYS_PRESENT and len(found) > 1:
        del found["."]
    return found


@dataclass(slots=True)
class _SetCache:
    """A cache of field sets by the value's encoding: thousands of pods are written from one template, and most parts of
    different pods are equal."""

    sets: dict[tuple[SchemaNode, str, bytes], FieldSet]

    def of_struct(self, key: str, value: Manifest, node: SchemaNode) -> FieldSet:
        """The set of a struct, cached as a whole or assembled from its fields' cached sets."""
        return self._of(key, value, node, self._by_field)

    def _by_field(self, key: str, value: Manifest, node: SchemaNode) -> FieldSet:
        if not value or node.atomic:
            return _LEAF
        found: FieldSet = {".": _LEAF}
        for name, entry in value.items():
            if entry and (type(entry) is dict or type(entry) is list):
                found["f:" + name] = self._of(name, entry, node.fields.get(name, DEDUCED), _inner)
            else:
                found["f:" + name] = _LEAF
        if key in _ALWAYS_PRESENT and len(found) > 1:
            del found["."]
        return found

    def _of(
        self, key: str, value: object, node: SchemaNode, compute: Callable[[str, JsonValue, SchemaNode], FieldSet]
    ) -> FieldSet:
        identity = (node, key, _encode(value))
        found = self.sets.get(identity)
        if found is None:
            found = compute(key, value, node)
            if len(self.sets) >= _CACHED_SETS:
                self.sets.pop(next(iter(self.sets)))  # the oldest
            if len(identity[2]) <= _CACHED_BYTES:
                self.sets[identity] = found
        return found


_cache = _SetCache({})


def written_object(obj: Manifest, root: SchemaNode, skipped: frozenset[str]) -> FieldSet:
    """The fields of a whole object, except unowned ones and the top-level fields in `skipped`."""
    found: FieldSet = {}
    fields = root.fields
    for key, value in obj.items():
        if key == "apiVersion" or key == "kind" or key in skipped:
            continue
        node = fields.get(key, DEDUCED)
        if key == "metadata":
            kept = {name: entry for name, entry in value.items() if name not in _UNOWNED} if type(value) is dict else {}
            if not kept:
                continue
            value = kept
            found["f:metadata"] = _inner(key, value, node)
        elif node.kind == tree.STRUCT and type(value) is dict:
            found["f:" + key] = _cache.of_struct(key, value, node)
        else:
            found["f:" + key] = _inner(key, value, node)
    return found


def applied(value: object, node: SchemaNode) -> FieldSet:
    """The fields stated by a configuration: leaves and list elements, but not the structs around them."""
    found: FieldSet = {}
    if type(value) is dict:
        if node.atomic:
            return found
        is_struct = node.kind == tree.STRUCT
        item = node.item if node.kind == tree.MAP else DEDUCED
        for key, entry in value.items():
            inner = applied(entry, node.fields.get(key, DEDUCED) if is_struct else item)
            if inner and not is_struct:
                inner["."] = {}
            found["f:" + key] = inner
    elif type(value) is list and node.list_type != tree.ATOMIC:
        for entry in value:
            inner = applied(entry, node.item)
            if inner:
                inner["."] = {}
            found[element_key(entry, node)] = inner
    return found


def applied_object(obj: Manifest, root: SchemaNode, skipped: frozenset[str]) -> FieldSet:
    """As `applied`, for a whole configuration, except unowned fields."""
    body = {
        key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata") and key not in skipped
    }
    found = applied(body, root)
    meta = {key: value for key, value in obj.get("metadata", {}).items() if key not in _UNOWNED}
    if meta and "metadata" not in skipped:
        found = {"f:metadata": applied(meta, root.fields.get("metadata", DEDUCED)), **found}
    return found


def changes(old: Manifest, new: Manifest, root: SchemaNode, skipped: frozenset[str]) -> tuple[FieldSet, FieldSet]:
    """The fields added or modified between two whole objects, and those removed; unowned fields are left out."""
    set_: FieldSet = {}
    removed_set: FieldSet = {}
    for key in (*new, *(key for key in old if key not in new)):
        if key == "apiVersion" or key == "kind" or key in skipped:
            continue
        before, after = old.get(key), new.get(key)
        if key == "metadata":
            before = (
                {name: entry for name, entry in before.items() if name not in _UNOWNED} if type(before) is dict else {}
            )
            after = (
                {name: entry for name, entry in after.items() if name not in _UNOWNED} if type(after) is dict else {}
            )
        if before == after:
            continue
        node = root.fields.get(key, DEDUCED)
        if before is None and key in new:
            set_["f:" + key] = _inner(key, after, node)
        elif key not in new:
            removed_set["f:" + key] = written(before, node)
        else:
            _record_change(key, "f:" + key, before, after, node, set_, removed_set)
    return set_, removed_set


def _record_change(
    key: str, name: str, before: JsonValue, after: JsonValue, node: SchemaNode, set_: FieldSet, removed_set: FieldSet
) -> None:
    """Record the difference of two unequal values under `name`."""
    kind = type(after)
    if kind is type(before) and not node.atomic and (kind is dict or (kind is list and node.list_type != tree.ATOMIC)):
        if not after or not before:  # from or to empty: the field itself changes
            added, removed = written(after, node), written(before, node)
            set_[name] = (
                added if key not in _ALWAYS_PRESENT or len(added) < 2 else {k: v for k, v in added.items() if k != "."}
            )
            removed_below = {k: v for k, v in removed.items() if k != "."}
            if removed_below:
                removed_set[name] = removed_below
            return
        inner_set: FieldSet = {}
        inner_removed: FieldSet = {}
        if kind is dict:
            _map_changes(before, after, node, inner_set, inner_removed)
        else:
            _list_changes(before, after, node, inner_set, inner_removed)
        if inner_set:
            set_[name] = inner_set
        if inner_removed:
            removed_set[name] = inner_removed
    else:
        set_[name] = written(after, node) if kind is dict or kind is list else {}
        if type(before) is dict or type(before) is list:
            removed_below = {k: v for k, v in written(before, node).items() if k != "."}
            if removed_below:
                removed_set[name] = removed_below


def _map_changes(before: Manifest, after: Manifest, node: SchemaNode, set_: FieldSet, removed_set: FieldSet) -> None:
    is_struct = node.kind == tree.STRUCT
    item = node.item if node.kind == tree.MAP else DEDUCED
    for key, value in after.items():
        if key in before:
            if (previous := before[key]) != value or (value.__class__ is bool) is not (previous.__class__ is bool):
                _record_change(
                    key,
                    "f:" + key,
                    previous,
                    value,
                    node.fields.get(key, DEDUCED) if is_struct else item,
                    set_,
                    removed_set,
                )
        else:
            set_["f:" + key] = _inner(key, value, node.fields.get(key, DEDUCED) if is_struct else item)
    for key, value in before.items():
        if key not in after:
            removed_set["f:" + key] = written(value, node.fields.get(key, DEDUCED) if is_struct else item)


def _list_changes(
    before: list[JsonValue], after: list[JsonValue], node: SchemaNode, set_: FieldSet, removed_set: FieldSet
) -> None:
    earlier = {element_key(entry, node): entry for entry in before}
    later = {element_key(entry, node): entry for entry in after}
    for name, value in later.items():
        if name not in earlier:
            set_[name] = written(value, node.item)
        elif earlier[name] != value:
            _record_change("", name, earlier[name], value, node.item, set_, removed_set)
    for name, value in earlier.items():
        if name not in later:
            removed_set[name] = written(value, node.item)


# -- algebra
# --------------------------------------------------------------------------------------------------------------


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """The union. May share parts with either: sets are never modified in place."""
    result = dict(a)
    for key, value in b.items():
        own = result.get(key)
        if own is None:
            result[key] = value
        elif own != value:
            if not own:
                result[key] = value if "." in value else {".": {}, **value}
            elif not value:
                result[key] = own if "." in own else {".": {}, **own}
            else:
                result[key] = union(own, value)
    return result


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """The members of `a` that are not members of `b`."""
    result: FieldSet | None = None
    for key, value in b.items():
        own = a.get(key)
        if own is None or key == ".":
            continue
        left = _difference_node(own, value)
        if left is not own:
            if result is None:
                result = dict(a)
            if left is None:
                del result[key]
            else:
                result[key] = left
    return a if result is None else result


def _difference_node(own: FieldSet, other: FieldSet) -> FieldSet | None:
    is_member = not other or "." in other
    if not own:
        return None if is_member else own
    left = difference(own, other) if other else own
    if is_member and "." in left:
        left = {key: value for key, value in left.items() if key != "."}
        return left or None
    if left is not own and left.keys() == {"."}:
        return {}
    return left or None


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """The intersection."""
    result: FieldSet = {}
    for key, value in a.items():
        other = b.get(key)
        if other is None or key == ".":
            continue
        inner = intersection(value, other)
        if (not value or "." in value) and (not other or "." in other):
            result[key] = {".": {}, **inner} if inner else {}
        elif inner:
            result[key] = inner
    return result


def paths(fields: FieldSet, above: str = "") -> Iterator[str]:
    """The members in readable form: `.spec.containers[name="web"].image`, sorted."""
    for key in sorted(fields):
        value = fields[key]
        if key == ".":
            continue
        if key.startswith("f:"):
            here = f"{above}.{key[2:]}"
        elif key.startswith("k:"):
            pairs = _decode(key[2:])
            inner = ",".join(f"{name}={_encode(pair).decode()}" for name, pair in sorted(pairs.items()))
            here = f"{above}[{inner}]"
        elif key.startswith("v:"):
            here = f"{above}[={key[2:]}]"
        else:
            here = f"{above}[{key[2:]}]"
        if not value or "." in value:
            yield here
        if value:
            yield from paths(value, here)
