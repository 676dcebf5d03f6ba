"""A Jaeger client's batch as an OTLP request.

Jaeger's spans name kind and failure by tags, and the process by another struct; everything here reads OTLP. The batch
becomes an ExportTraceServiceRequest by OpenTelemetry's rules, so that counting, assembly and limits are the same for
both.
Limits: logs, references other than the parent and the sampling flags are left out; a span without a trace id is left to
OTLP's checks.

Source: jaegertracing/jaeger-idl, thrift/jaeger.thrift and agent.thrift; OpenTelemetry specification, compatibility with
Jaeger: "span.kind", "error", "otel.status_code".
"""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from cotenant.drivers.jaeger.thrift_compact import Struct, Value, read_message
from cotenant.model.errors import InvalidInput

METHOD = "emitBatch"
_KINDS = {
    "server": Span.SPAN_KIND_SERVER,
    "client": Span.SPAN_KIND_CLIENT,
    "producer": Span.SPAN_KIND_PRODUCER,
    "consumer": Span.SPAN_KIND_CONSUMER,
}
_PROCESS_KEYS = {"hostname": "host.name"}  # of Jaeger's clients
MAX_SPANS = 2_000  # of a datagram
_CHILD_OF = 0
_MASK = (1 << 64) - 1
_MAX_US = (1 << 63) // 1000
# Tag.vType, and the field with the value
_STRING, _DOUBLE, _BOOL, _LONG, _BINARY = range(5)
_VALUE_FIELD = {_STRING: 3, _DOUBLE: 4, _BOOL: 5, _LONG: 6, _BINARY: 7}


def request_of(datagram: bytes) -> bytes:
    """The serialised ExportTraceServiceRequest. Raises `InvalidInput`."""
    name, arguments = read_message(datagram)
    if name != METHOD:
        raise InvalidInput("Jaeger message", name[:64], METHOD)
    batch = _struct(arguments.get(1))
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    process = _struct(batch.get(1))
    service = _text(process.get(1))
    if service:
        of_resource.resource.attributes.add(key="service.name").value.string_value = service
    _put_tags(of_resource.resource.attributes, _structs(process.get(2)), _PROCESS_KEYS)
    spans = of_resource.scope_spans.add().spans
    given_spans = _structs(batch.get(2))
    if len(given_spans) > MAX_SPANS:
        raise InvalidInput("Jaeger batch", f"{len(given_spans)} spans", f"at most {MAX_SPANS} in a datagram")
    for given in given_spans:
        _put_span(spans.add(), given)
    return request.SerializeToString()


def _put_span(span: Span, given: Struct) -> None:
    low, high = _number(given.get(1)), _number(given.get(2))
    span.trace_id = _id(high) + _id(low)
    span.span_id = _id(_number(given.get(3)))
    parent = _number(given.get(4)) or next(
        (
            _number(struct.get(4))
            for struct in _structs(given.get(6))
            if _number(struct.get(1)) == _CHILD_OF and (_number(struct.get(2)), _number(struct.get(3))) == (low, high)
        ),
        0,
    )
    span.parent_span_id = _id(parent) if parent else b""
    span.name = _text(given.get(5))
    start_us = min(max(0, _number(given.get(8))), _MAX_US)
    span.start_time_unix_nano = start_us * 1000
    span.end_time_unix_nano = (start_us + min(max(0, _number(given.get(9))), _MAX_US)) * 1000
    tags = _structs(given.get(10))
    _put_tags(span.attributes, tags, {})
    span.kind = _KINDS.get(_tag(tags, "span.kind"), Span.SPAN_KIND_INTERNAL)
    if _tag(tags, "otel.status_code") == "ERROR" or _tag(tags, "error") == "true":
        span.status.code = Status.STATUS_CODE_ERROR


def _put_tags(
    attributes: RepeatedCompositeFieldContainer[KeyValue], tags: Iterable[Struct], renamed: dict[str, str]
) -> None:
    for tag in tags:
        key, value = _text(tag.get(1)), _tag_value(tag)
        if not key or value is None:
            continue
        attribute = attributes.add(key=renamed.get(key, key))
        if isinstance(value, bool):
            attribute.value.bool_value = value
        elif isinstance(value, int):
            attribute.value.int_value = value
        elif isinstance(value, float):
            attribute.value.double_value = value
        elif isinstance(value, bytes):
            if _number(tag.get(2)) == _BINARY:
                attribute.value.bytes_value = value
            else:
                attribute.value.string_value = _text(value)


def _tag(tags: Iterable[Struct], key: str) -> str:
    """A tag as text; booleans are "true" and "false"."""
    value = next((_tag_value(tag) for tag in tags if _text(tag.get(1)) == key), None)
    if isinstance(value, bool):
        return str(value).lower()
    return _text(value) if isinstance(value, bytes) else ""


def _tag_value(tag: Struct) -> Value | None:
    return tag.get(_VALUE_FIELD.get(_number(tag.get(2)), 3))


def _struct(value: Value | None) -> Struct:
    return value if isinstance(value, dict) else {}


def _structs(value: Value | None) -> list[Struct]:
    return [flag for flag in value if isinstance(flag, dict)] if isinstance(value, list) else []


def _number(value: Value | None) -> int:
    return value if isinstance(value, int) else 0


def _text(value: Value | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _id(number: int) -> bytes:
    return (number & _MASK).to_bytes(8, "big")
