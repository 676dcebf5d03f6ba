"""What `cotenant autonomy` says of windows and blackouts now."""

from __future__ import annotations

import json
from datetime import UTC

import pytest

from cotenant.cli.ask.autonomy_showing import show
from cotenant.model.autonomy.autonomy import Action, ActionWindow, Autonomy, Blackout
from cotenant.policy.autonomy.ladder import Earned

NOON_S = 1_800_014_400.0  # 12:00 UTC
EVERY_DAY = frozenset(range(7))
MORNING, NOON = (ActionWindow(EVERY_DAY, 60 * hour, 60 * hour + 120, UTC) for hour in (8, 11))
NONE: dict[Action, dict[str, Earned]] = {Action.SIZES: {}, Action.MOVES: {}, Action.LENDING: {}}


@pytest.mark.parametrize(
    ("found", "said", "may_begin"),
    [
        (Autonomy("a"), "any time", True),
        (Autonomy("a", windows=(MORNING, NOON)), "2", True),
        (Autonomy("a", windows=(MORNING,)), "1, closed now", False),
        (Autonomy("a", windows=(NOON,), blackouts=(Blackout(NOON_S, NOON_S + 1),)), "1, closed now", False),
        (Autonomy("a", blackouts=(Blackout(NOON_S, NOON_S + 1),)), "any time, closed now", False),
        (Autonomy("a", blackouts=(Blackout(NOON_S - 1, NOON_S),)), "any time", True),
    ],
)
def test_whether_something_may_be_begun_now(
    found: Autonomy, said: str, may_begin: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show([found], NONE, False, NOON_S) == 0
    row = capsys.readouterr().out.splitlines()[2]
    assert said in row
    assert ("closed now" in row) is not may_begin
    show([found], NONE, True, NOON_S)
    assert json.loads(capsys.readouterr().out)["objects"][0]["mayBegin"] is may_begin
