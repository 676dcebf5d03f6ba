"""Room for a gang is made beside the nodes that it is likely to use, and on these where nothing else works."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cotenant.engine.rebalancer import room

BOTH = [frozenset({"a"}), frozenset[str]()]


@pytest.mark.parametrize(
    ("likely", "works", "tried", "why"),
    [
        ({"a"}, [True, True], BOTH[:1], ""),
        ({"a"}, [False, True], BOTH, ""),
        ({"a"}, [False, False], BOTH, "no room 2"),
        (set(), [False, True], BOTH[1:], "no room 1"),  # a single pod has no such nodes: once is enough
        (set(), [True, True], BOTH[1:], ""),
    ],
)
def test_nodes_that_a_gang_is_likely_to_use_are_offered_last(
    monkeypatch: pytest.MonkeyPatch, likely: set[str], works: list[bool], tried: list[frozenset[str]], why: str
) -> None:
    asked: list[frozenset[str]] = []

    def free_all(context: Any, settings: Any, members: Any, avoided: frozenset[str]) -> str:
        asked.append(avoided)
        return "" if works[len(asked) - 1] else f"no room {len(asked)}"

    monkeypatch.setattr(room, "_likely_nodes", lambda *given: frozenset(likely))
    monkeypatch.setattr(room, "_free_all", free_all)
    assert room._free_for(cast(Any, None), cast(Any, None), ()) == why
    assert asked == tried
