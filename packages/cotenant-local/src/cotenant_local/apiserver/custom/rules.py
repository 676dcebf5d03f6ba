"""Validation rules of a structural schema, compiled: types, ranges, patterns, combinations.

Custom objects are validated on every write, against schemas of hundreds of nodes, with the messages of the real server.
One slotted rule per schema node, checks in the order in which Kubernetes reports them, a path built only for an error.
Limits: patterns are Go's (RE2) but run on Python's engine, which does not bound a pattern's time, so a definition's
author can slow this server down. `x-kubernetes-validations` (CEL) is not evaluated; the client that writes such a
definition is warned.
Source: Kubernetes documentation of CustomResourceDefinition validation; the messages of its OpenAPI validation.
"""

from __future__ import annotations

import re

import msgspec

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.custom.formats import FORMATS, fits
from cotenant_local.apiserver.schema.kinds import field_errors

_NAMES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}


class SchemaRule:
    """One schema node."""

    __slots__ = (
        "additional",
        "all_of",
        "any_of",
        "embedded",
        "enum",
        "form",
        "items",
        "keys",
        "list_type",
        "negated",
        "nullable",
        "one_of",
        "pattern",
        "pattern_text",
        "properties",
        "ranges",
        "required",
        "sizes",
        "type",
    )

    def __init__(self, schema: Manifest) -> None:
        """Compile a schema that has passed the validation of its definition."""
        self.type: str = "int-or-string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
        self.nullable = bool(schema.get("nullable"))
        self.enum: list[JsonValue] | None = schema.get("enum")
        self.form: str = schema.get("format", "") if schema.get("format") in FORMATS else ""
        self.pattern_text: str = schema.get("pattern", "")
        self.pattern = compile_pattern(self.pattern_text) if self.pattern_text else None
        self.required: tuple[str, ...] = tuple(schema.get("required", ()))
        self.properties = {name: SchemaRule(entry) for name, entry in schema.get("properties", {}).items()}
        additional, items = schema.get("additionalProperties"), schema.get("items")
        self.additional = SchemaRule(additional) if isinstance(additional, dict) else None
        self.items = SchemaRule(items) if isinstance(items, dict) else None
        self.list_type: str = schema.get("x-kubernetes-list-type", "")
        self.keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys", ()))
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self.all_of = [SchemaRule(entry) for entry in schema.get("allOf", ())]
        self.any_of = [SchemaRule(entry) for entry in schema.get("anyOf", ())]
        self.one_of = [SchemaRule(entry) for entry in schema.get("oneOf", ())]
        self.negated = SchemaRule(schema["not"]) if "not" in schema else None
        ranges = {key: schema[key] for key in ("minimum", "maximum", "multipleOf") if schema.get(key) is not None}
        for key in ("exclusiveMinimum", "exclusiveMaximum"):
            if schema.get(key) is True:
                ranges[key] = True
        self.ranges: Manifest = ranges
        self.sizes: dict[str, int] = {
            key: schema[key]
            for key in ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
            if schema.get(key) is not None
        }

    def check(self, value: JsonValue, path: str, causes: list[FieldError]) -> None:
        """Append the validation errors of a value."""
        if value is None and self.nullable:
            return
        if self.type and not _is_type(value, self.type):
            causes.append(_mistyped(path, value, self.type))
            return
        kind = type(value)
        if kind is dict:
            self._check_object(value, path, causes)
        elif kind is list:
            self._check_list(value, path, causes)
        elif kind is str:
            if self.sizes or self.pattern is not None or self.form:
                self._check_text(value, path, causes)
        elif self.ranges and kind in (int, float):
            self._check_number(value, path, causes)
        if self.enum is not None and not any(_equal(value, entry) for entry in self.enum):
            shown = ", ".join(
                f'"{entry}"' if isinstance(entry, str) else field_errors.shown(entry) for entry in self.enum
            )
            causes.append(
                FieldError(
                    "FieldValueNotSupported",
                    f"Unsupported value: {field_errors.shown(value)}: supported values: {shown}",
                    path,
                )
            )
        if self.all_of or self.any_of or self.one_of or self.negated is not None:
            self._check_combinations(value, path, causes)

    def holds(self, value: object) -> bool:
        """Whether a value is valid."""
        causes: list[FieldError] = []
        self.check(value, "", causes)
        return not causes

    def _check_object(self, value: Manifest, path: str, causes: list[FieldError]) -> None:
        causes += [field_errors.required(_under(path, name)) for name in self.required if name not in value]
        properties, additional = self.properties, self.additional
        for name, entry in value.items():
            rule = properties.get(name)
            if rule is not None:
                rule.check(entry, _under(path, name), causes)
            elif additional is not None:
                additional.check(entry, _under(path, name), causes)
        if self.embedded:
            causes += [
                field_errors.required(_under(path, name), "must not be empty")
                for name in ("apiVersion", "kind")
                if not value.get(name)
            ]
        if self.sizes:
            minimum, maximum = self.sizes.get("minProperties"), self.sizes.get("maxProperties")
            if minimum is not None and len(value) < minimum:
                causes.append(
                    field_errors.invalid(path, value, f"{path} in body should have at least {minimum} properties")
                )
            if maximum is not None and len(value) > maximum:
                causes.append(_too_many(path, len(value), maximum))

    def _check_list(self, value: list[JsonValue], path: str, causes: list[FieldError]) -> None:
        minimum, maximum = self.sizes.get("minItems"), self.sizes.get("maxItems")
        if minimum is not None and len(value) < minimum:
            causes.append(
                field_errors.invalid(path, len(value), f"{path} in body should have at least {minimum} items")
            )
        if maximum is not None and len(value) > maximum:
            causes.append(_too_many(path, len(value), maximum))
        if self.items is not None:
            for index, entry in enumerate(value):
                self.items.check(entry, f"{path}[{index}]", causes)
        if self.list_type == "set" or self.list_type == "map":
            seen: set[bytes] = set()
            for index, entry in enumerate(value):
                named = {key: entry.get(key) for key in self.keys} if self.keys and isinstance(entry, dict) else entry
                identity = msgspec.json.encode(named, order="sorted")
                if identity in seen:
                    causes.append(field_errors.duplicate(f"{path}[{index}]", named))
                seen.add(identity)

    def _check_text(self, value: str, path: str, causes: list[FieldError]) -> None:
        minimum, maximum = self.sizes.get("minLength"), self.sizes.get("maxLength")
        if maximum is not None and len(value) > maximum:
            causes.append(FieldError("FieldValueTooLong", f"Too long: may not be more than {maximum} bytes", path))
        if minimum is not None and len(value) < minimum:
            causes.append(field_errors.invalid(path, value, f"{path} in body should be at least {minimum} chars long"))
        if self.pattern is not None and not self.pattern.search(value):
            causes.append(field_errors.invalid(path, value, f"{path} in body should match '{self.pattern_text}'"))
        if self.form and not fits(value, self.form):
            causes.append(field_errors.invalid(path, value, f'{path} in body must be of type {self.form}: "{value}"'))

    def _check_number(self, value: float, path: str, causes: list[FieldError]) -> None:
        ranges = self.ranges
        maximum, minimum, step = ranges.get("maximum"), ranges.get("minimum"), ranges.get("multipleOf")
        if maximum is not None:
            is_open = "exclusiveMaximum" in ranges
            if value > maximum or (is_open and value == maximum):
                expected = "less than" if is_open else "less than or equal to"
                causes.append(
                    field_errors.invalid(
                        path, value, f"{path} in body should be {expected} {field_errors.shown(maximum)}"
                    )
                )
        if minimum is not None:
            is_open = "exclusiveMinimum" in ranges
            if value < minimum or (is_open and value == minimum):
                expected = "greater than" if is_open else "greater than or equal to"
                causes.append(
                    field_errors.invalid(
                        path, value, f"{path} in body should be {expected} {field_errors.shown(minimum)}"
                    )
                )
        if step and abs(value / step - round(value / step)) > 1e-9:
            causes.append(
                field_errors.invalid(path, value, f"{path} in body should be a multiple of {field_errors.shown(step)}")
            )

    def _check_combinations(self, value: object, path: str, causes: list[FieldError]) -> None:
        for rule in self.all_of:
            rule.check(value, path, causes)
        shown = "" if isinstance(value, dict | list) else value
        if self.any_of and not any(rule.holds(value) for rule in self.any_of):
            causes.append(
                field_errors.invalid(path, shown, f"{path} in body must validate at least one schema (anyOf)")
            )
        if self.one_of:
            fitting = sum(rule.holds(value) for rule in self.one_of)
            if fitting != 1:
                found = "none valid" if fitting == 0 else f"{fitting} valid alternatives"
                text = f"{path} in body must validate one and only one schema (oneOf). Found {found}"
                causes.append(field_errors.invalid(path, shown, text))
        if self.negated is not None and self.negated.holds(value):
            causes.append(field_errors.invalid(path, shown, f"{path} in body must not validate the schema (not)"))


def compile_pattern(text: str) -> re.Pattern[str]:
    """Convert a Go pattern to Python's: `$` and `\\z` match the end of the text only. Raises `re.error` if it is
    invalid.
    """
    out: list[str] = []
    index, in_class = 0, False
    while index < len(text):
        char = text[index]
        if char == "\\" and index + 1 < len(text):
            pair = text[index : index + 2]
            out.append("\\Z" if pair == "\\z" else pair)
            index += 2
            continue
        if char == "[":
            in_class = True
        elif char == "]":
            in_class = False
        out.append("\\Z" if char == "$" and not in_class else char)
        index += 1
    try:
        return re.compile("".join(out), re.ASCII)
    except (OverflowError, RecursionError) as wrong:
        raise re.error(str(wrong)) from None


def _is_type(value: JsonValue, type_name: str) -> bool:
    kind = type(value)
    if type_name == "int-or-string":
        return kind is str or kind is int
    if type_name == "integer":
        return kind is int or (kind is float and value.is_integer())
    if type_name == "number":
        return kind is int or kind is float
    return _NAMES.get(kind) == type_name


def _mistyped(path: str, value: object, type_name: str) -> FieldError:
    name = _NAMES.get(type(value), "unknown")
    expected = "integer,string" if type_name == "int-or-string" else type_name
    where = f"{path} in body" if path else "in body"
    return FieldError(
        "FieldValueTypeInvalid", f'Invalid value: "{name}": {where} must be of type {expected}: "{name}"', path
    )


def _too_many(path: str, found: int, maximum: int) -> FieldError:
    return FieldError("FieldValueTooMany", f"Too many: {found}: must have at most {maximum} items", path)


def _equal(a: object, b: object) -> bool:
    return a == b and isinstance(a, bool) is isinstance(b, bool)


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
