"""Sets of fields, in the very form that `managedFields` shows them in (FieldsV1), and the algebra on them.

Problem: every write needs the set of fields it changed, as cheaply as possible, and sets of other writers less those. Choice: no form of its own: a set
is the nested mapping that will be written out. A path that is a member and has members below it carries the key "."; a member with
nothing below is an empty mapping. Limits: the root is never a member; index elements (`i:`) do not occur, as lists without keys are atomic.

Source: Kubernetes' description of FieldsV1; structured-merge-diff's notions of atomic, set and map lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from cotenant.local.apiserver.contract import Manifest
from cotenant.local.apiserver.schema import tree
from cotenant.local.apiserver.schema.tree import DEDUCED, SchemaNode

FieldSet = dict[str, Any]

# Written by the server or the identity of the object: nobody's.
_NOBODYS = frozenset(
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
# Present (if empty) in an object of which nothing was said, so that creating one does not add them.
_ALWAYS_THERE = frozenset(
    {"spec", "status", "template", "metadata", "strategy", "updateStrategy", "jobTemplate", "containers"}
)

_LEAF: FieldSet = {}  # a member with nothing below; shared, as sets are never changed in place
_KNOWN_SETS = 2048  # kept at once
_KNOWN_BYTES = 16 * 1024  # longer values are not kept

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


# -- the elements of lists ------------------------------------------------------------------------------------------------


def element_key(item: Any, node: SchemaNode) -> str:
    """How an element of a set or associative list is named: `v:"a"`, `k:{"name":"web"}`."""
    if node.list_type == tree.SET or type(item) is not dict:
        return "v:" + _encode(item).decode()
    keys = node.keys
    if len(keys) == 1:
        value = item.get(keys[0], node.defaults.get(keys[0]))
        if type(value) is str and value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
            return f'k:{{"{keys[0]}":"{value}"}}'
    named = {key: item.get(key, node.defaults.get(key)) for key in sorted(keys)}
    return "k:" + _encode(named).decode()


# -- sets of values -------------------------------------------------------------------------------------------------------


def written(value: Any, node: SchemaNode) -> FieldSet:
    """The fields of a value that was not there before, with the value itself: what its writer owns."""
    if type(value) is dict:
        if node.atomic or not value:
            return _LEAF
        found: FieldSet = {".": _LEAF}
        if node.kind == tree.STRUCT:
            fields = node.fields
            for key, each in value.items():
                if type(each) is dict or type(each) is list:
                    inner = written(each, fields.get(key, DEDUCED))
                    if key in _ALWAYS_THERE and len(inner) > 1:
                        del inner["."]
                    found["f:" + key] = inner
                else:
                    found["f:" + key] = _LEAF
            return found
        item = node.item if node.kind == tree.MAP else DEDUCED
        for key, each in value.items():
            found["f:" + key] = written(each, item) if type(each) is dict or type(each) is list else _LEAF
        return found
    if type(value) is list and value and node.list_type != tree.ATOMIC:
        found = {".": _LEAF}
        item = node.item
        for each in value:
            found[element_key(each, node)] = written(each, item)
        return found
    return _LEAF


def _inner(key: str, value: Any, node: SchemaNode) -> FieldSet:
    found = written(value, node)
    if key in _ALWAYS_THERE and len(found) > 1:
        del found["."]
    return found


@dataclass(slots=True)
class _Known:
    """Sets of values written before, by the value's encoding: pods of one template are written by the thousand, and most parts of
    different ones are alike."""

    sets: dict[tuple[SchemaNode, str, bytes], FieldSet]

    def of_struct(self, key: str, value: Manifest, node: SchemaNode) -> FieldSet:
        """The set of a struct: as a whole, or put together from its fields."""
        return self._of(key, value, node, self._by_field)

    def _by_field(self, key: str, value: Manifest, node: SchemaNode) -> FieldSet:
        if not value or node.atomic:
            return _LEAF
        found: FieldSet = {".": _LEAF}
        for name, each in value.items():
            if each and (type(each) is dict or type(each) is list):
                found["f:" + name] = self._of(name, each, node.fields.get(name, DEDUCED), _inner)
            else:
                found["f:" + name] = _LEAF
        if key in _ALWAYS_THERE and len(found) > 1:
            del found["."]
        return found

    def _of(
        self, key: str, value: Any, node: SchemaNode, compute: Callable[[str, Any, SchemaNode], FieldSet]
    ) -> FieldSet:
        identity = (node, key, _encode(value))
        found = self.sets.get(identity)
        if found is None:
            found = compute(key, value, node)
            if len(self.sets) >= _KNOWN_SETS:
                self.sets.pop(next(iter(self.sets)))  # the oldest
            if len(identity[2]) <= _KNOWN_BYTES:
                self.sets[identity] = found
        return found


_known = _Known({})


def written_object(obj: Manifest, root: SchemaNode, skipped: frozenset[str]) -> FieldSet:
    """The fields of a whole object, less those that are nobody's and the top-level ones of `skipped`."""
    found: FieldSet = {}
    fields = root.fields
    for key, value in obj.items():
        if key == "apiVersion" or key == "kind" or key in skipped:
            continue
        node = fields.get(key, DEDUCED)
        if key == "metadata":
            kept = {name: each for name, each in value.items() if name not in _NOBODYS} if type(value) is dict else {}
            if not kept:
                continue
            value = kept
            found["f:metadata"] = _inner(key, value, node)
        elif node.kind == tree.STRUCT and type(value) is dict:
            found["f:" + key] = _known.of_struct(key, value, node)
        else:
            found["f:" + key] = _inner(key, value, node)
    return found


def applied(value: Any, node: SchemaNode) -> FieldSet:
    """The fields that a configuration speaks of: leaves, and elements; not the structs around them."""
    found: FieldSet = {}
    if type(value) is dict:
        if node.atomic:
            return found
        is_struct = node.kind == tree.STRUCT
        item = node.item if node.kind == tree.MAP else DEDUCED
        for key, each in value.items():
            inner = applied(each, node.fields.get(key, DEDUCED) if is_struct else item)
            if inner and not is_struct:
                inner["."] = {}
            found["f:" + key] = inner
    elif type(value) is list and node.list_type != tree.ATOMIC:
        for each in value:
            inner = applied(each, node.item)
            if inner:
                inner["."] = {}
            found[element_key(each, node)] = inner
    return found


def applied_object(obj: Manifest, root: SchemaNode, skipped: frozenset[str]) -> FieldSet:
    """The same of a whole configuration, less what is nobody's."""
    body = {
        key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata") and key not in skipped
    }
    found = applied(body, root)
    meta = {key: value for key, value in obj.get("metadata", {}).items() if key not in _NOBODYS}
    if meta and "metadata" not in skipped:
        found = {"f:metadata": applied(meta, root.fields.get("metadata", DEDUCED)), **found}
    return found


def changes(old: Manifest, new: Manifest, root: SchemaNode, skipped: frozenset[str]) -> tuple[FieldSet, FieldSet]:
    """The fields that were added or modified between two objects, and those that were removed; whole objects, nobody's fields left out."""
    set_: FieldSet = {}
    gone: FieldSet = {}
    for key in (*new, *(key for key in old if key not in new)):
        if key == "apiVersion" or key == "kind" or key in skipped:
            continue
        before, after = old.get(key), new.get(key)
        if key == "metadata":
            before = (
                {name: each for name, each in before.items() if name not in _NOBODYS} if type(before) is dict else {}
            )
            after = {name: each for name, each in after.items() if name not in _NOBODYS} if type(after) is dict else {}
        if before == after:
            continue
        node = root.fields.get(key, DEDUCED)
        if before is None and key in new:
            set_["f:" + key] = _inner(key, after, node)
        elif key not in new:
            gone["f:" + key] = written(before, node)
        else:
            _put(key, "f:" + key, before, after, node, set_, gone)
    return set_, gone


def _put(key: str, name: str, before: Any, after: Any, node: SchemaNode, set_: FieldSet, gone: FieldSet) -> None:
    """Record the difference of two unequal values under `name`."""
    kind = type(after)
    if kind is type(before) and not node.atomic and (kind is dict or (kind is list and node.list_type != tree.ATOMIC)):
        if not after or not before:  # from or to an empty one: it is a field of its own
            added, removed = written(after, node), written(before, node)
            set_[name] = (
                added if key not in _ALWAYS_THERE or len(added) < 2 else {k: v for k, v in added.items() if k != "."}
            )
            lost = {k: v for k, v in removed.items() if k != "."}
            if lost:
                gone[name] = lost
            return
        inner_set: FieldSet = {}
        inner_gone: FieldSet = {}
        if kind is dict:
            _difference(before, after, node, inner_set, inner_gone)
        else:
            _list_difference(before, after, node, inner_set, inner_gone)
        if inner_set:
            set_[name] = inner_set
        if inner_gone:
            gone[name] = inner_gone
    else:
        set_[name] = written(after, node) if kind is dict or kind is list else {}
        if type(before) is dict or type(before) is list:
            lost = {k: v for k, v in written(before, node).items() if k != "."}
            if lost:
                gone[name] = lost


def _difference(before: Manifest, after: Manifest, node: SchemaNode, set_: FieldSet, gone: FieldSet) -> None:
    is_struct = node.kind == tree.STRUCT
    item = node.item if node.kind == tree.MAP else DEDUCED
    for key, value in after.items():
        if key in before:
            if (previous := before[key]) != value or (value.__class__ is bool) is not (previous.__class__ is bool):
                _put(key, "f:" + key, previous, value, node.fields.get(key, DEDUCED) if is_struct else item, set_, gone)
        else:
            set_["f:" + key] = _inner(key, value, node.fields.get(key, DEDUCED) if is_struct else item)
    for key, value in before.items():
        if key not in after:
            gone["f:" + key] = written(value, node.fields.get(key, DEDUCED) if is_struct else item)


def _list_difference(before: list[Any], after: list[Any], node: SchemaNode, set_: FieldSet, gone: FieldSet) -> None:
    earlier = {element_key(each, node): each for each in before}
    later = {element_key(each, node): each for each in after}
    for name, value in later.items():
        if name not in earlier:
            set_[name] = written(value, node.item)
        elif earlier[name] != value:
            _put("", name, earlier[name], value, node.item, set_, gone)
    for name, value in earlier.items():
        if name not in later:
            gone[name] = written(value, node.item)


# -- algebra --------------------------------------------------------------------------------------------------------------


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """All members of both. May share parts with either: sets are never changed in place."""
    result = dict(a)
    for key, value in b.items():
        mine = result.get(key)
        if mine is None:
            result[key] = value
        elif mine != value:
            if not mine:
                result[key] = value if "." in value else {".": {}, **value}
            elif not value:
                result[key] = mine if "." in mine else {".": {}, **mine}
            else:
                result[key] = union(mine, value)
    return result


def minus(a: FieldSet, b: FieldSet) -> FieldSet:
    """The members of `a` that are not members of `b`."""
    result: FieldSet | None = None
    for key, value in b.items():
        mine = a.get(key)
        if mine is None or key == ".":
            continue
        left = _minus_node(mine, value)
        if left is not mine:
            if result is None:
                result = dict(a)
            if left is None:
                del result[key]
            else:
                result[key] = left
    return a if result is None else result


def _minus_node(mine: FieldSet, other: FieldSet) -> FieldSet | None:
    is_taken = not other or "." in other
    if not mine:
        return None if is_taken else mine
    left = minus(mine, other) if other else mine
    if is_taken and "." in left:
        left = {key: value for key, value in left.items() if key != "."}
        return left or None
    if left is not mine and left.keys() == {"."}:
        return {}
    return left or None


def common(a: FieldSet, b: FieldSet) -> FieldSet:
    """The members of both."""
    result: FieldSet = {}
    for key, value in a.items():
        other = b.get(key)
        if other is None or key == ".":
            continue
        inner = common(value, other)
        if (not value or "." in value) and (not other or "." in other):
            result[key] = {".": {}, **inner} if inner else {}
        elif inner:
            result[key] = inner
    return result


def paths(fields: FieldSet, above: str = "") -> Iterator[str]:
    """The members as people read them: `.spec.containers[name="web"].image`, in order."""
    for key in sorted(fields):
        value = fields[key]
        if key == ".":
            continue
        if key.startswith("f:"):
            here = f"{above}.{key[2:]}"
        elif key.startswith("k:"):
            pairs = _decode(key[2:])
            inner = ",".join(f"{name}={_encode(each).decode()}" for name, each in sorted(pairs.items()))
            here = f"{above}[{inner}]"
        elif key.startswith("v:"):
            here = f"{above}[={key[2:]}]"
        else:
            here = f"{above}[{key[2:]}]"
        if not value or "." in value:
            yield here
        if value:
            yield from paths(value, here)
