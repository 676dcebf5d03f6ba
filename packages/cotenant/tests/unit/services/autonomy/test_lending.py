"""Approvals and undos of pools that lend, and what was earned, against a small API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.servers.fake_api import FakeApi

from cotenant.model.autonomy.autonomy import Action
from cotenant.model.errors import InvalidInput
from cotenant.services.autonomy.lending import LendingReceipts
from cotenant.services.autonomy.standing import earned_by_namespace

TODAY = datetime.now(UTC).date().isoformat()
HELD = [
    {"id": f"2026-01-{n:02}", "outcome": "held", "day": {"day": 20_453 + n, "hours": 24}, "rung": "suggest",
     "allowedBy": "", "why": "w"}
    for n in range(9, 0, -1)
]  # fmt: skip


def days_from_today(count: int) -> list[str]:
    """Today and the days after it, since a test may run over midnight."""
    today = datetime.now(UTC).date()
    return [(today + timedelta(days=k)).isoformat() for k in range(count)]


def asked(question: Callable[[Path], Any], tmp_path: Path, status: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
    """The answer or the error, and the object as it is then."""

    async def scenario() -> tuple[Any, dict[str, Any]]:
        async with FakeApi() as api:
            if status is not None:
                api.put("poollendings", {"metadata": {"name": "cluster", "uid": "u"}, "spec": {}, "status": status})
            config = {
                "clusters": [{"name": "c", "cluster": {"server": api.url}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
            path = tmp_path / "kubeconfig"
            path.write_text(json.dumps(config))
            try:
                found: Any = await asyncio.to_thread(question, path)
            except InvalidInput as error:
                found = error
            return found, api.objects["poollendings"].get("cluster", {}).get("spec", {})

    return asyncio.run(scenario())


def _status(mode: str = "approve", state: str = "suggested", **more: Any) -> dict[str, Any]:
    return {"mode": mode, "state": state, "suggestion": {"id": "a-1", "rules": "r"}, **more}


def test_an_approval_names_what_stands(tmp_path: Path) -> None:
    found, spec = asked(lambda path: LendingReceipts(path).approve("cluster", "", "ada"), tmp_path, _status())
    assert found == "a-1"
    assert spec == {"approved": "a-1", "approvedBy": "ada"}


@pytest.mark.parametrize(
    ("status", "id_", "said"),
    [
        (_status(), "b-1", "it has a-1"),
        (_status("suggest"), "", "lendMode suggest"),
        ({"mode": "shadow", "state": "shadow"}, "", "it has none"),
        (None, "", "a pool with a lendMode"),
    ],
)
def test_an_approval_that_cannot_be_is_refused(
    status: dict[str, Any] | None, id_: str, said: str, tmp_path: Path
) -> None:
    found, spec = asked(lambda path: LendingReceipts(path).approve("cluster", id_, "ada"), tmp_path, status)
    assert isinstance(found, InvalidInput)
    assert said in str(found)
    assert spec == {}


def test_an_undo_is_of_today_or_of_a_day_with_a_receipt(tmp_path: Path) -> None:
    lent = _status("act", "lent", receipts=HELD)
    found, spec = asked(lambda path: LendingReceipts(path).undo("cluster", ""), tmp_path, lent)
    assert spec == {"undo": found}
    assert found >= TODAY
    found, spec = asked(lambda path: LendingReceipts(path).undo("cluster", "2026-01-05"), tmp_path, lent)
    assert spec == {"undo": "2026-01-05"}


def test_who_approved_again_on_the_day_of_an_undo_can_take_it_back_again(tmp_path: Path) -> None:
    """The manager takes an undo that is done already for done: another day that stands is named."""
    undone = [{**HELD[0], "id": day, "outcome": "undone"} for day in days_from_today(2)]
    lent = _status("approve", "lent", receipts=[*undone, *HELD])
    _, spec = asked(lambda path: LendingReceipts(path).undo("cluster", ""), tmp_path, lent)
    assert spec == {"undo": HELD[0]["id"]}


@pytest.mark.parametrize(
    ("status", "id_", "said"),
    [
        (_status("act", "lent"), "2020-01-01", "a day that has a receipt"),
        (_status("act", "stopped"), "", "nothing is lent there"),
        (_status("act", "lent", receipts=[{**HELD[0], "outcome": "undone"}]), HELD[0]["id"], "taken back already"),
    ],
)
def test_an_undo_that_cannot_be_is_refused(status: dict[str, Any], id_: str, said: str, tmp_path: Path) -> None:
    found, spec = asked(lambda path: LendingReceipts(path).undo("cluster", id_), tmp_path, status)
    assert isinstance(found, InvalidInput)
    assert said in str(found)
    assert spec == {}


def test_what_was_earned_is_by_pool(tmp_path: Path) -> None:
    found, _ = asked(lambda path: earned_by_namespace(path, ""), tmp_path, _status(receipts=HELD))
    assert found[Action.LENDING]["cluster"].rung.name == "APPROVE"
