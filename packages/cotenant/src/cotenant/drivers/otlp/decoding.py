"""A body as it arrived into a span batch: gzip, protobuf or JSON, and the better decoder for its size.

Small requests are faster with the protobuf library and large ones with the compiled walk, and exporters use both
encodings. The walk from `WALK_FROM_BYTES` on; JSON is turned into protobuf first, so that there is one reader.
Limits: JSON costs some 30 us a span; what a body may become is bounded before anything is made of it
(`wire_fields.py`).

Source: opentelemetry-proto, docs/specification.md, "OTLP/HTTP" and "JSON Protobuf Encoding".
"""

from __future__ import annotations

import base64
import zlib

import msgspec
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from cotenant.drivers.otlp import protobuf, wire_walk
from cotenant.drivers.otlp.wire_fields import TooLarge
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject
from cotenant.model.traces.spans import SpanBatch

MAX_BYTES = 20 << 20  # of a body, compressed or not; the protocol's recommendation
WALK_FROM_BYTES = 3000  # about 8 spans
LIBRARY_MAX_BYTES = 64 << 10  # of a body that the walk leaves to the library, which makes an object of every two bytes
JSON_MAX_OBJECTS = 200_000  # objects and lists of a body in JSON; a span with ten attributes has 23
_GZIP = 31  # window bits: 15, and 16 for gzip's header
_IDS = ("traceId", "spanId", "parentSpanId")


def decode_protobuf(body: bytes) -> SpanBatch:
    """Raises `InvalidInput`."""
    if len(body) >= WALK_FROM_BYTES:
        try:
            if (batch := wire_walk.walk(body)) is not None:
                return batch
        except DecodeError:
            pass  # the library refuses it with its own reason
        if len(body) > LIBRARY_MAX_BYTES:
            hint = f"above {LIBRARY_MAX_BYTES} bytes also without groups and resources in parts"
            raise InvalidInput("body", body[:40], "an ExportTraceServiceRequest in protobuf", hint)
    return protobuf.decode(body)


def decode_json(body: bytes) -> SpanBatch:
    """Raises `InvalidInput`. Ids are hexadecimal, unknown fields are ignored."""
    objects = body.count(b"{") + body.count(b"[")
    if objects > JSON_MAX_OBJECTS:
        raise TooLarge("objects and lists", objects, JSON_MAX_OBJECTS)
    try:
        document = msgspec.json.decode(body)
        request = ParseDict(_ids_as_base64(document), ExportTraceServiceRequest(), ignore_unknown_fields=True)
    except (msgspec.DecodeError, ParseError, ValueError, RecursionError) as error:
        raise InvalidInput("body", body[:40], "an ExportTraceServiceRequest in JSON", str(error)[:200]) from None
    return decode_protobuf(request.SerializeToString())


def gunzip(body: bytes) -> bytes:
    """Raises `InvalidInput`, and `TooLarge` without decompressing more than the limit."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        found = unpacker.decompress(body, MAX_BYTES + 1)
    except zlib.error as error:
        raise InvalidInput("body", body[:20], "gzip", str(error)) from None
    if len(found) > MAX_BYTES:
        raise TooLarge("bytes after decompression", len(found), MAX_BYTES)
    if not unpacker.eof or unpacker.unused_data:
        raise InvalidInput("body", body[:20], "one whole gzip stream")
    return found


def _ids_as_base64(document: object) -> dict[str, object]:
    """The document with ids as protobuf's JSON has bytes: in base64 instead of hexadecimal. Raises `ValueError`."""
    top = _object(document, "the document")
    for of_resource in _objects(top, "resourceSpans"):
        for scope in _objects(of_resource, "scopeSpans"):
            for span in _objects(scope, "spans"):
                for entry in (span, *_objects(span, "links")):
                    for key in _IDS:
                        if entry.get(key):
                            entry[key] = base64.b64encode(_hexadecimal(key, entry[key])).decode()
    return top


def _objects(parent: JsonObject, key: str) -> list[JsonObject]:
    found = parent.get(key) or []
    if not isinstance(found, list):
        raise ValueError(f"{key}: expected a list")
    return [_object(entry, f"{key}[{index}]") for index, entry in enumerate(found)]


def _object(value: object, field: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{field}: expected an object")
    return value


def _hexadecimal(key: str, value: object) -> bytes:
    if isinstance(value, str):
        try:
            return bytes.fromhex(value)
        except ValueError:
            pass
    raise ValueError(f"{key}: expected hexadecimal digits")
