"""A ring of lines, and pages that are read from it."""

from __future__ import annotations

import pytest

from cotenant.engine.logs.log_page import LogReading
from cotenant.engine.logs.ring import KeptLine, LogRing
from cotenant.model.fleet.logs import MAX_SHOWN, FileIdentity, LogCursor, LogPage, ReadLogs

FILE = FileIdentity(1, 1, "x")


def line(number: int, text: str = "") -> KeptLine:
    return KeptLine(number * 1_000_000_000, "stdout", text or f"line {number}", 0, FILE, number, 0, "", False)


def ring_of(lines: int, max_bytes: int = 1 << 20, max_age_s: float = 1e9) -> LogRing:
    ring = LogRing(max_bytes, max_age_s)
    for number in range(1, lines + 1):
        ring.append(line(number))
    return ring


def page(ring: LogRing, request: ReadLogs) -> LogPage:
    reading = LogReading(ring, "r", request, (lambda text: request.grep in text) if request.grep else None)
    while not reading.step():
        pass
    return reading.page(0)


def texts(found: LogPage) -> list[str]:
    return [shown.text for shown in found.lines]


def test_the_oldest_are_dropped_by_size_and_counted() -> None:
    ring = ring_of(1000, max_bytes=20_000)
    assert ring.size_bytes <= 20_000
    assert ring.dropped + len(ring) == 1000
    numbers = [number for number, _ in ring.after(0)]
    assert numbers == list(range(ring.dropped + 1, 1001))
    assert [number for number, _ in ring.after(998)] == [999, 1000]
    assert ring.missed(10) == ring.dropped - 10
    assert ring.missed(999) == 0


def test_the_oldest_are_dropped_by_age() -> None:
    ring = ring_of(100, max_age_s=10)
    ring.expire(100)
    assert (len(ring), ring.expired) == (11, 89)


def test_a_line_larger_than_the_ring_is_dropped_itself() -> None:
    ring = ring_of(0, max_bytes=1000)
    ring.append(line(1, "x" * 5000))
    assert (len(ring), ring.dropped, ring.size_bytes, ring.last) == (0, 1, 0, 1)


def test_pages_follow_one_another_and_say_what_was_missed() -> None:
    ring = ring_of(10)
    first = page(ring, ReadLogs("web", max_lines=4))
    assert (texts(first), first.is_end) == ([f"line {n}" for n in (1, 2, 3, 4)], False)
    second = page(ring, ReadLogs("web", cursor=first.cursor))
    assert (texts(second)[0], texts(second)[-1], second.is_end) == ("line 5", "line 10", True)
    assert texts(page(ring, ReadLogs("web", cursor=second.cursor))) == []
    small = ring_of(1000, max_bytes=20_000)
    assert page(small, ReadLogs("web", cursor=LogCursor("r", 5, 5))).missed == small.dropped - 5


def test_a_cursor_of_another_ring_goes_on_by_time() -> None:
    assert texts(page(ring_of(10), ReadLogs("web", cursor=LogCursor("old", 77, 8_000_000_000)))) == [
        "line 9",
        "line 10",
    ]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (ReadLogs("web", since_s=9), ["line 9", "line 10"]),
        (ReadLogs("web", grep="1"), ["line 1", "line 10"]),
        (ReadLogs("web", tail=2), ["line 9", "line 10"]),
        (ReadLogs("web", grep="1", tail=1), ["line 10"]),
        (ReadLogs("web", since_s=99), []),
    ],
)
def test_since_grep_and_tail(request_: ReadLogs, expected: list[str]) -> None:
    assert texts(page(ring_of(10), request_)) == expected


def test_long_lines_are_cut_and_pages_fit_into_messages() -> None:
    ring = ring_of(0, max_bytes=64 << 20)
    for number in range(1, 20):
        ring.append(line(number, "x" * (MAX_SHOWN + 7)))
    for request in (ReadLogs("web"), ReadLogs("web", tail=19)):
        found = page(ring, request)
        assert 1 <= len(found.lines) < 19
        assert sum(len(found_line.text) for found_line in found.lines) < 700 << 10
        assert found.lines[0].cut == 7
