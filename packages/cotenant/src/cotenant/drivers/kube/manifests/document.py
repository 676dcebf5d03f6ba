"""Decoding of patch bodies, with limits on depth and size.

A body may be JSON or YAML and nested without bound. Msgspec reads JSON, `yaml_documents` YAML, and both refuse a depth
that no API object has.
Limits: a YAML body must be a single document, as on the real server.
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.kube.manifests import yaml_documents
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant.model.json_object import JsonValue

MAX_DEPTH = 300  # levels of nesting

_JSON = msgspec.json.Decoder()


def read_document(body: bytes | Manifest, *, yaml: bool = False) -> object:
    """Decode a body. Raises ApiError 400 if it is malformed."""
    if not isinstance(body, bytes | bytearray | memoryview):
        return body
    try:
        return _JSON.decode(body)
    except RecursionError:
        raise _unreadable("the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if not yaml:
            raise _unreadable(str(error)) from None
    return yaml_documents.decode(bytes(body), _unreadable, allows_aliases=True)


def read_mapping(body: bytes | Manifest, *, yaml: bool = False) -> Manifest:
    """As `read_document`, for a body that must be an object."""
    found = read_document(body, yaml=yaml)
    if not isinstance(found, dict):
        name = {list: "array", str: "string", bool: "bool", type(None): "null"}.get(type(found), "number")
        raise _unreadable(f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}")
    return found


def copied(value: Manifest) -> Manifest:
    """A deep copy of an object."""
    copy: Manifest = copy_value(value)
    return copy


def copy_value(value: object) -> JsonValue:
    """A deep copy of any JSON value. Faster than encoding and decoding it, and it keeps the order of keys."""
    if type(value) is dict:
        return {key: copy_value(entry) if type(entry) in _NESTED else entry for key, entry in value.items()}
    if type(value) is list:
        return [copy_value(entry) if type(entry) in _NESTED else entry for entry in value]
    return value


_NESTED = frozenset((dict, list))


def refuse_deep(value: JsonValue, limit: int = MAX_DEPTH) -> None:
    """Raise ApiError 400 if a value is nested deeper than any API object, so that later recursive walks do not
    overflow the stack.
    """
    level = [value] if type(value) in _NESTED else []
    for _ in range(limit):
        level = [
            entry
            for one in level
            for entry in (one.values() if type(one) is dict else one)
            if type(entry) is dict or type(entry) is list
        ]
        if not level:
            return
    raise _unreadable("the body is nested too deeply")


def _unreadable(message: str) -> ApiError:
    return ApiError(400, "BadRequest", f"error decoding patch: {message}")
