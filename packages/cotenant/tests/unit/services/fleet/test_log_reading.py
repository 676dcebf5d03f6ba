"""How pages of a log are asked for, one after another, and what is printed of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.fleet.logs import LogCursor, LogPage, ReadLogs, ShownLine
from cotenant.model.fleet.refusal import NobodyAnswers
from cotenant.services.fleet import log_reading
from cotenant.services.fleet.log_reading import LogOptions, show_logs
from cotenant.services.fleet.places import BusOptions

AT_NS = 1_767_225_600_007_900_000  # 2026-01-01T00:00:00.0079Z


class Bus:
    """Answers each request with the next page, or raises it."""

    def __init__(self, *answers: LogPage | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[ReadLogs, float]] = []

    async def __aenter__(self) -> tuple[Bus, str]:
        return self, "ada"

    async def __aexit__(self, *_: object) -> None:
        pass

    async def call(self, bus: object, subject: str, request: ReadLogs, form: type, deadline_s: float) -> LogPage:
        assert (bus, subject, form) == (self, "fleet.ada.rpc.logs", LogPage)
        self.asked.append((request, deadline_s))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def line(text: str, cut: int = 0) -> ShownLine:
    return ShownLine(AT_NS, "stdout", text, cut=cut)


def at(number: int) -> LogCursor | None:
    return LogCursor("r", number, 0) if number else None


def page(*texts: str, cursor: int = 0, is_end: bool = False, **more: Any) -> LogPage:
    return LogPage(tuple(map(line, texts)), at(cursor), is_end, **more)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def show(bus: Bus, options: LogOptions = LogOptions()) -> tuple[list[str], list[str]]:  # noqa: B008
        monkeypatch.setattr(log_reading, "connected", lambda _: bus)
        monkeypatch.setattr(log_reading, "call", bus.call)
        monkeypatch.setattr(log_reading, "_AGAIN_S", 0.0)
        assert show_logs(BusOptions(), "web", options) == 0
        found = capsys.readouterr()
        return found.out.splitlines(), found.err.splitlines()

    return show


def test_pages_are_asked_for_until_the_last(shown: Any) -> None:
    bus = Bus(page("a", "b", cursor=1), page("c", cursor=2, is_end=True))
    assert shown(bus, LogOptions(grep="x", tail=3)) == (["a", "b", "c"], [])
    first = ReadLogs("web", None, grep="x", tail=3)
    assert bus.asked == [(first, 20.0), (replace(first, cursor=at(1), wait_s=0.0), 20.0)]


def test_a_log_that_is_followed_is_waited_for_at_its_end_only(shown: Any) -> None:
    bus = Bus(page("a", cursor=1), page("b", cursor=2, is_end=True), page("c", cursor=3), InvalidInput("a", "b", "c"))
    with pytest.raises(InvalidInput):
        shown(bus, LogOptions(follow=True))
    assert [(request.cursor, request.wait_s, within_s) for request, within_s in bus.asked] == [
        (None, 0.0, 20.0),
        (at(1), 0.0, 20.0),
        (at(2), 5.0, 25.0),
        (at(3), 0.0, 20.0),
    ]


def test_who_is_away_is_asked_again_while_a_log_is_read_and_not_before(shown: Any) -> None:
    away = (NobodyAnswers("nobody"), Transient("no bus"))
    bus = Bus(page("a", cursor=1), *away, page("b", is_end=True))
    assert shown(bus)[0] == ["a", "b"]
    assert len(bus.asked) == 4
    for error in away:
        bus = Bus(error, page("b", is_end=True))
        with pytest.raises(type(error)):
            shown(bus)
        assert len(bus.asked) == 1


def test_lines_that_were_dropped_and_gaps_are_said(shown: Any) -> None:
    bus = Bus(
        page("a", cursor=1, missed=1),
        page("b", cursor=2, lost=2),
        page("c", cursor=3, missed=3, lost=2),
        page("d", lost=3, is_end=True),
    )
    assert shown(bus) == (
        ["a", "b", "c", "d"],
        [
            "cotenant: 1 line dropped before they could be read",
            "cotenant: 2 gaps: files were truncated or removed unread",
            "cotenant: 3 lines dropped before they could be read",
            "cotenant: 3 gaps: files were truncated or removed unread",
        ],
    )


def test_a_line_with_its_time_what_was_cut_and_as_json(shown: Any) -> None:
    def one(options: LogOptions) -> str:
        ((found,), _) = shown(Bus(LogPage((line("a\x1b[2J", cut=7),), None, is_end=True)), options)
        return str(found)

    assert one(LogOptions()) == "a\x1b[2J [7 characters more]"  # no terminal reads it
    assert one(LogOptions(times=True)) == "2026-01-01T00:00:00.007Z a\x1b[2J [7 characters more]"
    assert json.loads(one(LogOptions(as_json=True, times=True)))["text"] == "a\x1b[2J"


def test_nothing_in_a_line_drives_a_terminal(shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    ((found,), _) = shown(Bus(page("a\tb\x1b[2J", is_end=True)))
    assert "\x1b" not in found
    assert found.startswith("a\tb")


def test_since_when_is_a_time_of_this_machine(shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reading.time, "time", lambda: 10_000.0)
    bus = Bus(page(is_end=True))
    shown(bus, LogOptions(since="10m"))
    assert bus.asked[0][0].since_s == 9400.0
