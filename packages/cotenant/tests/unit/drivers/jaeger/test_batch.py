"""Datagrams of Jaeger clients as OTLP requests: what an exporter sent, what the protocol allows, and garbage."""

from __future__ import annotations

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from tests.fakes.servers.jaeger_datagrams import CLIENT_SPAN, SERVER_SPAN, field, i64, message, text, varint

from cotenant.drivers.jaeger.batch import MAX_SPANS, request_of
from cotenant.drivers.jaeger.thrift_compact import MAX_DEPTH, MAX_VALUES, read_message
from cotenant.model.errors import InvalidInput


def spans_of(datagram: bytes) -> tuple[dict[str, str], list[Span]]:
    request = ExportTraceServiceRequest.FromString(request_of(datagram))
    (of_resource,) = request.resource_spans
    process = {attribute.key: attribute.value.string_value for attribute in of_resource.resource.attributes}
    return process, [span for scope in of_resource.scope_spans for span in scope.spans]


def test_an_exporters_spans_have_their_parent_kind_status_and_tags() -> None:
    (process, (root,)), (_, (child,)) = spans_of(SERVER_SPAN), spans_of(CLIENT_SPAN)
    assert process == {"service.name": "shop"}
    assert (root.name, root.kind, root.parent_span_id) == ("GET /cart", Span.SPAN_KIND_SERVER, b"")
    assert (child.name, child.kind, child.parent_span_id) == ("call", Span.SPAN_KIND_CLIENT, root.span_id)
    assert child.trace_id == root.trace_id
    assert (root.status.code, child.status.code) == (Status.STATUS_CODE_UNSET, Status.STATUS_CODE_ERROR)
    assert root.end_time_unix_nano - root.start_time_unix_nano == 421_000
    tags = {attribute.key: attribute.value for attribute in root.attributes}
    assert tags["a"].string_value == "b"
    assert tags["n"].int_value == 5
    assert tags["f"].double_value == 1.5
    assert tags["ok"].bool_value is True


def test_a_parent_may_be_a_reference_and_a_process_names_its_host() -> None:
    reference = field(5, i64(0)) + field(6, i64(7)) + field(6, i64(-9)) + field(6, i64(3)) + b"\x00"
    span = (
        *(field(6, i64(7)), field(6, i64(-9)), field(6, i64(4)), field(6, i64(0)), field(8, text(b"work"))),
        *(field(9, b"\x1c" + reference), field(5, i64(1)), field(6, i64(1_000_000)), field(6, i64(-5)), b"\x00"),
    )
    tag = field(8, text(b"hostname")) + field(5, i64(0)) + field(8, text(b"h1")) + b"\x00"
    process = field(8, text(b"cart")) + field(9, b"\x1c" + tag) + b"\x00"
    found, (only,) = spans_of(message(field(12, process) + field(9, b"\x1c" + b"".join(span)) + b"\x00"))
    assert found == {"service.name": "cart", "host.name": "h1"}
    assert only.trace_id == (2**64 - 9).to_bytes(8, "big") + (7).to_bytes(8, "big")
    assert only.parent_span_id == (3).to_bytes(8, "big")
    assert only.kind == Span.SPAN_KIND_INTERNAL
    assert only.start_time_unix_nano == only.end_time_unix_nano == 1_000_000_000  # a negative duration is none


@pytest.mark.parametrize(
    ("datagram", "says"),
    [
        (b"", "at least 1"),
        (b"\x80\x01\x00\x01", "compact protocol"),  # the binary protocol, port 6832
        (b"\x82\x82\x00", "version 1"),
        (message(b"\x00", b"emitZipkinBatch"), "emitZipkinBatch"),
        (SERVER_SPAN[:-40], "at least"),
        (message(field(9, b"\xfc" + varint(10**12))), "at most the"),
        (message(field(8, varint(2**60))), "at least"),
        (message(field(13, b"\x00")), "type 13"),
        (message(field(12, b"") * (MAX_DEPTH + 2)), "deep"),
        (message(field(9, b"\x19") * 3000), "deep"),
        (message(field(11, b"\x05\xbb")), "at most the"),
        (b"\x82\x81" + b"\xff" * 12, "ten bytes"),
    ],
)
def test_what_is_no_batch_is_refused(datagram: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        request_of(datagram)


def test_maps_and_unknown_fields_are_skipped() -> None:
    a_map = b"\x01\x88" + text(b"k") + text(b"v")
    name, fields = read_message(
        message(field(11, a_map) + field(1, b"") + field(2, b"") + field(3, b"\xff") + field(7, b"\x00" * 8) + b"\x00")
    )
    assert (name, fields[1]) == ("emitBatch", {1: {}, 2: True, 3: False, 4: -1, 5: 0.0})


@pytest.mark.parametrize(
    ("spans", "problem"),
    [(MAX_SPANS + 1, f"at most {MAX_SPANS} in a datagram"), (MAX_VALUES + 1, f"at most {MAX_VALUES} values")],
)
def test_a_datagram_of_empty_spans_is_refused(spans: int, problem: str) -> None:
    empty = b"\xfc" + varint(spans) + bytes(spans)
    with pytest.raises(InvalidInput, match=problem):
        request_of(message(field(12, b"\x00") + field(9, empty) + b"\x00"))
