"""The resources that the registry serves for each version of a definition.

Sources: Kubernetes API reference apiextensions.k8s.io/v1 (subresources, additionalPrinterColumns, selectableFields); a
kind without columns shows its age.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.columns.formatting import NAME, since
from cotenant_local.apiserver.contract import PrinterColumn, Resource, ResourceScope
from cotenant_local.apiserver.custom.jsonpath import JsonPath, compile_path
from cotenant_local.apiserver.custom.schema import CustomSchema

_VERBS = frozenset({"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})
_AGE = PrinterColumn("Age", "date", lambda obj, now: since(obj.get("metadata", {}).get("creationTimestamp"), now))


def resources_of(definition: Manifest) -> tuple[Resource, ...]:
    """One resource per served version, the storage version first (its apiVersion is stored)."""
    spec = definition["spec"]
    versions = sorted((entry for entry in spec["versions"]), key=lambda entry: not entry.get("storage"))
    return tuple(_resource(spec, version) for version in versions if version.get("served"))


def _resource(spec: Manifest, version: Manifest) -> Resource:
    names: Manifest = spec["names"]
    below = version.get("subresources", {})
    scale = below.get("scale")
    subresources = frozenset(key for key in ("status", "scale") if key in below)
    schema = CustomSchema(
        version["schema"]["openAPIV3Schema"], kind=names["kind"], version=version["name"], has_status="status" in below
    )
    columns = tuple(_column(entry) for entry in version.get("additionalPrinterColumns", ())) or (_AGE,)
    selectable = {
        entry["jsonPath"].removeprefix("."): _text(compile_path(entry["jsonPath"]))
        for entry in version.get("selectableFields", ())
    }
    paths = ("spec.replicas", "status.replicas", "status.selector")
    if scale is not None:
        paths = tuple(
            scale.get(key, "").removeprefix(".")
            for key in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
        )
    return Resource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular", names["kind"].lower()),
        scope=ResourceScope(spec["scope"]),
        verbs=_VERBS,
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        subresources=subresources,
        columns=(NAME, *columns),
        schema=schema,
        selectable=selectable,
        is_custom=True,
        list_kind=names.get("listKind", ""),
        scale_paths=paths,
    )


def _column(entry: Manifest) -> PrinterColumn:
    path = compile_path(entry["jsonPath"])
    kind: str = entry["type"]

    def value(obj: Manifest, now: float) -> JsonValue:
        found = path.find(obj)
        if not found or found[0] is None:
            return None
        if kind == "date":
            return since(found[0], now)
        if kind == "integer":
            return int(found[0]) if isinstance(found[0], int | float) and not isinstance(found[0], bool) else None
        if kind == "number":
            return found[0] if isinstance(found[0], int | float) and not isinstance(found[0], bool) else None
        if kind == "boolean":
            return found[0] if isinstance(found[0], bool) else None
        return _shown(found[0]) if len(found) == 1 else ",".join(_shown(one) for one in found)

    return PrinterColumn(
        entry["name"],
        kind,
        value,
        format=entry.get("format", ""),
        description=entry.get("description", ""),
        priority=entry.get("priority", 0),
    )


def _text(path: JsonPath) -> Callable[[Manifest], str]:
    def read(obj: Manifest) -> str:
        found = path.find(obj)
        return _shown(found[0]) if found and found[0] is not None else ""

    return read


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        import msgspec

        return msgspec.json.encode(value).decode()
    return str(value)
