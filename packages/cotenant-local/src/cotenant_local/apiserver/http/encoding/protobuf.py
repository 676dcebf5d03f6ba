"""Request bodies in Kubernetes' protobuf encoding.

Typed Go clients since client-go 0.32 (kubectl 1.32's `create`, `auth can-i` and evictions among them) send protobuf and
do not fall back when it is refused; they do accept JSON responses. Bodies are decoded by a table of field numbers,
responses stay JSON. The table (`protobuf_fields.json`) maps field numbers to JSON fields for each message of the served
kinds, taken from the struct tags of Kubernetes' published API types, v1.34 and, of kinds that were added later, v1.36.
A zero that such a client writes for an unset plain field is dropped, as JSON's omitempty drops it; fields that are
pointers in Go keep it.
Limits: decodes only; fields unknown to these are ignored; custom kinds have no protobuf form in Kubernetes either.
Codes of the table: s text, b flag, i whole number, f real, y bytes, m message, l message that is a list, T Time, U
MicroTime, Q Quantity, I IntOrString, R raw JSON; then * repeated, % map, ? pointer; ^ its fields belong to the
enclosing object (or, alone, are its value).
"""

from __future__ import annotations

import base64
import struct
import time
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.http.encoding.json_documents import MAX_DEPTH, decode_json

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_MASK = (1 << 64) - 1


class _Field(NamedTuple):
    name: str
    code: str
    is_repeated: bool
    is_map: bool
    is_pointer: bool
    is_inlined: bool
    message: str


class _Tables(NamedTuple):
    kinds: dict[str, str]  # apiVersion/kind -> message
    messages: dict[str, dict[int, _Field]]


class MalformedBody(Exception):
    """The body is not a valid encoding of the expected message."""


@cache
def _tables() -> _Tables:
    raw = msgspec.json.decode(resources.files(__package__).joinpath("protobuf_fields.json").read_bytes())
    messages = {}
    for message, rows in raw["messages"].items():
        fields = {}
        for number, name, code, *reference in rows:
            flags = code[1:]
            fields[number] = _Field(
                name, code[0], "*" in flags, "%" in flags, "?" in flags, "^" in flags, reference[0] if reference else ""
            )
        messages[message] = fields
    return _Tables(raw["kinds"], messages)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise MalformedBody("truncated number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at
        shift += 7


def _wire(data: memoryview) -> Iterator[tuple[int, Any]]:
    """The fields of a message: (number, int or view of bytes)."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        value: Any
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            if size > len(data) - at:
                raise MalformedBody("truncated field")
            value = data[at : at + size]
            at += size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            if size > len(data) - at:
                raise MalformedBody("truncated number")
            value = data[at : at + size]
            at += size
        else:
            raise MalformedBody(f"unknown wire type {kind}")
        yield key >> 3, value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _bytes(value: object) -> memoryview:
    if not isinstance(value, memoryview):
        raise MalformedBody("expected a length-delimited field")
    return value


def _text(value: object) -> str:
    return bytes(_bytes(value)).decode()


def _instant(value: object, digits: int) -> str | None:
    found = dict(_wire(_bytes(value)))
    if not found:
        return None
    seconds, nanos = _signed(found.get(1, 0)), found.get(2, 0)
    try:
        shown = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        raise MalformedBody("a time out of range") from None
    return f"{shown}.{nanos // 1000:06d}Z" if digits else f"{shown}Z"


def _int_or_string(value: object) -> int | str:
    found = dict(_wire(_bytes(value)))
    if found.get(1, 0):
        return _text(found[3]) if 3 in found else ""
    return _signed(found.get(2, 0))


def _scalar(field: _Field, value: object, depth: int) -> Any:
    code = field.code
    if code == "s":
        return _text(value)
    if code == "m":
        return _message(field.message, _bytes(value), depth + 1)
    if code in "bi":
        if not isinstance(value, int):
            raise MalformedBody("expected a number")
        return bool(value) if code == "b" else _signed(value)
    if code == "y":
        return base64.b64encode(_bytes(value)).decode()
    if code == "l":
        return _message(field.message, _bytes(value), depth + 1).get("items", [])
    if code == "T":
        return _instant(value, 0)
    if code == "U":
        return _instant(value, 6)
    if code == "Q":
        found = dict(_wire(_bytes(value)))
        return _text(found[1]) if 1 in found else ""
    if code == "I":
        return _int_or_string(value)
    if code == "f":
        return struct.unpack("<d", _bytes(value))[0]
    found = dict(_wire(_bytes(value)))  # R: raw JSON
    return decode_json(bytes(_bytes(found[1]))) if 1 in found else None


_ZEROS: tuple[Any, ...] = ("", 0, False, None)


def _is_zero(value: object) -> bool:
    return value == {} if isinstance(value, dict) else value in _ZEROS


def _entry(field: _Field, value: object, depth: int) -> tuple[str, Any]:
    """One entry of a map."""
    found = dict(_wire(_bytes(value)))
    key = _text(found[1]) if 1 in found else ""
    if 2 in found:
        return key, _scalar(field, found[2], depth)
    return key, {"m": {}, "b": False, "i": 0}.get(field.code, "")


def _message(name: str, data: memoryview, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise MalformedBody("exceeded max depth")
    fields = _tables().messages[name]
    if fields and all(field.is_inlined and not field.name for field in fields.values()):
        return _union(fields, data, depth)
    out: Manifest = {}
    for number, value in _wire(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.is_map:
            key, inner = _entry(field, value, depth)
            out.setdefault(field.name, {})[key] = inner
        elif field.is_repeated:
            out.setdefault(field.name, []).append(_scalar(field, value, depth))
        else:
            inner = _scalar(field, value, depth)
            if field.is_inlined:
                if isinstance(inner, dict):
                    out.update(inner)
            elif inner is not None and (field.is_pointer or not _is_zero(inner)):
                out[field.name] = inner
    return out


def _union(fields: dict[int, _Field], data: memoryview, depth: int) -> Any:
    """A union type (a schema or a flag, a schema or a list), or a single embedded type."""
    lists: list[Any] = []
    flag: Any = None
    for number, value in _wire(data):
        field = fields.get(number)
        if field is None:
            continue
        inner = _scalar(field, value, depth)
        if field.is_repeated:
            lists.append(inner)
        elif field.code == "m":
            return inner
        else:
            flag = inner
    return lists if lists else flag if flag is not None else {}


def decode(body: bytes, kind: str) -> Manifest:
    """Decode a protobuf body. `kind` is the expected kind, for error messages. Raises ApiError 400."""
    try:
        return _decode(body)
    except (MalformedBody, UnicodeDecodeError, struct.error, RecursionError) as error:
        raise ApiError(
            400, "BadRequest", f"the object provided is unrecognized (must be of type {kind}): protobuf: {error}"
        ) from None


def _decode(body: bytes) -> Manifest:
    if body[:4] != _MAGIC:
        raise MalformedBody("the body does not begin with k8s\\x00")
    envelope: dict[int, Any] = dict(_wire(memoryview(body)[4:]))
    about = dict(_wire(_bytes(envelope.get(1, memoryview(b"")))))
    api_version = _text(about[1]) if 1 in about else ""
    kind = _text(about[2]) if 2 in about else ""
    message = "meta.v1.DeleteOptions" if kind == "DeleteOptions" else _tables().kinds.get(f"{api_version}/{kind}")
    if message is None:
        raise MalformedBody(f'no kind "{kind}" is registered for version "{api_version}"')
    if 4 in envelope and _text(envelope[4]) == "application/json":
        document = decode_json(bytes(_bytes(envelope.get(2, memoryview(b"{}")))))
        if not isinstance(document, dict):
            raise MalformedBody("expected an object")
    else:
        document = _message(message, _bytes(envelope.get(2, memoryview(b""))), 0)
    return {"kind": kind, "apiVersion": api_version, **document}
