"""The trace that a line names: W3C traceparent, usual keys of JSON and logfmt, Google's trace path.

Source: W3C Trace Context, "traceparent Header"; OpenTelemetry, "Trace Context in non-OTLP Log Formats".
"""

from __future__ import annotations

import re

_MAX_SEARCHED = 64 << 10  # characters of a line
_PARENT = re.compile(r"(?<![0-9a-f])[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?![0-9a-f])")
_TRACE = re.compile(
    r"""trace[_.-]?id\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?(?:0x)?([0-9a-f]{32}|[0-9a-f]{16})(?![0-9a-f])""",
    re.IGNORECASE,
)
_SPAN = re.compile(
    r"""span[_.-]?id\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?(?:0x)?([0-9a-f]{16})(?![0-9a-f])""", re.IGNORECASE
)
_PATH = re.compile(r"/traces/([0-9a-f]{32})(?![0-9a-f])")


def trace_of(text: str) -> tuple[str, str]:
    """Trace id (32 digits) and span id (16), empty where the line names none. One of 64 bits is filled with zeros."""
    text = text[:_MAX_SEARCHED]
    if "race" not in text and "RACE" not in text and "-0" not in text:
        return "", ""
    parent = _PARENT.search(text)
    if parent is not None and _is_id(parent[1]) and _is_id(parent[2]):
        return parent[1], parent[2]
    found = _TRACE.search(text) or _PATH.search(text)
    if found is None or not _is_id(found[1]):
        return "", ""
    span = _SPAN.search(text)
    return found[1].lower().rjust(32, "0"), span[1].lower() if span is not None and _is_id(span[1]) else ""


def _is_id(digits: str) -> bool:
    return digits.strip("0") != ""
