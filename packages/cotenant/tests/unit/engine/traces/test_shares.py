"""Shares of a bounded room."""

from __future__ import annotations

from cotenant.engine.traces.shares import HolderShares


def test_one_alone_has_three_quarters_and_the_next_has_room() -> None:
    room: HolderShares[str] = HolderShares(100)
    while room.has_room("greedy"):
        room.take("greedy")
    assert room.of("greedy") == 75
    assert room.has_room("other", 10)
    room.give_back("greedy", 75)
    assert (room.held, room.of("greedy"), room.has_room("greedy", 60)) == (0, 0, True)


def test_nobody_takes_more_than_there_is() -> None:
    room: HolderShares[str] = HolderShares(10)
    room.take("a", 9)
    assert not room.has_room("b", 2)
    assert room.has_room("b", 1)
