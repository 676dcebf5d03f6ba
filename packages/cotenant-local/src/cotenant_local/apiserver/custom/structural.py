"""Structural schemas compiled to the tree that patches merge by, with pruning and defaults.

An `openAPIV3Schema` defines which fields a custom kind has, which unknown ones are preserved, what is defaulted and how
lists merge. The same nodes as for built-in kinds (`schema/tree.py`), compiled once per version, and two walks beside
them: one prunes, one sets defaults. A value of a wrong type is left to validation.
Limits: a schema may be `MAX_DEPTH` levels deep; deeper definitions are refused.
Source: Kubernetes documentation, "Extend the Kubernetes API with CustomResourceDefinitions" (structural schemas,
pruning, defaulting).
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests import tree
from cotenant.drivers.kube.manifests.document import copy_value
from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.drivers.kube.manifests.openapi import object_meta
from cotenant.drivers.kube.manifests.tree import DEDUCED, OPAQUE, SchemaNode

MAX_DEPTH = 60

_SCALARS = {"string": tree.STRING, "integer": tree.INTEGER, "number": tree.NUMBER, "boolean": tree.BOOLEAN}
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"


def compile_root(schema: Manifest) -> SchemaNode:
    """The node of a whole object: its schema, plus apiVersion, kind and metadata."""
    node = compile_node(schema)
    root = node.copy() if node.kind == tree.STRUCT else SchemaNode(tree.STRUCT)
    root.fields = {**node.fields, **_type_fields()}
    root.preserves = bool(schema.get(_PRESERVE))
    root.atomic = False
    return root


def compile_node(schema: Manifest) -> SchemaNode:
    """The node of one structural schema."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return SchemaNode(tree.INT_OR_STRING)
    if kind == "object":
        return _object(schema)
    if kind == "array":
        node = SchemaNode(tree.LIST)
        items = schema.get("items")
        node.item = compile_node(items) if isinstance(items, dict) else DEDUCED
        node.list_type = schema.get("x-kubernetes-list-type", tree.ATOMIC)
        node.keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
        properties = items.get("properties", {}) if isinstance(items, dict) else {}
        node.defaults = {key: properties[key]["default"] for key in node.keys if "default" in properties.get(key, {})}
        return node
    if kind in _SCALARS:
        return SchemaNode(_SCALARS[kind])
    return DEDUCED if schema.get(_PRESERVE) else OPAQUE


def _object(schema: Manifest) -> SchemaNode:
    additional = schema.get("additionalProperties")
    is_atomic = schema.get("x-kubernetes-map-type") == tree.ATOMIC
    if additional:
        node = SchemaNode(tree.MAP)
        node.item = compile_node(additional) if isinstance(additional, dict) else DEDUCED
        node.atomic = is_atomic
        return node
    preserves = bool(schema.get(_PRESERVE))
    properties = schema.get("properties", {})
    if preserves and not properties and not schema.get(_EMBEDDED):
        return OPAQUE if is_atomic else DEDUCED
    node = SchemaNode(tree.STRUCT)
    node.fields = {name: compile_node(property_) for name, property_ in properties.items()}
    if schema.get(_EMBEDDED):
        node.fields |= _type_fields()
    node.preserves = preserves
    node.atomic = is_atomic
    return node


def _type_fields() -> dict[str, SchemaNode]:
    return {"apiVersion": SchemaNode(tree.STRING), "kind": SchemaNode(tree.STRING), "metadata": object_meta()}


def prune(value: object, node: SchemaNode, path: str = "") -> list[str]:
    """Drop unknown fields that are not preserved, in place. Returns their paths."""
    dropped: list[str] = []
    _prune(value, node, path, dropped)
    return dropped


def _prune(value: object, node: SchemaNode, path: str, dropped: list[str]) -> None:
    if type(value) is dict:
        if node.kind == tree.STRUCT:
            fields = node.fields
            unknown = None
            for key, entry in value.items():
                child = fields.get(key)
                if child is not None:
                    if type(entry) is dict or type(entry) is list:
                        _prune(entry, child, f"{path}.{key}" if path else key, dropped)
                elif not node.preserves:
                    unknown = unknown or []
                    unknown.append(key)
            for key in unknown or ():
                del value[key]
                dropped.append(f"{path}.{key}" if path else key)
        elif node.kind == tree.MAP:
            item = node.item
            for key, entry in value.items():
                if type(entry) is dict or type(entry) is list:
                    _prune(entry, item, f"{path}.{key}" if path else key, dropped)
    elif type(value) is list and node.kind == tree.LIST:
        for index, entry in enumerate(value):
            if type(entry) is dict or type(entry) is list:
                _prune(entry, node.item, f"{path}[{index}]", dropped)


class Defaults:
    """The defaults of a schema, limited to the branches that have any."""

    __slots__ = ("fields", "item", "values")

    def __init__(self) -> None:
        self.values: Manifest = {}  # of absent fields (and of null ones that may not be null)
        self.fields: dict[str, Defaults] = {}
        self.item: Defaults | None = None  # of a list's elements or a map's values

    def fill(self, value: object) -> None:
        """Set the defaults of a value, in place."""
        if type(value) is dict:
            for name, default in self.values.items():
                if value.get(name) is None:
                    value[name] = copy_value(default)
            for name, below in self.fields.items():
                if name in value:
                    below.fill(value[name])
            if self.item is not None:
                for entry in value.values():
                    self.item.fill(entry)
        elif type(value) is list and self.item is not None:
            for entry in value:
                self.item.fill(entry)


def compile_defaults(schema: Manifest) -> Defaults | None:
    """The defaults of a schema, None if it has none."""
    defaults = Defaults()
    for name, entry in schema.get("properties", {}).items():
        if "default" in entry and not (entry.get("nullable") and entry["default"] is None):
            defaults.values[name] = entry["default"]
        below = compile_defaults(entry)
        if below is not None:
            defaults.fields[name] = below
    inner = schema.get("items", schema.get("additionalProperties"))
    if isinstance(inner, dict):
        defaults.item = compile_defaults(inner)
    return defaults if defaults.values or defaults.fields or defaults.item is not None else None
