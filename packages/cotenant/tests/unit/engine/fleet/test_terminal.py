"""A terminal's output by position, its bound, and when nobody is there."""

from __future__ import annotations

import random

import pytest

from cotenant.engine.fleet.terminal import TerminalLimits, TerminalState
from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.terminals import (
    MAX_PAGE_BYTES,
    OpenTerminal,
    ReadTerminal,
    TerminalPage,
    WindowSize,
    WriteTerminal,
)

LIMITS = TerminalLimits(unread_bytes=1000, idle_s=60.0, unread_s=10.0)


def test_a_question_that_is_asked_again_gets_the_same() -> None:
    state = TerminalState(0.0, LIMITS)
    state.output(b"hello")
    assert state.read(0, 1.0) == state.read(0, 1.0) == TerminalPage(0, b"hello")
    assert state.read(5, 1.0) == TerminalPage(5, b"")
    with pytest.raises(InvalidInput, match="another reader"):
        state.read(4, 1.0)
    with pytest.raises(InvalidInput):
        state.read(6, 1.0)


def test_any_split_of_reads_gives_what_was_said_once() -> None:
    for seed in range(200):
        chosen = random.Random(seed)
        state, said, seen = TerminalState(0.0, LIMITS), bytearray(), bytearray()
        while len(said) < 5000 or not state.is_over:
            if chosen.random() < 0.5 and len(said) < 5000:
                data = chosen.randbytes(chosen.randint(0, state.room))
                state.output(data)
                said += data
            elif len(said) >= 5000:
                state.end("the command has ended", 3)
            page = state.read(len(seen), 0.0)
            assert said[page.position :].startswith(page.data)
            assert state.room + state.written - len(seen) == LIMITS.unread_bytes
            if chosen.random() < 0.8:  # else the answer was lost
                seen += page.data
        page = state.read(len(seen), 0.0)
        assert seen + page.data == said
        assert (page.is_over, page.why, page.exit_code) == (True, "the command has ended", 3)


def test_a_page_is_bounded_and_the_end_comes_with_the_last() -> None:
    state = TerminalState(0.0, TerminalLimits(unread_bytes=3 * MAX_PAGE_BYTES))
    state.output(b"x" * (MAX_PAGE_BYTES + 1))
    state.end("hung up")
    state.end("later")
    first = state.read(0, 0.0)
    assert (len(first.data), first.is_over, first.why) == (MAX_PAGE_BYTES, False, "")
    assert state.read(MAX_PAGE_BYTES, 0.0) == TerminalPage(MAX_PAGE_BYTES, b"x", True, "hung up")


def test_it_is_due_without_a_reader_and_without_keys() -> None:
    state = TerminalState(0.0, LIMITS)
    assert state.due(9.9) == ""
    assert state.due(10.0) == "nobody reads it any more"
    state.read(0, 55.0)
    assert state.due(59.9) == ""
    assert state.due(60.0) == "no key was pressed for 1 min"
    state.typed(58.0)
    assert state.due(64.9) == ""


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: WindowSize(0, 24), "size.columns"),
        (lambda: WindowSize(80, 1001), "size.rows"),
        (lambda: OpenTerminal("web-1", ()), "command"),
        (lambda: OpenTerminal("web-1", ("sh", "a\0b")), "command"),
        (lambda: OpenTerminal("web-1", ("sh", "x" * 5000)), "command"),
        (lambda: ReadTerminal("web-1", "../x"), "session"),
        (lambda: ReadTerminal("web-1", "0" * 32, -1), "position"),
        (lambda: ReadTerminal("web-1", "0" * 32, 0, 60.0), "wait_s"),
        (lambda: WriteTerminal("web-1", "0" * 32, b"x" * 70000), "data"),
    ],
)
def test_wrong_fields_are_named(make: object, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make()  # type: ignore[operator]
    assert refused.value.field == field
