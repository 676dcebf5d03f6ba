"""OpenAPI v2 in gnostic's protobuf encoding, the only form in which client-go reads it (and kubectl before 1.27
validates).

Kubectl up to 1.26 refuses to create or apply anything without this document in this form, and no maintained Python
package writes it. The wire format is small, so the messages are written from a table of field numbers, limited to those
that this document uses.
Source: gnostic's OpenAPIv2.proto (message and field numbers); protobuf encoding. Extensions carry their value as YAML
text, of which JSON is a subset.
Limits: encodes only; security schemes, examples and headers are left out.
"""

from __future__ import annotations

import struct

import msgspec

from cotenant.model.json_object import JsonObject

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
CONTENT_TYPE = b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_TEXT, _FLAG, _WHOLE, _REAL, _ANY, _TEXTS, _ANYS = "text", "flag", "whole", "real", "any", "texts", "anys"

_Fields = dict[str, tuple[int, str]]

# message Schema
_SCHEMA: _Fields = {
    "$ref": (1, _TEXT),
    "format": (2, _TEXT),
    "title": (3, _TEXT),
    "description": (4, _TEXT),
    "default": (5, _ANY),
    "multipleOf": (6, _REAL),
    "maximum": (7, _REAL),
    "exclusiveMaximum": (8, _FLAG),
    "minimum": (9, _REAL),
    "exclusiveMinimum": (10, _FLAG),
    "maxLength": (11, _WHOLE),
    "minLength": (12, _WHOLE),
    "pattern": (13, _TEXT),
    "maxItems": (14, _WHOLE),
    "minItems": (15, _WHOLE),
    "uniqueItems": (16, _FLAG),
    "maxProperties": (17, _WHOLE),
    "minProperties": (18, _WHOLE),
    "required": (19, _TEXTS),
    "enum": (20, _ANYS),
    "readOnly": (27, _FLAG),
    "example": (30, _ANY),
}
_SCHEMA_EXTENSION = 31
# messages QueryParameterSubSchema and PathParameterSubSchema
_QUERY: _Fields = {
    "required": (1, _FLAG),
    "in": (2, _TEXT),
    "description": (3, _TEXT),
    "name": (4, _TEXT),
    "type": (6, _TEXT),
    "format": (7, _TEXT),
    "uniqueItems": (20, _FLAG),
}
_PATH: _Fields = {
    "required": (1, _FLAG),
    "in": (2, _TEXT),
    "description": (3, _TEXT),
    "name": (4, _TEXT),
    "type": (5, _TEXT),
    "format": (6, _TEXT),
    "uniqueItems": (19, _FLAG),
}
_BODY: _Fields = {"description": (1, _TEXT), "name": (2, _TEXT), "in": (3, _TEXT), "required": (4, _FLAG)}
_OPERATION: _Fields = {
    "tags": (1, _TEXTS),
    "summary": (2, _TEXT),
    "description": (3, _TEXT),
    "operationId": (5, _TEXT),
    "produces": (6, _TEXTS),
    "consumes": (7, _TEXTS),
    "schemes": (10, _TEXTS),
    "deprecated": (11, _FLAG),
}
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}

_as_json = msgspec.json.Encoder().encode


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _bytes(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode()) if value else b""


def _any(value: object) -> bytes:
    """message Any, as YAML text."""
    return _bytes(2, _as_json(value) + b"\n")


def _named(number: int, name: str, value: bytes) -> bytes:
    """An entry of a map, which gnostic encodes as a list of (name, value)."""
    return _bytes(number, _text(1, name) + _bytes(2, value))


def _plain(fields: _Fields, document: JsonObject) -> list[bytes]:
    parts = []
    for key, (number, kind) in fields.items():
        value = document.get(key)
        if value is None:
            continue
        if kind == _TEXT:
            parts.append(_text(number, value))
        elif kind == _FLAG:
            parts.append(_varint(number << 3) + b"\x01" if value else b"")
        elif kind == _WHOLE:
            parts.append(_varint(number << 3) + _varint(int(value)) if value else b"")
        elif kind == _REAL:
            parts.append(_varint(number << 3 | 1) + struct.pack("<d", value) if value else b"")
        elif kind == _TEXTS:
            parts.extend(_bytes(number, one.encode()) for one in value)
        elif kind == _ANY:
            parts.append(_bytes(number, _any(value)))
        else:
            parts.extend(_bytes(number, _any(one)) for one in value)
    return parts


def _extensions(number: int, document: JsonObject) -> list[bytes]:
    return [_named(number, key, _any(value)) for key, value in document.items() if key.startswith("x-")]


def schema(document: JsonObject) -> bytes:
    """message Schema."""
    parts = _plain(_SCHEMA, document)
    additional = document.get("additionalProperties")
    if isinstance(additional, bool):
        parts.append(_bytes(21, _varint(2 << 3) + (b"\x01" if additional else b"\x00")))
    elif additional is not None:
        parts.append(_bytes(21, _bytes(1, schema(additional))))
    if document.get("type"):
        parts.append(_bytes(22, _bytes(1, document["type"].encode())))
    if document.get("items") is not None:
        parts.append(_bytes(23, _bytes(1, schema(document["items"]))))
    parts.extend(_bytes(24, schema(one)) for one in document.get("allOf", ()))
    if document.get("properties"):
        parts.append(_bytes(25, b"".join(_named(1, name, schema(one)) for name, one in document["properties"].items())))
    parts.extend(_extensions(_SCHEMA_EXTENSION, document))
    return b"".join(parts)


def _parameter(document: JsonObject) -> bytes:
    """message ParametersItem."""
    if document["in"] == "body":
        body = b"".join(_plain(_BODY, document)) + _bytes(5, schema(document["schema"]))
        return _bytes(1, _bytes(1, body))
    if document["in"] == "query":
        return _bytes(1, _bytes(2, _bytes(3, b"".join(_plain(_QUERY, document)))))
    return _bytes(1, _bytes(2, _bytes(4, b"".join(_plain(_PATH, document)))))


def _response(document: JsonObject) -> bytes:
    """message ResponseValue."""
    parts = [_text(1, document.get("description", ""))]
    if document.get("schema") is not None:
        parts.append(_bytes(2, _bytes(1, schema(document["schema"]))))
    return _bytes(1, b"".join(parts))


def _operation(document: JsonObject) -> bytes:
    parts = _plain(_OPERATION, document)
    parts.extend(_bytes(8, _parameter(one)) for one in document.get("parameters", ()))
    responses = b"".join(_named(1, code, _response(one)) for code, one in document.get("responses", {}).items())
    parts.append(_bytes(9, responses))
    parts.extend(_extensions(13, document))
    return b"".join(parts)


def _path_item(document: JsonObject) -> bytes:
    parts = [_bytes(number, _operation(document[method])) for method, number in _METHODS.items() if method in document]
    parts.extend(_bytes(9, _parameter(one)) for one in document.get("parameters", ()))
    return b"".join(parts)


def document(swagger: JsonObject) -> bytes:
    """message Document: encode an OpenAPI v2 document."""
    info = swagger["info"]
    paths = b"".join(_named(2, path, _path_item(item)) for path, item in swagger["paths"].items())
    definitions = b"".join(_named(1, name, schema(one)) for name, one in swagger["definitions"].items())
    return b"".join(
        (
            _text(1, swagger["swagger"]),
            _bytes(2, _text(1, info["title"]) + _text(2, info["version"])),
            _bytes(8, paths),
            _bytes(9, definitions),
        )
    )
