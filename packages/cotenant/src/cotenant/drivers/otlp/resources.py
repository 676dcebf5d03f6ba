"""OTLP resources and attributes as this package uses them.

A resource is repeated in every request of an exporter, and reading it costs more than a span. Sources are remembered by
the bytes of their resource. Attributes of a span are read only when they are asked for.
Limits: arrays, maps and bytes are shown as text, at most `_MAX_SHOWN` characters of each value; a large resource is
read anew each time.

Source: OpenTelemetry semantic conventions 1.27, resource (service, k8s, host).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from cotenant.model.traces.probability import read_randomness, read_threshold
from cotenant.model.traces.spans import UNKNOWN_SERVICE, SpanSource

DATABASE_KEYS = ("db.namespace", "db.name", "db.system.name", "db.system")
PEER_KEYS = ("peer.service", "server.address", "net.peer.name")
CODE_KEYS = ("http.response.status_code", "http.status_code")
FAILED_FROM = 500  # of an answer, where a proxy sets no status (linkerd)
_MAX_TEXT = 200  # characters of a name that become part of keys and labels
_MAX_SHOWN = 4096
_REMEMBERED, _REMEMBERED_BYTES = 4096, 8 << 10  # sources, and bytes of the resource of each
_KEPT_BYTES = 4 << 10  # of a resource, for kept spans that are sent on


def source_of(resource: bytes) -> SpanSource:
    """The source that a serialised Resource describes. Raises `DecodeError`."""
    return _remembered_source(resource) if len(resource) <= _REMEMBERED_BYTES else _source_of(resource)


@lru_cache(maxsize=_REMEMBERED)
def _remembered_source(resource: bytes) -> SpanSource:
    return _source_of(resource)


def _source_of(resource: bytes) -> SpanSource:
    found = tags_of(Resource.FromString(resource).attributes)
    return SpanSource(
        service=_first(found, "service.name") or UNKNOWN_SERVICE,
        namespace=_first(found, "service.namespace", "k8s.namespace.name"),
        pod=_first(found, "k8s.pod.name", "service.instance.id"),
        pod_uid=_first(found, "k8s.pod.uid"),
        host=_first(found, "k8s.node.name", "host.name", "host.id"),
        pod_namespace=_first(found, "k8s.namespace.name"),
        instance=_first(found, "service.instance.id"),
        resource=resource if len(resource) <= _KEPT_BYTES else b"",
    )


def span_tags(message: bytes) -> dict[str, str]:
    """The attributes of a serialised Span as text, and `status.message` where it has one; empty where they cannot
    be read.
    """
    try:
        span = Span.FromString(message)
    except DecodeError:
        return {}
    tags = tags_of(span.attributes)
    if span.status.message:
        tags["status.message"] = span.status.message
    return tags


def span_sampling(message: bytes) -> tuple[int | None, int | None]:
    """The random bits and the threshold in a serialised Span's tracestate; None for what it does not give."""
    if b"rv:" not in message and b"th:" not in message:
        return None, None
    try:
        tracestate = Span.FromString(message).trace_state
    except DecodeError:
        return None, None
    return read_randomness(tracestate), read_threshold(tracestate)


def tags_of(attributes: Iterable[KeyValue]) -> dict[str, str]:
    """Attributes as text; the last of a key counts."""
    return {attribute.key[:_MAX_SHOWN]: _text(attribute.value)[:_MAX_SHOWN] for attribute in attributes}


def peer_of(attributes: Iterable[KeyValue]) -> tuple[str, bool]:
    """What a CLIENT or PRODUCER span says that it calls, and whether that is a database; empty where it says
    nothing. Only strings count.
    """
    found = {attribute.key: attribute.value.string_value for attribute in attributes}
    for key in (*DATABASE_KEYS, *PEER_KEYS):
        if found.get(key):
            return found[key], key in DATABASE_KEYS
    return "", False


def answer_code(attributes: Iterable[KeyValue]) -> int:
    """The HTTP status of an answer, as a number or three digits; 0 where there is none."""
    return max((_code(attribute.value) for attribute in attributes if attribute.key in CODE_KEYS), default=0)


def _code(value: AnyValue) -> int:
    text = value.string_value
    number = int(text) if len(text) == 3 and text.isascii() and text.isdecimal() else value.int_value
    return number if 0 <= number < 1000 else 0


def _first(found: dict[str, str], *keys: str) -> str:
    return next((found[key][:_MAX_TEXT] for key in keys if found.get(key)), "")


def _text(value: AnyValue) -> str:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return "true" if value.bool_value else "false"
        case "int_value":
            return str(value.int_value)
        case "double_value":
            return repr(value.double_value)
        case "array_value":
            return f"[{', '.join(_text(entry) for entry in value.array_value.values)}]"
        case "kvlist_value":
            return f"{{{', '.join(f'{entry.key}: {_text(entry.value)}' for entry in value.kvlist_value.values)}}}"
        case "bytes_value":
            return value.bytes_value.hex()
        case _:
            return ""
