"""The schemas of the OpenAPI documents, in the dialects of version 2 and version 3.

The definitions come as JSON Schema (nullable types, `$defs`), custom resources bring structural schemas, and clients
expect the two dialects that kube-apiserver serves. Each is rewritten once, node by node; a document contains only the
schemas it references.
Source: Kubernetes API reference, OpenAPI v2 and v3; kubectl's reading of `x-kubernetes-*` extensions.
Limits: v2 leaves out what it cannot express (oneOf, anyOf, not, nullable), as kube-apiserver does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.contract import Resource

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
OBJECT_META, LIST_META = META + "ObjectMeta", META + "ListMeta"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_NOT_IN_V2 = frozenset({"oneOf", "anyOf", "not", "nullable", "allOf"})
_GVK = "x-kubernetes-group-version-kind"

V2, V3 = "#/definitions/", "#/components/schemas/"


def _type_of(value: object) -> object:
    if isinstance(value, list):
        return next((one for one in value if one != "null"), None)
    return value


def rewrite(node: Manifest, prefix: str) -> Manifest:
    """Rewrite a JSON Schema node into the dialect whose references begin with `prefix`."""
    is_v2 = prefix == V2
    out: Manifest = {}
    reference = node.get("$ref")
    for key, value in node.items():
        if key in ("$ref", "$schema"):
            continue
        if is_v2 and key in _NOT_IN_V2:
            continue
        if key == "type":
            kind = _type_of(value)
            if kind is not None:
                out["type"] = kind
        elif key == "properties":
            out[key] = {name: rewrite(one, prefix) for name, one in value.items()}
        elif key in ("items", "not") or (key == "additionalProperties" and isinstance(value, dict)):
            out[key] = rewrite(value, prefix)
        elif key in ("oneOf", "anyOf", "allOf"):
            out[key] = [rewrite(one, prefix) for one in value]
        elif key == "enum":
            out[key] = [one for one in value if one is not None]
        else:
            out[key] = value
    if reference is not None:
        target = {"$ref": prefix + reference.rpartition("/")[2]}
        if is_v2:
            out.update(target)
        elif out:
            out.setdefault("default", {})
            out["allOf"] = [target]
        else:
            out = target
    return out


def builtin(name: str, definition: Manifest, prefix: str) -> Manifest:
    """A built-in definition in the dialect of `prefix`."""
    if name == _INT_OR_STRING:
        if prefix == V2:
            return {"type": "string", "format": "int-or-string"}
        return {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}
    if name == _QUANTITY:
        return {"type": "string"} if prefix == V2 else {"oneOf": [{"type": "string"}, {"type": "number"}]}
    out = rewrite(definition, prefix)
    if _GVK in out:
        for key in ("apiVersion", "kind"):
            out.get("properties", {}).get(key, {}).pop("enum", None)
    return out


def references(node: object, prefix: str, found: set[str]) -> None:
    """Collect the names of the schemas that a document references."""
    if isinstance(node, dict):
        target = node.get("$ref")
        if isinstance(target, str):
            found.add(target[len(prefix) :])
        for value in node.values():
            references(value, prefix, found)
    elif isinstance(node, list):
        for value in node:
            references(value, prefix, found)


def closure(roots: Iterable[str], lookup: Callable[[str], Manifest | None], prefix: str) -> dict[str, Manifest]:
    """The named schemas and all schemas they reference, by name."""
    found: dict[str, Manifest] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        schema = lookup(name)
        if schema is None:
            continue
        found[name] = schema
        below: set[str] = set()
        references(schema, prefix, below)
        waiting.extend(below - found.keys())
    return dict(sorted(found.items()))


def custom_name(resource: Resource) -> str:
    """The definition name of a custom kind: `com.example.v1.Widget`."""
    return ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))


def _structural_v2(node: Manifest) -> Manifest:
    """A structural schema without the parts that v2 clients misinterpret."""
    if node.get("x-kubernetes-preserve-unknown-fields") or node.get("x-kubernetes-embedded-resource"):
        return {key: value for key, value in node.items() if key.startswith("x-") or key in ("description", "type")}
    out = {key: value for key, value in node.items() if key not in _NOT_IN_V2}
    if node.get("nullable") or node.get("x-kubernetes-int-or-string"):
        out.pop("type", None)
    if "properties" in out:
        out["properties"] = {name: _structural_v2(one) for name, one in out["properties"].items()}
    if isinstance(out.get("items"), dict):
        out["items"] = _structural_v2(out["items"])
    if isinstance(out.get("additionalProperties"), dict):
        out["additionalProperties"] = _structural_v2(out["additionalProperties"])
    elif out.get("additionalProperties") is True:
        out.pop("additionalProperties")
    return out


def custom(resource: Resource, structural: Manifest, prefix: str) -> Manifest:
    """A custom kind's schema, with apiVersion, kind and metadata."""
    out = _structural_v2(structural) if prefix == V2 else dict(structural)
    out.setdefault("type", "object")
    if not (prefix == V2 and out.get("x-kubernetes-preserve-unknown-fields")):
        properties = dict(out.get("properties") or {})
        reference = {"$ref": prefix + OBJECT_META}
        properties["apiVersion"] = {"type": "string", "description": "The versioned schema of this representation."}
        properties["kind"] = {"type": "string", "description": "The REST resource that this object represents."}
        properties["metadata"] = reference if prefix == V2 else {"allOf": [reference], "default": {}}
        out["properties"] = properties
    out[_GVK] = [{"group": resource.group, "kind": resource.kind, "version": resource.version}]
    return out


def list_of(resource: Resource, item: str, prefix: str) -> Manifest:
    """The schema of a kind's list."""
    return {
        "description": f"{resource.kind}List is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": prefix + item}},
            "metadata": {"$ref": prefix + LIST_META},
        },
        _GVK: [
            {"group": resource.group, "kind": resource.list_kind or resource.kind + "List", "version": resource.version}
        ],
    }
