"""Kubernetes' type definitions, read from the data files of the `kubernetes-validate` package and compiled to nodes.

The fields of the built-in kinds, and how they merge, fill 1.5 MB of definitions that Kubernetes publishes as OpenAPI.
The JSON schema files of that package (730 definitions with list types, merge keys and kinds), read on first use (about
10 ms); each definition is compiled when first reached.
Limits: one minor version of Kubernetes is served, `PREFERRED` if the package has it, else the newest it has, with the
Workload API of later ones (`_LATER`); the files contain neither defaults nor rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec

from cotenant.drivers.kube.manifests import tree
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant.drivers.kube.manifests.tree import DEDUCED, OPAQUE, SchemaNode
from cotenant.model.errors import Unsupported
from cotenant.model.json_object import JsonValue

PREFERRED = "v1.34"


class _Added(NamedTuple):
    """What is taken of a later minor version: definitions by the start of their name, and fields of definitions."""

    definitions: tuple[str, ...]
    fields: tuple[tuple[str, str], ...] = ()


_API = "io.k8s.api."
_LATER = {  # the Workload API, taints of devices, the Eviction Request API
    (1, 36): _Added((_API + "scheduling.v1alpha2.", _API + "resource.v1beta2.DeviceTaint")),
    (1, 37): _Added(
        (
            _API + "scheduling.v1beta1.",
            _API + "scheduling.v1alpha3.",
            _API + "core.v1.PodSchedulingGroup",
            _API + "batch.v1.JobScheduling",
            _API + "lifecycle.v1alpha1.",
            _API + "core.v1.EvictionResponder",
        ),
        (
            (_API + "core.v1.PodSpec", "schedulingGroup"),
            (_API + "core.v1.PodSpec", "evictionResponders"),
            (_API + "batch.v1.JobSpec", "scheduling"),
        ),
    ),
}
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_REF = "#/$defs/"

# Pointers to strings in the Go types, for which an empty string differs from an absent one (a claim with "" has no
# class).
_POINTERS = frozenset(
    {"storageClassName", "volumeAttributesClassName", "apiGroup", "ingressClassName", "extendedResourceName"}
)
# Defaults of keys of associative lists, which the definitions leave out: a port without a protocol is a TCP port.
_KEY_DEFAULTS = {"protocol": "TCP"}
_SCALARS = {"string": tree.STRING, "integer": tree.INTEGER, "number": tree.NUMBER, "boolean": tree.BOOLEAN}


def kind_of(group: str, version: str, kind: str) -> SchemaNode:
    """The type of a Kubernetes kind. Raises ApiError 404 for an unknown kind, Unsupported if the package is missing."""
    name = definition_name(group, version, kind)
    if name is None:
        requested = f"{group}/{version}, Kind={kind}" if group else f"{version}, Kind={kind}"
        raise ApiError(404, "NotFound", f"no schema of {requested}")
    return node_of(name)


@cache
def document() -> dict[str, Manifest]:
    """All definitions by name, as in the package. Raises Unsupported if the package is missing."""
    feature = "the schemas of Kubernetes' kinds"
    found = find_spec(
        "kubernetes_validate"
    )  # located, not imported: only its data is needed, and importing costs 75 ms
    if found is None or not found.submodule_search_locations:
        raise Unsupported(feature, "the kubernetes-validate package (pip install 'cotenant[cluster]')")
    folder = Path(found.submodule_search_locations[0]) / "kubernetes-json-schema"
    minors: dict[tuple[int, int], str] = {}
    if folder.is_dir():
        for entry in folder.iterdir():
            match = re.fullmatch(r"v(\d+)\.(\d+)\.\d+-local", entry.name)
            if match:
                minors[int(match[1]), int(match[2])] = entry.name
    if not minors:
        raise Unsupported(feature, "a kubernetes-validate package that carries Kubernetes' schemas")
    preferred = tuple(int(part) for part in PREFERRED[1:].split("."))
    chosen = minors.get((preferred[0], preferred[1])) or minors[max(minors)]
    definitions = _read(folder / chosen)
    for minor, added in _LATER.items():
        if minor in minors and minors[minor] != chosen:
            _add(definitions, _read(folder / minors[minor]), added)
    return definitions


def _read(folder: Path) -> dict[str, Manifest]:
    found: dict[str, Manifest] = msgspec.json.decode((folder / "_definitions.json").read_bytes())["$defs"]
    return found


def _add(definitions: dict[str, Manifest], later: Mapping[str, Manifest], added: _Added) -> None:
    for name, definition in later.items():
        if name.startswith(added.definitions):
            definitions.setdefault(name, definition)
    for name, field in added.fields:
        if name in definitions and name in later and field in later[name]["properties"]:
            definitions[name]["properties"].setdefault(field, later[name]["properties"][field])


@cache
def _names() -> dict[tuple[str, str, str], str]:
    """(group, version, kind) -> name of the definition. Options kinds repeat in every group; the first one is used."""
    found: dict[tuple[str, str, str], str] = {}
    for name, definition in document().items():
        for entry in definition.get("x-kubernetes-group-version-kind", ()):
            found.setdefault((entry["group"], entry["version"], entry["kind"]), name)
    return found


def definition_name(group: str, version: str, kind: str) -> str | None:
    """The name of a kind's definition, None for an unknown kind."""
    return _names().get((group, version, kind))


def node_of(name: str) -> SchemaNode:
    """The compiled node of a definition."""
    return _definition(name)


@cache
def object_meta() -> SchemaNode:
    """The node of `metadata`."""
    return node_of(_META + "ObjectMeta")


_compiled: dict[
    str, SchemaNode
] = {}  # one node per definition, registered before its fields are compiled, since types may be recursive


def _definition(name: str) -> SchemaNode:
    node = _compiled.get(name)
    if node is None:
        definition = document()[name]
        special = _special(name)
        if special is None and "properties" not in definition:
            special = _field(definition)
        if special is not None:
            _compiled[name] = special
            return special
        node = _compiled[name] = SchemaNode(tree.STRUCT, name.rsplit(".", 1)[-1])
        _fill(node, definition)
    return node


def _fill(node: SchemaNode, definition: Manifest) -> None:
    node.go_type = node.name
    node.atomic = definition.get("x-kubernetes-map-type") == "atomic"
    node.required = frozenset(definition.get("required", ()))
    for name, field in definition["properties"].items():
        child = _field(field)
        if child.kind in (tree.STRING, tree.LIST, tree.MAP) and (name in node.required or name in _POINTERS):
            child.keeps_empty = True
        node.fields[name] = child


def _field(field: Manifest) -> SchemaNode:
    reference = field.get("$ref")
    if reference is not None:
        node = _definition(reference.removeprefix(_REF))
        atomic = field.get("x-kubernetes-map-type") == "atomic"
        if atomic and not node.atomic:
            node = node.copy()
            node.atomic = True
        return node
    kind = _type_of(field)
    if kind in _SCALARS:
        return _scalar(kind, str(field.get("format", "")))
    if kind == "array":
        return _list(field)
    if kind == "object":
        if "properties" in field:
            node = SchemaNode(tree.STRUCT)
            _fill(node, field)
            return node
        if "additionalProperties" in field:
            node = SchemaNode(tree.MAP)
            node.item = _field(field["additionalProperties"])
            node.go_type = f"map[string]{node.item.go_type}"
            node.atomic = field.get("x-kubernetes-map-type") == "atomic"
            return node
        return DEDUCED
    return OPAQUE


def _list(field: Manifest) -> SchemaNode:
    node = SchemaNode(tree.LIST)
    node.item = _field(field["items"])
    node.go_type = f"[]{node.item.go_type}"
    node.list_type = field.get("x-kubernetes-list-type", tree.ATOMIC)
    node.keys = tuple(field.get("x-kubernetes-list-map-keys", ()))
    node.defaults = {key: _KEY_DEFAULTS[key] for key in node.keys if key in _KEY_DEFAULTS}
    node.merges = "merge" in str(field.get("x-kubernetes-patch-strategy", ""))
    node.merge_key = field.get("x-kubernetes-patch-merge-key", "")
    return node


def _scalar(kind: str, form: str) -> SchemaNode:
    code = _SCALARS[kind]
    if form == "date-time":
        code = tree.TIME
    elif form == "byte":
        code = tree.BYTES
    node = SchemaNode(code)
    node.go_type = {"boolean": "bool", "integer": "int64", "number": "float64"}.get(kind, kind)
    if form == "int32":
        node.low, node.high = tree.INT32
        node.go_type = "int32"
    elif code == tree.TIME:
        node.go_type = "v1.Time"
    elif code == tree.BYTES:
        node.go_type = "[]byte"
    return node


def _special(name: str) -> SchemaNode | None:
    """Types whose JSON form the definitions leave out or describe too loosely."""
    if name == _QUANTITY:
        node = SchemaNode(tree.QUANTITY)
        node.go_type = "resource.Quantity"
        return node
    if name == _INT_OR_STRING:
        node = SchemaNode(tree.INT_OR_STRING)
        node.go_type = "intstr.IntOrString"
        return node
    if name == _META + "MicroTime":
        node = SchemaNode(tree.MICRO_TIME)
        node.go_type = "v1.MicroTime"
        return node
    if name in (_RAW, _META + "FieldsV1", _META + "Patch"):
        return DEDUCED
    if name == _EXTENSIONS + "CustomResourceSubresourceStatus":
        return DEDUCED
    if name.startswith(_EXTENSIONS + "JSONSchemaPropsOr") or name == _EXTENSIONS + "JSON":
        return OPAQUE
    return None


def _type_of(field: Manifest) -> str:
    """The JSON type of a field; the files write `["string", "null"]` for nullable fields."""
    kind: JsonValue = field.get("type")
    if isinstance(kind, list):
        kind = next((entry for entry in kind if entry != "null"), "")
    return kind if isinstance(kind, str) else ""
