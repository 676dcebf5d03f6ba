"""Schema-guided merge of a configuration into an object, and removal of fields from it.

server-side apply merges as the schema says (granular maps by key, sets as unions, keyed lists by element, atomic ones
as a whole), and removes what its manager no longer states. Two recursive functions on plain values.
Limits: merging never removes; removal goes by paths in the notation of `fieldsets`.
Source: Kubernetes' "merge strategy" of server-side apply.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.drivers.kube.manifests import tree
from cotenant.drivers.kube.manifests.document import copy_value
from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.drivers.kube.manifests.ordering import interleave
from cotenant.drivers.kube.manifests.tree import DEDUCED, SchemaNode
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.patching.fieldsets import FieldSet, element_key


def merge(live: object, config: object, node: SchemaNode) -> JsonValue:
    """The live value overlaid with the configuration; shares parts with `live`, nothing with the configuration."""
    if type(config) is dict and type(live) is dict and not node.atomic:
        result: Manifest = dict(live)
        for key, value in config.items():
            child = child_of(node, key)
            result[key] = merge(live[key], value, child) if key in live else copy_value(value)
        return result
    if type(config) is list and type(live) is list and node.list_type != tree.ATOMIC:
        before = {element_key(entry, node): entry for entry in live}
        after = {element_key(entry, node): entry for entry in config}
        return [
            merge(before[name], after[name], node.item)
            if name in before and name in after
            else copy_value(after[name])
            if name in after
            else before[name]
            for name in map(str, interleave(list(before), list(after)))
        ]
    return copy_value(config)


def child_of(node: SchemaNode, key: str) -> SchemaNode:
    """The node of a field or of a map's value."""
    if node.kind == tree.STRUCT:
        return node.fields.get(key, DEDUCED)
    return node.item if node.kind == tree.MAP else DEDUCED


def remove(value: object, owned: FieldSet, kept: FieldSet, others: Sequence[FieldSet], node: SchemaNode) -> JsonValue:
    """The value without the fields of `owned` that are neither in `kept` nor in any of `others` (a struct counts as
    owned if a part is).
    """
    if type(value) is dict and not node.atomic:
        result = dict(value)
        for name, inner in owned.items():
            key = name[2:]
            if not name.startswith("f:") or key not in result:
                continue
            if name in kept:
                if inner:
                    result[key] = remove(result[key], inner, kept[name], _under(others, name), child_of(node, key))
                continue
            others_below = _under(others, name)
            if not others_below:
                del result[key]
            elif inner:
                result[key] = remove(result[key], inner, {}, others_below, child_of(node, key))
        return result
    if type(value) is list and node.list_type != tree.ATOMIC:
        items = []
        for entry in value:
            name = element_key(entry, node)
            inner = owned.get(name)
            if inner is None:
                items.append(entry)
            elif name in kept:
                items.append(remove(entry, inner, kept[name], _under(others, name), node.item) if inner else entry)
            else:
                others_below = _under(others, name)
                if others_below:
                    items.append(remove(entry, inner, {}, others_below, node.item) if inner else entry)
        return items
    return value


def _under(sets: Sequence[FieldSet], name: str) -> list[FieldSet]:
    return [fields[name] for fields in sets if name in fields]
