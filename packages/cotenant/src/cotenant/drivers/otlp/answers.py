"""The answers of an OTLP receiver, in protobuf and in JSON.

An exporter decides by the answer whether to send again. 200 with `partial_success` where spans were rejected, and a
`google.rpc.Status` where the whole request failed; the answer has the encoding of the request.
Limits: no error details beside the message.

Source: opentelemetry-proto, docs/specification.md, "OTLP/HTTP Response"; google/rpc/status.proto.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

PROTOBUF, JSON = "application/x-protobuf", "application/json"


class Code(IntEnum):
    """Codes of google.rpc that a receiver answers with."""

    INVALID_ARGUMENT = 3
    RESOURCE_EXHAUSTED = 8
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


def success(rejected: int, problem: str, content_type: str = PROTOBUF) -> bytes:
    """An ExportTraceServiceResponse. `rejected` 0 with a problem is a warning."""
    if content_type == JSON:
        partial = {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": problem}} if problem else {}
        return msgspec.json.encode(partial)
    answer = ExportTraceServiceResponse()
    if problem:
        answer.partial_success.rejected_spans = rejected
        answer.partial_success.error_message = problem
    return answer.SerializeToString()


def success_of_metrics(rejected: int, problem: str, content_type: str = PROTOBUF) -> bytes:
    """An ExportMetricsServiceResponse. `rejected` 0 with a problem is a warning."""
    if content_type == JSON:
        partial = {"partialSuccess": {"rejectedDataPoints": str(rejected), "errorMessage": problem}} if problem else {}
        return msgspec.json.encode(partial)
    return success(rejected, problem)  # the same numbers of fields


def failure(code: Code, message: str, content_type: str = PROTOBUF) -> bytes:
    """A google.rpc.Status."""
    if content_type == JSON:
        return msgspec.json.encode({"code": int(code), "message": message})
    text = message.encode()
    return b"\x08" + bytes([code]) + b"\x12" + _varint(len(text)) + text  # field 1: code, field 2: message


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])
