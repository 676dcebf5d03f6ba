"""Log records as an OTLP/HTTP request, in the protocol's JSON encoding.

Source: opentelemetry-proto, opentelemetry/proto/logs/v1/logs.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cotenant.model.fleet.logs import ShownLine
from cotenant.model.json_object import JsonObject

EXPORT_PATH = "/v1/logs"


@dataclass(frozen=True, slots=True)
class ResourceLogs:
    """Lines of one container, and the attributes that name it."""

    attributes: Mapping[str, str]
    lines: Sequence[ShownLine]


def encode_logs(logs: Iterable[ResourceLogs], scope: str) -> bytes:
    """An ExportLogsServiceRequest."""
    return msgspec.json.encode(
        {
            "resourceLogs": [
                {
                    "resource": {"attributes": [_attribute(*pair) for pair in of_resource.attributes.items()]},
                    "scopeLogs": [
                        {"scope": {"name": scope}, "logRecords": [_record(line) for line in of_resource.lines]}
                    ],
                }
                for of_resource in logs
            ]
        }
    )


def _record(line: ShownLine) -> dict[str, object]:
    made: JsonObject = {
        "timeUnixNano": str(line.at_ns),
        "observedTimeUnixNano": str(line.at_ns),
        "body": {"stringValue": line.text},
        "attributes": [_attribute("log.iostream", line.stream)],
    }
    if line.cut:
        made["attributes"].append({"key": "cotenant.cut_characters", "value": {"intValue": str(line.cut)}})
    if line.trace_id:
        made["traceId"] = line.trace_id
    if line.span_id:
        made["spanId"] = line.span_id
    return made


def _attribute(key: str, value: str) -> dict[str, object]:
    return {"key": key, "value": {"stringValue": value}}
