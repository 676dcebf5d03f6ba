"""The founding payload on the wire.

Agents in several languages send it; the answer to a bad one must name the field. One strict msgspec struct with the
founding document's names; the time is RFC 3339 text (what a Rust or Go agent writes) or a number of Unix seconds.
Unknown fields are ignored, so that a newer agent may send more.
Limits: JSON only, one node for each payload.
"""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from cotenant.model.cluster.report import NodeReport
from cotenant.model.errors import InvalidInput

MAX_BYTES = 64 * 1024
WHOLE = "report"  # the field in errors that concern no single field


class Payload(msgspec.Struct, frozen=True):
    """`POST /metrics/report`, as the founding document's agent sends it."""

    node_name: str
    cpu_allocatable: float
    cpu_used: float
    memory_allocatable: float
    memory_used: float
    timestamp: str | float
    tail_latency_p99: float = 0.0
    slo_violation_rate: float = 0.0
    dominant_share: float | None = None
    per_task_fairness: float = 1.0


_decoder = msgspec.json.Decoder(Payload)
_encoder = msgspec.json.Encoder()
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_WRONG = re.compile(r"Expected `(.+)`, got `(.+)` - at `\$\.(\w+)`")
_NANOSECONDS = re.compile(r"(\.\d{6})\d+")


def read(body: bytes) -> NodeReport:
    """A report from its JSON. `InvalidInput` names the field; the receiver has to refuse a body of more than
    `MAX_BYTES`.
    """
    try:
        payload = _decoder.decode(body)
    except msgspec.ValidationError as error:
        if missing := _MISSING.match(str(error)):
            raise InvalidInput(missing[1], "missing", "a value") from None
        if wrong := _WRONG.match(str(error)):
            raise InvalidInput(wrong[3], wrong[2], wrong[1]) from None
        raise InvalidInput(WHOLE, str(error), "the founding payload: one JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(WHOLE, str(error), "a JSON object") from None
    return NodeReport(
        node=payload.node_name,
        cpu_allocatable=payload.cpu_allocatable,
        cpu_used=payload.cpu_used,
        memory_allocatable=payload.memory_allocatable,
        memory_used=payload.memory_used,
        latency_p99_ms=payload.tail_latency_p99,
        violation=payload.slo_violation_rate,
        dominant_share=_dominant_share(payload),
        fairness=payload.per_task_fairness,
        at_s=_time(payload.timestamp),
    )


def write(report: NodeReport) -> bytes:
    """The JSON of a report, with every field and the time as Unix seconds."""
    return _encoder.encode(
        Payload(
            node_name=report.node,
            cpu_allocatable=report.cpu_allocatable,
            cpu_used=report.cpu_used,
            memory_allocatable=report.memory_allocatable,
            memory_used=report.memory_used,
            timestamp=report.at_s,
            tail_latency_p99=report.latency_p99_ms,
            slo_violation_rate=report.violation,
            dominant_share=report.dominant_share,
            per_task_fairness=report.fairness,
        )
    )


def _dominant_share(payload: Payload) -> float:
    if payload.dominant_share is not None:
        return payload.dominant_share
    if payload.cpu_allocatable <= 0 or payload.memory_allocatable <= 0:
        return 0.0  # the report is refused for that field
    return max(payload.cpu_used / payload.cpu_allocatable, payload.memory_used / payload.memory_allocatable)


def _time(value: str | float) -> float:
    if isinstance(value, float | int):
        return float(value)
    try:
        at = datetime.fromisoformat(_NANOSECONDS.sub(r"\1", value))
    except ValueError:
        raise InvalidInput("timestamp", value, "RFC 3339 text or Unix seconds") from None
    if at.tzinfo is None:
        raise InvalidInput("timestamp", value, "a time with its zone", "append Z for UTC")
    return at.timestamp()
