"""CustomResourceDefinition as a kind: defaults and validation.

Limits: conversion by webhook is refused, as this server stores one form and serves versions that differ in name only;
CEL rules (`x-kubernetes-validations`) are accepted but not enforced, and the client is warned. Source: Kubernetes API
reference apiextensions.k8s.io/v1.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests import decoding, openapi
from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.custom.jsonpath import compile_path
from cotenant_local.apiserver.custom.schema_rules import check_root, uses_cel
from cotenant_local.apiserver.custom.structural import MAX_DEPTH
from cotenant_local.apiserver.schema.kinds import field_errors

_PROPS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_SCOPES = frozenset({"Cluster", "Namespaced"})
_COLUMN_TYPES = frozenset({"integer", "number", "string", "boolean", "date"})
_MAX_SELECTABLE = 8


def default_definition(obj: Manifest) -> None:
    """Set a definition's defaults, and bring nested schemas to their canonical form. Raises ApiError 400 if one is
    not a schema.
    """
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    if kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {}).setdefault("strategy", "None")
    for version in spec.get("versions", ()):
        schema = version.get("schema", {}).get("openAPIV3Schema")
        if schema is not None:
            _decode_nested(schema, 0)


def _decode_nested(schema: object, depth: int) -> None:
    """Decode schemas under `items` and `additionalProperties`, which are typed as any JSON and therefore not
    decoded yet.
    """
    if depth > 2 * MAX_DEPTH or not isinstance(schema, dict):
        return
    for key in ("items", "additionalProperties"):
        below = schema.get(key)
        if isinstance(below, dict):
            problems = decoding.decode(below, openapi.node_of(_PROPS))
            decoding.refuse_mistyped(problems, "CustomResourceDefinition", "v1")
            _decode_nested(below, depth + 1)
    for key in ("properties", "patternProperties", "definitions"):
        for entry in schema.get(key, {}).values():
            _decode_nested(entry, depth + 1)
    for key in ("allOf", "anyOf", "oneOf"):
        for entry in schema.get(key, ()):
            _decode_nested(entry, depth + 1)
    if "not" in schema:
        _decode_nested(schema["not"], depth + 1)


def check_definition(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a definition."""
    causes: list[FieldError] = []
    spec = obj.get("spec", {})
    group, names = spec.get("group", ""), spec.get("names", {})
    if not group:
        causes.append(field_errors.required("spec.group"))
    elif why := field_errors.subdomain_problem(group):
        causes.append(field_errors.invalid("spec.group", group, why))
    elif "." not in group:
        causes.append(field_errors.invalid("spec.group", group, "should be a domain with at least one dot"))
    plural = names.get("plural", "")
    expected_name = f"{plural}.{group}"
    name = obj.get("metadata", {}).get("name", "")
    if name != expected_name:
        causes.append(field_errors.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    field_errors.one_of(spec.get("scope"), _SCOPES, "spec.scope", causes)
    if spec.get("preserveUnknownFields"):
        causes.append(
            field_errors.invalid(
                "spec.preserveUnknownFields",
                True,
                "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema "
                "instead",
            )
        )
    conversion = spec.get("conversion", {})
    if conversion.get("strategy") == "Webhook":
        causes.append(
            field_errors.forbidden(
                "spec.conversion.strategy",
                "this server does not convert by webhook: serve versions of one shape with strategy None",
            )
        )
    elif conversion.get("strategy") != "None":
        causes.append(field_errors.unsupported("spec.conversion.strategy", conversion.get("strategy", ""), ("None",)))
    _check_names(names, causes)
    _check_versions(spec.get("versions", []), causes)
    stored = obj.get("status", {}).get("storedVersions", ())
    known = {version.get("name") for version in spec.get("versions", ())}
    for index, version in enumerate(stored):
        if version not in known:
            why = (
                f"missing from spec.versions; {version} was previously a storage version, and must remain in "
                "spec.versions until a "
                f"storage migration ensures no data remains persisted in {version} and removes {version} from "
                "status.storedVersions"
            )
            causes.append(field_errors.invalid(f"status.storedVersions[{index}]", version, why))
    if old is not None and is_established(old):
        before = old.get("spec", {})
        field_errors.immutable(group, before.get("group"), "spec.group", causes)
        field_errors.immutable(spec.get("scope"), before.get("scope"), "spec.scope", causes)
        for key in ("plural", "kind"):
            field_errors.immutable(names.get(key), before.get("names", {}).get(key), f"spec.names.{key}", causes)
    return causes


def is_established(obj: Manifest) -> bool:
    """Whether a definition has the condition Established."""
    return any(
        entry.get("type") == "Established" and entry.get("status") == "True"
        for entry in obj.get("status", {}).get("conditions", ())
    )


def unenforced_warnings(obj: Manifest) -> list[str]:
    """Warnings about rules that are stored but not enforced."""
    return [
        f'spec.versions[{index}] ("{version.get("name")}"): x-kubernetes-validations (CEL) rules are stored but not '
        "enforced by this server"
        for index, version in enumerate(obj.get("spec", {}).get("versions", ()))
        if uses_cel(version.get("schema", {}).get("openAPIV3Schema"))
    ]


def _check_names(names: Manifest, causes: list[FieldError]) -> None:
    for key in ("plural", "singular", "kind", "listKind"):
        value = names.get(key, "")
        if not value:
            causes.append(field_errors.required(f"spec.names.{key}"))
        elif why := field_errors.label_problem(value.lower()):
            causes.append(field_errors.invalid(f"spec.names.{key}", value, why))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        causes.append(
            field_errors.invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
        )
    for key in ("shortNames", "categories"):
        for index, value in enumerate(names.get(key, ())):
            if why := field_errors.label_problem(value):
                causes.append(field_errors.invalid(f"spec.names.{key}[{index}]", value, why))


def _check_versions(versions: list[Manifest], causes: list[FieldError]) -> None:
    if not versions:
        causes.append(field_errors.required("spec.versions", "must have at least one version"))
        return
    names = [version.get("name", "") for version in versions]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        causes.append(
            field_errors.invalid("spec.versions", names, "must have exactly one version marked as storage version")
        )
    if len(set(names)) < len(names):
        causes.append(field_errors.invalid("spec.versions", names, "must contain unique version names"))
    for index, version in enumerate(versions):
        here = f"spec.versions[{index}]"
        if why := field_errors.label_problem(version.get("name", "")):
            causes.append(field_errors.invalid(f"{here}.name", version.get("name", ""), why))
        schema = version.get("schema", {}).get("openAPIV3Schema")
        if schema is None:
            causes.append(field_errors.required(f"{here}.schema.openAPIV3Schema", "schemas are required"))
        else:
            causes += check_root(schema, f"{here}.schema.openAPIV3Schema")
        _check_scale(version.get("subresources", {}).get("scale"), f"{here}.subresources.scale", causes)
        _check_columns(version.get("additionalPrinterColumns", ()), f"{here}.additionalPrinterColumns", causes)
        _check_selectable(version.get("selectableFields", ()), schema or {}, f"{here}.selectableFields", causes)


def _check_scale(scale: Manifest | None, field: str, causes: list[FieldError]) -> None:
    if scale is None:
        return
    for key, root, is_needed in (
        ("specReplicasPath", "spec", True),
        ("statusReplicasPath", "status", True),
        ("labelSelectorPath", "", False),
    ):
        path = scale.get(key, "")
        if not path:
            if is_needed:
                causes.append(field_errors.required(f"{field}.{key}"))
            continue
        roots = (root,) if root else ("spec", "status")
        if "[" in path or not path.startswith(tuple(f".{name}." for name in roots)):
            allowed = " or ".join(f".{name}" for name in roots)
            causes.append(field_errors.invalid(f"{field}.{key}", path, f"should be a json path under {allowed}"))


def _check_columns(columns: list[Manifest] | tuple[()], field: str, causes: list[FieldError]) -> None:
    for index, column in enumerate(columns):
        here = f"{field}[{index}]"
        if not column.get("name"):
            causes.append(field_errors.required(f"{here}.name"))
        field_errors.one_of(column.get("type"), _COLUMN_TYPES, f"{here}.type", causes)
        _check_path(column.get("jsonPath", ""), f"{here}.jsonPath", causes)


def _check_selectable(
    fields: list[Manifest] | tuple[()], schema: Manifest, field: str, causes: list[FieldError]
) -> None:
    if len(fields) > _MAX_SELECTABLE:
        causes.append(
            FieldError(
                "FieldValueTooMany", f"Too many: {len(fields)}: must have at most {_MAX_SELECTABLE} items", field
            )
        )
    for index, entry in enumerate(fields):
        here, path = f"{field}[{index}].jsonPath", entry.get("jsonPath", "")
        if not _check_path(path, here, causes):
            continue
        names = compile_path(path).names
        found: JsonValue = schema
        for name in names or ("",):
            properties = found.get("properties", {}) if isinstance(found, dict) else {}
            found = properties.get(name)
        if not isinstance(found, dict) or found.get("type") not in ("string", "boolean", "integer"):
            causes.append(field_errors.invalid(here, path, "must point to a field of type string, boolean or integer"))


def _check_path(path: str, field: str, causes: list[FieldError]) -> bool:
    if not path:
        causes.append(field_errors.required(field))
        return False
    try:
        compile_path(path)
    except ValueError as error:
        causes.append(field_errors.invalid(field, path, str(error)))
        return False
    return True
