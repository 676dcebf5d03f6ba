"""Records of runtimes, and the traces that lines name."""

from __future__ import annotations

import pytest

from cotenant.engine.logs.records import ContainerLogRecord, parse_record, unix_ns
from cotenant.engine.logs.trace_ids import trace_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
NEW_YEAR_NS = 1_767_225_600_000_000_000


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (
            b'{"log":"a \\"b\\"\\n","stream":"stderr","time":"2026-01-01T00:00:00.000000005Z"}',
            ContainerLogRecord(NEW_YEAR_NS + 5, "stderr", 'a "b"', False),
        ),
        (
            b'{"log":"half","stream":"stdout","time":"2026-01-01T00:00:00Z"}',
            ContainerLogRecord(NEW_YEAR_NS, "stdout", "half", True),
        ),
        (
            b"2026-01-01T01:00:00.5+01:00 stdout F a b",
            ContainerLogRecord(NEW_YEAR_NS + 500_000_000, "stdout", "a b", False),
        ),
        (b"2026-01-01T00:00:00.5Z stdout P:x ", ContainerLogRecord(NEW_YEAR_NS + 500_000_000, "stdout", "", True)),
        (b"2026-01-01T00:00:00Z stdout F \xff", ContainerLogRecord(NEW_YEAR_NS, "stdout", "\ufffd", False)),
        (b"2026-01-01T00:00:00Z console F text", None),
        (b"yesterday stdout F text", None),
        (b'{"log": 5}', None),
        (b"{", None),
        (b"", None),
    ],
)
def test_both_forms_are_read_and_others_refused(line: bytes, record: ContainerLogRecord | None) -> None:
    assert parse_record(line) == record


@pytest.mark.parametrize("text", ["2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00.1+1:00", "T"])
def test_what_is_no_time_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        unix_ns(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"traceparent: 00-{TRACE}-{SPAN}-01 done", (TRACE, SPAN)),
        (f'{{"msg":"x","trace_id":"{TRACE}","span_id":"{SPAN}"}}', (TRACE, SPAN)),
        (f'{{"traceId" : "{TRACE.upper()}"}}', (TRACE, "")),
        (f"level=info trace.id={TRACE} x", (TRACE, "")),
        (f'{{\\"otelTraceID\\":\\"{TRACE}\\"}}', (TRACE, "")),
        (f'"logging.googleapis.com/trace":"projects/p/traces/{TRACE}"', (TRACE, "")),
        (f"traceID=0x{SPAN}", ("0" * 16 + SPAN, "")),
        ("trace_id=" + "0" * 32, ("", "")),
        (f"00-{'0' * 32}-{SPAN}-01", ("", "")),
        (f"trace_id={TRACE}0", ("", "")),
        ("a trace of id=x", ("", "")),
        ("plain", ("", "")),
    ],
)
def test_the_trace_of_a_line(text: str, found: tuple[str, str]) -> None:
    assert trace_of(text) == found
