"""What an answer is completed with: the sentence on a quota's revocation stands with that quota alone."""

from __future__ import annotations

import pytest

from cotenant.engine.explain.question import Revocation, _with
from cotenant.model.decisions.answers import Concern

REVOCATION = Revocation("team-a", frozenset({"shop/web"}), 0.0, 120.0)


@pytest.mark.parametrize(
    ("kind", "name", "is_told"),
    [
        ("quota", "team-a", True),
        ("quota", "team-b", False),  # it is in use too, and gives nothing back
        ("gang", "team-a", False),  # of the same name
        ("reservation", "team-b", False),
    ],
)
def test_a_revocation_is_told_with_its_own_quota(kind: str, name: str, is_told: bool) -> None:
    concern = Concern(kind, name, True, "it waits", ("4 of 4 cpu used",))
    lines = ("4 of 4 cpu used", "it is taken back") if is_told else ("4 of 4 cpu used",)
    assert _with(concern, REVOCATION, "it is taken back").lines == lines
