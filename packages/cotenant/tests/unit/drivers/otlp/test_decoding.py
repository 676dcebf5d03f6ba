"""Requests into batches: the compiled walk equals the protobuf library, and whatever is sent gives a batch or
`InvalidInput`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from random import Random

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.fakes.servers.spans import Given, request_of

from cotenant.drivers.otlp import decoding, protobuf, wire_walk
from cotenant.drivers.otlp.decoding import (
    JSON_MAX_OBJECTS,
    LIBRARY_MAX_BYTES,
    MAX_BYTES,
    decode_json,
    decode_protobuf,
    gunzip,
)
from cotenant.drivers.otlp.resources import CODE_KEYS, span_tags
from cotenant.drivers.otlp.validity import MAX_NAME, MAX_PARTS
from cotenant.drivers.otlp.wire_fields import (
    MAX_RESOURCE_ATTRIBUTES,
    MAX_RESOURCE_BYTES,
    MAX_RESOURCES,
    MAX_SPANS,
    TooLarge,
    count,
)
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.spans import SpanBatch, SpanKind, SpanSource

KEYS = ("db.system", "db.namespace", "peer.service", "server.address", "http.method", "", "db.name", *CODE_KEYS)


def random_request(random: Random) -> bytes:
    """A valid request with whatever a sender may leave out or do unusually."""
    request = ExportTraceServiceRequest()
    for _ in range(random.randrange(4)):
        of_resource = request.resource_spans.add()
        for _ in range(random.randrange(3)):
            key = random.choice(("service.name", "service.namespace", "host.name", "x"))
            of_resource.resource.attributes.add(key=key).value.string_value = random.choice(("a", "", "ü"))
        for _ in range(random.randrange(3)):
            scope = of_resource.scope_spans.add()
            for _ in range(random.randrange(6)):
                span = scope.spans.add(kind=random.randrange(-1, 9))
                span.trace_id = random.randbytes(random.choice((16, 16, 16, 0, 15, 17)))
                span.span_id = random.choice((random.randbytes(8), bytes(8), b"", b"x" * 9))
                span.parent_span_id = random.choice((b"", random.randbytes(8), bytes(8), b"x"))
                span.name = random.choice(("GET /", "", "a" * 200, "täglich", f"op {random.randrange(5)}"))
                span.start_time_unix_nano = random.choice((random.randrange(10**18, 2 * 10**18), 0, 2**64 - 1))
                span.end_time_unix_nano = random.choice((span.start_time_unix_nano, 2 * 10**18, 2**63, 1))
                if random.random() < 0.5:
                    span.status.code = random.randrange(4)
                    span.status.message = "m"
                for _ in range(random.randrange(5)):
                    attribute = span.attributes.add(key=random.choice(KEYS))
                    match random.randrange(5):
                        case 0:
                            attribute.value.string_value = random.choice(("redis", "", "cart", "503", "499", "5o3"))
                        case 1:
                            attribute.value.int_value = random.choice((random.randrange(-5, 5), 499, 500, 1000))
                        case 2:
                            attribute.value.array_value.values.add().bool_value = True
                        case 3:
                            attribute.value.double_value = 0.5
                if random.random() < 0.2:
                    span.links.add(trace_id=b"t" * 16)
                    span.events.add(name="e").attributes.add(key="db.system").value.string_value = "no"
    return request.SerializeToString()


def rows(batch: SpanBatch) -> list[tuple[object, ...]]:
    """What a batch says, without the numbering of names and the layout of its body."""
    columns = batch.columns
    return [
        (
            *(int(column[row]) for column in columns[:8]),
            batch.names[columns.name[row]],
            batch.sources[columns.source[row]],
            batch.names[columns.peer[row]] if columns.peer[row] >= 0 else "",
            bool(columns.to_database[row]),
            span_tags(batch.body[columns.offset[row] : columns.offset[row] + columns.length[row]]),
        )
        for row in range(len(batch))
    ]


def outcome(body: bytes) -> object:
    """The library's rows, or that it refuses."""
    try:
        batch = protobuf.decode(body)
    except InvalidInput:
        return None
    return rows(batch), batch.rejected, batch.problem


def walked(body: bytes) -> object:
    """The walk's rows; "left" where it leaves the body to the library."""
    try:
        batch = wire_walk.walk(body)
    except DecodeError:
        return None
    return "left" if batch is None else (rows(batch), batch.rejected, batch.problem)


def test_the_walk_equals_the_library_on_valid_requests() -> None:
    random = Random(1)
    for _ in range(400):
        body = random_request(random)
        assert walked(body) == outcome(body)


@pytest.mark.parametrize("reader", [wire_walk.walk, protobuf.decode])
def test_an_answer_of_5xx_without_a_status_is_a_failure(reader: Callable[[bytes], SpanBatch]) -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    cases: list[tuple[int, str, str | int, int, bool]] = [
        (SpanKind.SERVER, "http.response.status_code", "503", 0, True),  # as linkerd says it
        (SpanKind.SERVER, "http.response.status_code", 500, 0, True),
        (SpanKind.CLIENT, "http.status_code", "502", 0, True),
        (SpanKind.SERVER, "http.response.status_code", "404", 0, False),
        (SpanKind.SERVER, "http.response.status_code", "503", 1, False),  # the service says that it is well
        (SpanKind.SERVER, "http.response.status_code", "200", 2, True),
        (SpanKind.INTERNAL, "http.response.status_code", "503", 0, False),
        (SpanKind.SERVER, "http.response.body.size1", "503", 0, False),
        (SpanKind.SERVER, "http.response.status_code", "5030", 0, False),
    ]
    for kind, key, value, status, _ in cases:
        span = spans.add(kind=int(kind), trace_id=b"t" * 16, span_id=b"s" * 8, name="GET")
        span.start_time_unix_nano, span.end_time_unix_nano, span.status.code = 1, 2, status
        if not status:
            span.ClearField("status")
        span.attributes.add(key="http.request.method").value.string_value = "GET"
        said = span.attributes.add(key=key).value
        if isinstance(value, str):
            said.string_value = value
        else:
            said.int_value = value
    assert reader(request.SerializeToString()).columns.failed.tolist() == [failed for *_, failed in cases]


def test_the_walk_accepts_nothing_else_where_the_library_accepts_a_damaged_request() -> None:
    random, compared = Random(2), 0
    for _ in range(1500):
        body = bytearray(random_request(random))
        for _ in range(random.randrange(1, 4)):
            if body:
                body[random.randrange(len(body))] = random.randrange(256)
        expected, found = outcome(bytes(body)), walked(bytes(body))
        if expected is not None and found != "left":
            assert found == expected
            compared += 1
    assert compared > 100


def test_a_request_cut_at_any_byte_is_answered() -> None:
    body = request_of([Given(1, name="x" * 300, tags={"db.system": "redis"}), Given(2, 1, tags={"n": 3})] * 8)
    for size in range(len(body)):
        with suppress(InvalidInput):
            decode_protobuf(body[:size])


@pytest.mark.parametrize("spans", [1, 40])
def test_both_readers_are_used_by_size(spans: int, monkeypatch: pytest.MonkeyPatch) -> None:
    body = request_of([Given(number + 1, tags={"a": "b" * 60}) for number in range(spans)])
    calls: list[str] = []
    monkeypatch.setattr(decoding.protobuf, "decode", lambda body: calls.append("library"))
    decode_protobuf(body)
    assert calls == (["library"] if spans == 1 else [])


def test_a_batch_has_what_was_sent() -> None:
    given = Given(2, 1, "GET /", SpanKind.SERVER, 5, 7, "cart", "shop", "n1", trace=0xABC, failed=True)
    batch = decode_protobuf(request_of([given]))
    assert batch.sources == (SpanSource("cart", "shop", host="n1"),)
    assert (batch.names, int(batch.columns.trace_low[0]), int(batch.columns.parent_id[0])) == (("GET /",), 0xABC, 1)
    assert int(batch.columns.end_ns[0] - batch.columns.start_ns[0]) == 2 * 10**6
    assert batch.columns.failed[0]


def test_a_bad_span_costs_only_itself() -> None:
    body = request_of([Given(1), Given(0), Given(2, trace=0), Given(3, start_ms=9, end_ms=8), Given(4)] * 9)
    batch = decode_protobuf(body)
    assert (len(batch), batch.rejected) == (18, 27)
    assert batch.problem.split("; ") == [
        "9 of 45 spans: trace_id: expected 16 bytes, not all 0",
        "9 of 45 spans: span_id: expected 8 bytes, not all 0",
        "9 of 45 spans: end_time_unix_nano: expected a time after 1970 and not before start_time_unix_nano",
    ]


def json_request(**span: object) -> bytes:
    fields = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "EEE19B7EC3C1B174",
        "name": "I",
        "kind": 2,
        "startTimeUnixNano": "1800000000000000000",
        "endTimeUnixNano": 1800000000001000000,
        "unknownField": {"x": 1},
    }
    spans = {"scopeSpans": [{"spans": [{**fields, **span}]}]}
    return json.dumps({"resourceSpans": [spans]}).encode()


def test_json_has_hexadecimal_ids_and_numbers_as_text() -> None:
    batch = decode_json(json_request(parentSpanId="eee19b7ec3c1b173"))
    assert (len(batch), batch.rejected) == (1, 0)
    assert f"{int(batch.columns.trace_high[0]):016x}" == "5b8efff798038103"
    assert f"{int(batch.columns.span_id[0]):016x}" == "eee19b7ec3c1b174"
    assert int(batch.columns.parent_id[0]) == 0xEEE19B7EC3C1B173


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "truncated"),
        (b"3", "the document: expected an object"),
        (b'{"resourceSpans":[3]}', "resourceSpans[0]: expected an object"),
        (b'{"resourceSpans":{"x": 1}}', "resourceSpans: expected a list"),
        (b'{"resourceSpans":[{"scopeSpans":3}]}', "scopeSpans: expected a list"),
        (json_request(traceId="xyz"), "traceId: expected hexadecimal digits"),
        (json_request(traceId=5), "traceId: expected hexadecimal digits"),
        (json_request(startTimeUnixNano="later"), "startTimeUnixNano"),
        (b"[" * 100_000, ""),
        (b"\xff\xfe", ""),
    ],
)
def test_json_that_cannot_be_read_is_refused_with_the_place(body: bytes, reason: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        decode_json(body)
    assert reason in str(raised.value)
    assert "an ExportTraceServiceRequest in JSON" in str(raised.value)


def test_ids_of_wrong_length_in_json_reject_the_span() -> None:
    assert decode_json(json_request(traceId="00")).rejected == 1


def test_gzip_is_bounded_after_decompression() -> None:
    assert gunzip(gzip.compress(b"abc", mtime=0)) == b"abc"
    with pytest.raises(TooLarge, match="bytes after decompression: expected at most 20971520"):
        gunzip(gzip.compress(bytes(MAX_BYTES + 1)))


@pytest.mark.parametrize(
    "body", [b"", b"abc", gzip.compress(b"abc", mtime=0)[:-3], gzip.compress(b"abc", mtime=0) + b"x"]
)
def test_a_broken_gzip_stream_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="gzip"):
        gunzip(body)


def test_names_are_numbered_by_their_text_and_not_by_their_hash() -> None:
    body = request_of([Given(number + 1, name=f"operation {number % 50}") for number in range(300)])
    batch = decode_protobuf(body)
    assert sorted(batch.names) == sorted({f"operation {number}" for number in range(50)})
    names = [batch.names[index] for index in batch.columns.name]
    assert names == [f"operation {number % 50}" for number in range(300)]
    assert batch.columns.name.dtype == np.int32


def message(number: int, body: bytes) -> bytes:
    """A field of length-delimited bytes."""
    size, length = len(body), b""
    while size > 127:
        size, length = size >> 7, length + bytes([size & 127 | 128])
    return bytes([number << 3 | 2]) + length + bytes([size]) + body


MANY = 10_000_000
EMPTY = {  # two bytes each: what ten million of them would become
    "resources": (b"\x0a\x00" * MANY, MAX_RESOURCES),
    "spans": (message(1, message(2, b"\x12\x00" * MANY)), MAX_SPANS),
    "attributes of resources": (message(1, message(1, b"\x0a\x00" * MANY)), MAX_RESOURCE_ATTRIBUTES),
    "bytes of a resource": (message(1, message(1, message(1, bytes(MAX_RESOURCE_BYTES)))), MAX_RESOURCE_BYTES),
}


@pytest.mark.parametrize("what", EMPTY)
@pytest.mark.parametrize("end", [b"", b"\x0a\xff", b"\x0b\x0c"], ids=["whole", "malformed", "with a group"])
def test_messages_are_counted_before_anything_is_made_of_them(
    what: str, end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, most = EMPTY[what]
    made: list[object] = []
    for module, name in ((protobuf, "decode"), (wire_walk, "columns_of"), (wire_walk, "source_of")):
        monkeypatch.setattr(module, name, made.append)
    with pytest.raises(TooLarge, match=f"{what}: expected at most {most}; send smaller batches"):
        decode_protobuf(body + end)
    assert made == []


def test_a_body_that_only_the_library_reads_is_bounded() -> None:
    odd = b"\x0b\x0c" + b"\x0a\x00" * 10
    assert len(decode_protobuf(odd)) == 0
    with pytest.raises(InvalidInput, match="also without groups and resources in parts"):
        decode_protobuf(odd + message(3, bytes(LIBRARY_MAX_BYTES)))


def test_counting_stops_at_the_first_bound() -> None:
    assert count(np.frombuffer(b"\x0a\x00" * MANY, np.uint8)).resources == MAX_RESOURCES + 1


@pytest.mark.parametrize("reader", [protobuf.decode, wire_walk.walk])
def test_a_span_with_too_many_parts_is_rejected_and_the_others_are_not(reader: Callable[[bytes], SpanBatch]) -> None:
    given = [Given(1, tags={str(number): number for number in range(MAX_PARTS + 1)}), Given(2, tags={"a": 1})]
    batch = reader(request_of(given))
    assert (len(batch), batch.rejected) == (1, 1)
    assert batch.problem == f"1 of 2 spans: attributes, events, links: expected at most {MAX_PARTS} of each"


@pytest.mark.parametrize("reader", [protobuf.decode, wire_walk.walk])
def test_names_are_cut(reader: Callable[[bytes], SpanBatch]) -> None:
    batch = reader(request_of([Given(1, name="ü" * 500_000)]))
    assert batch.names == ("ü" * MAX_NAME,)


def test_names_that_are_made_to_meet_cost_no_more_than_others() -> None:
    """Names whose FNV hashes end alike, found by trying; every one is looked for in a bounded number of places."""
    spans, mask, wanted = 300, 2047, []
    number = 0
    while len(wanted) < spans:
        hashed = 0xCBF29CE484222325
        for byte in b"%d" % number:
            hashed = (hashed ^ byte) * 0x100000001B3 & (1 << 64) - 1
        if hashed & mask < 4:
            wanted.append(str(number))
        number += 1
    batch = wire_walk.walk(request_of([Given(index + 1, name=name) for index, name in enumerate(wanted)]))
    assert batch is not None
    assert [batch.names[entry] for entry in batch.columns.name] == wanted


def test_objects_of_json_are_counted_before_they_are_made() -> None:
    body = b'{"resourceSpans":[' + b",".join([b"{}"] * JSON_MAX_OBJECTS) + b"]}"
    with pytest.raises(TooLarge, match=f"{JSON_MAX_OBJECTS + 2} objects and lists"):
        decode_json(body)


def test_parts_of_a_batch_have_their_own_bytes() -> None:
    batch = decode_protobuf(
        request_of([Given(number + 1, name=str(number), tags={"n": number}) for number in range(50)])
    )
    parts = list(batch.parts(8))
    assert [len(span_batch) for span_batch in parts] == [8] * 6 + [2]
    assert [row for span_batch in parts for row in rows(span_batch)] == rows(batch)
    assert sum(len(span_batch.body) for span_batch in parts) <= len(batch.body)
