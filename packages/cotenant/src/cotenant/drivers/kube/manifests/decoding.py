"""Kubernetes' typed decoding applied to a mapping in place: one walk over the object and its schema.

A real API server decodes into Go structs, which refuses wrong types, drops unknown fields, nulls and empty values, and
writes quantities and times in one canonical form. Clients rely on all of that. One walk that visits each value once,
returns problems only if there are any, and builds a field's path only then.
Limits: an empty value is dropped by its type and not by the Go field's own tag (`keeps_empty` marks the exceptions that
matter); zero numbers and false are kept where Kubernetes may drop them.
Sources: Kubernetes API conventions (unset, null and empty; strict field validation); apimachinery's Quantity and Time
JSON forms.
"""

from __future__ import annotations

import binascii
import re
from datetime import UTC, datetime

import msgspec

from cotenant.drivers.kube.manifests import tree
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant.drivers.kube.manifests.tree import SchemaNode
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonValue
from cotenant.model.quantities import parse_quantity

MAX_DEPTH = 200  # levels; deeper objects are refused with 400

UNKNOWN = "unknown"
MISTYPED = "mistyped"

# (path, UNKNOWN or MISTYPED, message for a mistyped value)
Problem = tuple[str, str, str]

_SECONDS = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\dZ")
_MICROS = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\d\.\d{6}Z")
_QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_CANONICAL = re.compile(r"[1-9][0-9]{0,2}(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")  # already canonical
_ABSENT = object()


def decode(obj: Manifest, root: SchemaNode) -> list[Problem]:
    """Bring an object to its kind's form, in place. Returns the problems, unknown (dropped) fields included."""
    problems = _struct(obj, root, 0)
    if not problems:
        return []
    return [(path, category, message.replace("\1", ".").replace("\2", "")) for path, category, message in problems]


def unknown_fields(problems: list[Problem]) -> list[str]:
    """The paths of unknown fields."""
    return [path for path, category, _ in problems if category is UNKNOWN]


def refuse_mistyped(problems: list[Problem], kind: str, version: str) -> None:
    """Raise ApiError 400, worded as on a real server, if a value has the wrong type."""
    for _, category, message in problems:
        if category is MISTYPED:
            raise ApiError(400, "BadRequest", f'{kind} in version "{version}" cannot be handled as a {kind}: {message}')


def strict_error(kind: str, version: str, paths: list[str]) -> ApiError:
    """The error of strict field validation for unknown fields."""
    listed = ", ".join(f'unknown field "{path}"' for path in paths)
    text = f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {listed}'
    return ApiError(400, "BadRequest", text)


def _struct(obj: Manifest, node: SchemaNode, depth: int) -> list[Problem] | None:
    fields = node.fields
    problems: list[Problem] | None = None
    changes: list[tuple[str, object]] | None = None
    if depth > MAX_DEPTH:
        return [("", MISTYPED, "json: exceeded max depth")]
    for key, value in obj.items():
        child = fields.get(key)
        if child is None:
            if not node.preserves:
                changes = changes or []
                changes.append((key, _ABSENT))
                problems = problems or []
                problems.append((key, UNKNOWN, ""))
            continue
        plain = child.plain
        if plain is not None and type(value) is plain:
            if plain is str:
                if value or child.keeps_empty:
                    continue
                value = None
            elif plain is bool or (type(value) is int and child.low <= value <= child.high):
                continue
        if value is None:
            changes = changes or []
            changes.append((key, _ABSENT))
            continue
        new, found = _value(value, child, depth)
        if found:
            problems = problems or []
            problems.extend(
                (_under(key, path), category, _named(message, node, key)) for path, category, message in found
            )
        if new is not value:
            changes = changes or []
            changes.append((key, new))
        elif not new and child.kind in (tree.LIST, tree.MAP) and not child.keeps_empty:
            changes = changes or []
            changes.append((key, _ABSENT))
    if changes:
        for key, new in changes:
            if new is _ABSENT:
                del obj[key]
            else:
                obj[key] = new
    return problems


def _value(value: object, node: SchemaNode, depth: int) -> tuple[object, list[Problem] | None]:
    """The value in canonical form, and its problems."""
    kind = node.kind
    if kind == tree.STRUCT:
        if type(value) is dict:
            return value, _struct(value, node, depth + 1)
    elif kind == tree.LIST:
        if type(value) is list:
            return value, _list(value, node, depth + 1)
    elif kind == tree.MAP:
        if type(value) is dict:
            return value, _map(value, node, depth + 1)
    elif kind == tree.ANY:
        return value, None
    elif kind == tree.QUANTITY:
        return _quantity(value)
    elif kind == tree.INT_OR_STRING:
        if type(value) is str or (type(value) is int and tree.INT32[0] <= value <= tree.INT32[1]):
            return value, None
    elif kind == tree.TIME or kind == tree.MICRO_TIME:
        if type(value) is str:
            return _time(value, micro=kind == tree.MICRO_TIME)
    elif kind == tree.BYTES:
        if type(value) is str:
            return value, _bytes(value)
    elif kind == tree.NUMBER:
        if type(value) is float or type(value) is int:
            return value, None
    elif type(value) is node.plain and (type(value) is not int or node.low <= value <= node.high):
        return value, None
    return value, [("", MISTYPED, _wrong(value, node))]


def _list(items: list[JsonValue], node: SchemaNode, depth: int) -> list[Problem] | None:
    item = node.item
    problems: list[Problem] | None = None
    if item.kind == tree.STRUCT and depth <= MAX_DEPTH:
        for index, value in enumerate(items):
            if type(value) is dict:
                found = _struct(value, item, depth)
            elif value is None:
                items[index] = {}
                continue
            else:
                found = [("", MISTYPED, _wrong(value, item))]
            if found:
                problems = problems or []
                problems.extend((_in(index, path), category, message) for path, category, message in found)
        return problems
    for index, value in enumerate(items):
        if value is None and item.kind != tree.ANY:
            items[index] = _zero(item)
            continue
        new, found = _value(value, item, depth)
        if new is not value:
            items[index] = new
        if found:
            problems = problems or []
            problems.extend((_in(index, path), category, message) for path, category, message in found)
    return problems


def _map(pairs: Manifest, node: SchemaNode, depth: int) -> list[Problem] | None:
    item = node.item
    plain = item.plain
    problems: list[Problem] | None = None
    if plain is str:  # fast path for labels, annotations and selectors
        for value in pairs.values():
            if type(value) is not str:
                break
        else:
            return None
    if depth > MAX_DEPTH:
        return [("", MISTYPED, "json: exceeded max depth")]
    for key, value in pairs.items():
        if value is None and item.kind != tree.ANY:
            pairs[key] = _zero(item)
            continue
        new, found = _value(value, item, depth)
        if new is not value:
            pairs[key] = new  # no key is added, so the iteration stays valid
        if found:
            problems = problems or []
            problems.extend((_under(key, path), category, message) for path, category, message in found)
    return problems


def _quantity(value: object) -> tuple[object, list[Problem] | None]:
    if type(value) is str and _CANONICAL.fullmatch(value) and value[0] != "0":
        return value, None
    if type(value) is bool or not isinstance(value, str | int | float):
        return value, [("", MISTYPED, _QUANTITY_RULE)]
    try:
        canonical = str(parse_quantity(value.strip() if isinstance(value, str) else value))
    except InvalidInput:
        return value, [("", MISTYPED, _QUANTITY_RULE)]
    return (value, None) if canonical == value else (canonical, None)


def _time(value: str, *, micro: bool) -> tuple[object, list[Problem] | None]:
    try:
        if (_MICROS if micro else _SECONDS).fullmatch(value):
            datetime.fromisoformat(value)
            return value, None
        if not re.fullmatch(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", value, re.ASCII):
            raise ValueError(value)
        moment = datetime.fromisoformat(re.sub(r"\.(\d{1,6})\d*", _pad, value.upper())).astimezone(UTC)
    except (ValueError, OverflowError):
        shown = msgspec.json.encode(value).decode()
        message = f'parsing time {shown} as "2006-01-02T15:04:05Z07:00": cannot parse {shown} as "2006"'
        return value, [("", MISTYPED, message)]
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ"), None


def _pad(match: re.Match[str]) -> str:
    return "." + match[1].ljust(6, "0")


def _bytes(value: str) -> list[Problem] | None:
    try:
        binascii.a2b_base64(value.encode(), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        return [("", MISTYPED, "illegal base64 data at input byte 0")]
    return None


def _zero(node: SchemaNode) -> object:
    """The Go type's zero value, which replaces a null element of a list or map."""
    if node.kind in (tree.STRUCT, tree.MAP):
        return {}
    if node.kind == tree.LIST:
        return []
    if node.kind in (tree.INTEGER, tree.NUMBER, tree.INT_OR_STRING):
        return 0
    if node.kind == tree.BOOLEAN:
        return False
    return "0" if node.kind == tree.QUANTITY else ""


def _under(key: str, path: str) -> str:
    if not path:
        return key
    return key + path if path[0] == "[" else f"{key}.{path}"


def _in(index: int, path: str) -> str:
    return f"[{index}].{path}" if path and path[0] != "[" else f"[{index}]{path}"


def _wrong(value: object, node: SchemaNode) -> str:
    """Go's message for a wrong type, with a placeholder for the field name, which is known only further up."""
    json_type = {bool: "bool", str: "string", list: "array", dict: "object", int: "number", float: "number"}.get(
        type(value), "null"
    )
    if json_type == "number" and node.kind == tree.INTEGER:  # a number, but not one of this type
        json_type = f"number {value}"
    return f"json: cannot unmarshal {json_type} into Go \0 of type {node.go_type}"


def _named(message: str, node: SchemaNode, key: str) -> str:
    """Insert the struct and the dotted path of the field into the message, as Go's decoder does."""
    if "\0" in message:
        return message.replace("\0", f"struct field {node.name}\1{key}\2", 1)
    if "\1" in message:
        head, _, rest = message.partition("\1")
        return f"{head}\1{key}.{rest}"
    return message
