"""Validation of a definition's schema: whether it is structural and supported by this server.

Source: Kubernetes documentation, "Specifying a structural schema": a type for every field, element and the root;
combinations (`allOf`, `anyOf`, `oneOf`, `not`) only restrict values; lists that are sets or maps declare how elements
are identified; defaults are valid.
"""

from __future__ import annotations

import re

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.custom.rules import SchemaRule, compile_pattern
from cotenant_local.apiserver.custom.structural import MAX_DEPTH
from cotenant_local.apiserver.schema.kinds import field_errors

_TYPES = frozenset({"array", "boolean", "integer", "number", "object", "string"})
_UNSUPPORTED = ("$ref", "definitions", "dependencies", "id", "patternProperties", "additionalItems")
_NOT_IN_COMBINATIONS = (
    "description",
    "type",
    "default",
    "additionalProperties",
    "nullable",
    "title",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
)
_COMBINATIONS = ("allOf", "anyOf", "oneOf")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_LIST_TYPE = "x-kubernetes-list-type"
_MAP_KEYS = "x-kubernetes-list-map-keys"
_CEL = "x-kubernetes-validations"


def check_root(schema: Manifest, field: str) -> list[FieldError]:
    """Validation errors of a version's schema."""
    causes: list[FieldError] = []
    if schema.get("type") != "object":
        if schema.get("type"):
            causes.append(field_errors.invalid(f"{field}.type", schema["type"], "must be object at the root"))
        else:
            causes.append(field_errors.required(f"{field}.type", "must not be empty at the root"))
    if schema.get("nullable"):
        causes.append(field_errors.forbidden(f"{field}.nullable", "nullable cannot be true at the root"))
    _check(schema, field, "root", 0, causes)
    return causes


def uses_cel(schema: object, depth: int = 0) -> bool:
    """Whether a schema has CEL rules at any level."""
    if depth > 4 * MAX_DEPTH:
        return False
    if isinstance(schema, dict):
        return _CEL in schema or any(uses_cel(entry, depth + 1) for entry in schema.values())
    return isinstance(schema, list) and any(uses_cel(entry, depth + 1) for entry in schema)


def _check(schema: object, field: str, where: str, depth: int, causes: list[FieldError]) -> None:
    if depth > MAX_DEPTH:
        causes.append(field_errors.forbidden(field, f"schemas of more than {MAX_DEPTH} levels are not supported"))
        return
    if not isinstance(schema, dict):
        causes.append(field_errors.invalid(field, schema, "must be a schema"))
        return
    before = len(causes)
    kind = schema.get("type")
    is_free = bool(schema.get(_PRESERVE)) or bool(schema.get(_INT_OR_STRING))
    if kind is not None and kind not in _TYPES:
        causes.append(field_errors.unsupported(f"{field}.type", kind, _TYPES))
    if not kind and where != "root" and not is_free:
        causes.append(field_errors.required(f"{field}.type", f"must not be empty for specified {where}"))
    if kind and schema.get(_INT_OR_STRING):
        causes.append(
            field_errors.invalid(f"{field}.type", kind, "must be empty if x-kubernetes-int-or-string is true")
        )
    causes += [
        field_errors.forbidden(f"{field}.{key}", f"{key} is not supported") for key in _UNSUPPORTED if key in schema
    ]
    if schema.get("uniqueItems"):
        causes.append(
            field_errors.forbidden(
                f"{field}.uniqueItems",
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            )
        )
    if "additionalProperties" in schema and schema.get("properties"):
        causes.append(
            field_errors.forbidden(
                f"{field}.additionalProperties", "additionalProperties and properties are mutual exclusive"
            )
        )
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        causes.append(
            field_errors.invalid(
                f"{field}.type", kind or "", "must be object if x-kubernetes-embedded-resource is true"
            )
        )
    if kind == "array" and "items" not in schema:
        causes.append(field_errors.required(f"{field}.items", "must be specified"))
    _check_list(schema, field, causes)
    _check_values(schema, field, causes)
    for name, entry in schema.get("properties", {}).items():
        _check(entry, f"{field}.properties[{name}]", "object fields", depth + 1, causes)
    if "items" in schema:
        if isinstance(schema["items"], list):
            causes.append(field_errors.forbidden(f"{field}.items", "items must be a schema object and not an array"))
        else:
            _check(schema["items"], f"{field}.items", "array items", depth + 1, causes)
    additional = schema.get("additionalProperties")
    if additional is not None and not isinstance(additional, bool):
        _check(additional, f"{field}.additionalProperties", "object fields", depth + 1, causes)
    if len(causes) == before and schema.get("default") is not None and not SchemaRule(schema).holds(schema["default"]):
        found: list[FieldError] = []
        SchemaRule(schema).check(schema["default"], "", found)
        causes.append(field_errors.invalid(f"{field}.default", schema["default"], found[0].message))


def _check_list(schema: Manifest, field: str, causes: list[FieldError]) -> None:
    kind = schema.get(_LIST_TYPE)
    keys = schema.get(_MAP_KEYS)
    if kind is None:
        if keys:
            causes.append(field_errors.forbidden(f"{field}.{_MAP_KEYS}", f"may only be set when {_LIST_TYPE} is map"))
        return
    if schema.get("type") != "array":
        causes.append(
            field_errors.invalid(f"{field}.type", schema.get("type", ""), f"must be array if {_LIST_TYPE} is specified")
        )
    if kind not in ("atomic", "set", "map"):
        causes.append(field_errors.unsupported(f"{field}.{_LIST_TYPE}", kind, ("atomic", "set", "map")))
    items = schema.get("items")
    if not isinstance(items, dict):
        return
    if kind == "set":
        is_whole = items.get("x-kubernetes-map-type") == "atomic" or items.get(_LIST_TYPE) == "atomic"
        if items.get("type") in ("object", "array") and not is_whole:
            causes.append(
                field_errors.invalid(
                    f"{field}.items", items.get("type"), "must be scalar or atomic if the list is a set"
                )
            )
    elif kind == "map":
        if items.get("type") != "object":
            causes.append(
                field_errors.invalid(
                    f"{field}.items.type",
                    items.get("type", ""),
                    f"must be object if parent array's {_LIST_TYPE} is map",
                )
            )
        if not keys:
            causes.append(field_errors.required(f"{field}.{_MAP_KEYS}", f"must not be empty if {_LIST_TYPE} is map"))
        properties = items.get("properties")
        for index, key in enumerate(keys or ()):
            element = properties.get(key) if isinstance(properties, dict) else None
            if not isinstance(element, dict):
                causes.append(
                    field_errors.invalid(
                        f"{field}.{_MAP_KEYS}[{index}]", key, "entries must all be names of item properties"
                    )
                )
            elif element.get("type") in ("object", "array"):
                causes.append(
                    field_errors.invalid(
                        f"{field}.items.properties[{key}].type", element["type"], "must be a scalar type"
                    )
                )
            elif "default" not in element and key not in items.get("required", ()):
                causes.append(
                    field_errors.required(
                        f"{field}.items.properties[{key}].default",
                        f"this property is in {_MAP_KEYS}, so it must have a default or be a required property",
                    )
                )


def _check_values(schema: Manifest, field: str, causes: list[FieldError], depth: int = 0) -> None:
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_pattern(pattern)
        except re.error as wrong:
            causes.append(
                field_errors.invalid(
                    f"{field}.pattern", pattern, f"must be a valid regular expression, but isn't: {wrong}"
                )
            )
    if schema.get("multipleOf") is not None and schema["multipleOf"] <= 0:
        causes.append(field_errors.invalid(f"{field}.multipleOf", schema["multipleOf"], "must be greater than 0"))
    is_either = bool(schema.get(_INT_OR_STRING))
    for key in _COMBINATIONS:
        for index, entry in enumerate(schema.get(key, ())):
            _check_combined(entry, f"{field}.{key}[{index}]", is_either, depth, causes)
    if "not" in schema:
        _check_combined(schema["not"], f"{field}.not", is_either, depth, causes)


def _check_combined(schema: object, field: str, is_either: bool, depth: int, causes: list[FieldError]) -> None:
    if depth > MAX_DEPTH or not isinstance(schema, dict):
        causes.append(field_errors.invalid(field, "", "must be a schema"))
        return
    causes += [
        field_errors.forbidden(f"{field}.{key}", "must be empty to be structural")
        for key in _NOT_IN_COMBINATIONS
        if key in schema and not (key == "type" and is_either)
    ]
    if is_either and depth < 2:  # anyOf: [{type: integer}, {type: string}], possibly inside an allOf
        for key in _COMBINATIONS:
            for index, entry in enumerate(schema.get(key, ())):
                _check_combined(entry, f"{field}.{key}[{index}]", is_either, depth + 1, causes)
    _check_values(
        {key: entry for key, entry in schema.items() if not is_either or key not in _COMBINATIONS},
        field,
        causes,
        depth + 1,
    )
    inner = [(f"{field}.properties[{name}]", entry) for name, entry in schema.get("properties", {}).items()]
    if isinstance(schema.get("items"), dict):
        inner.append((f"{field}.items", schema["items"]))
    for path, entry in inner:
        _check_combined(entry, path, False, depth + 1, causes)
