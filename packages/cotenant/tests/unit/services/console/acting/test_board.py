"""The answer about what the movers may do, suggest and did."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.fakes.processes import acting_objects as made
from tests.fakes.processes.console_objects import move

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.autonomy import AutonomyObject, read_autonomy
from cotenant.drivers.kube.kinds.custom.migration_job import MigrationJobObject, read_migration_job
from cotenant.drivers.kube.kinds.custom.pool_lending import PoolLendingObject, read_pool_lending
from cotenant.drivers.kube.kinds.custom.right_sizing import RightSizingObject, read_right_sizing
from cotenant.services.console.acting.board import ActingBoard
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.views.lending import LendingPools
from cotenant.services.console.views.moves import MoveBoard
from cotenant.services.console.views.timeline import RecoveryAct

NOON_S = 1_767_268_800.0  # Thursday 2026-01-01, 12:00 UTC
ACT = RecoveryAct(NOON_S, "node-1", "shop/web", "batch/hog", "cap", True, False)


class Page:
    """A board with what a test puts there."""

    def __init__(self, *, may_change: bool = True) -> None:
        self.moves, self.lending = MoveBoard(MeasuredFleet()), LendingPools()
        self.board = ActingBoard(self.moves, self.lending, self.acts, lambda: NOON_S, may_change=may_change)
        self.problem = ""

    async def acts(self) -> tuple[Sequence[RecoveryAct], str]:
        return ((), self.problem) if self.problem else ([ACT], "")

    def sizing(self, *args: str, spec: dict[str, Any] | None = None) -> None:
        found = made.right_sizing(*args)
        found["spec"].update(spec or {})
        self.board.sizing_seen(read_right_sizing(msgspec.convert(found, RightSizingObject)))

    def autonomy(self, name: str, **spec: Any) -> None:
        self.board.autonomy_seen(read_autonomy(msgspec.convert(made.autonomy(name, **spec), AutonomyObject)))

    def move(self, found: dict[str, Any]) -> None:
        self.moves.seen(read_migration_job(msgspec.convert(found, MigrationJobObject)))

    def pool(self, found: dict[str, Any]) -> None:
        self.lending.seen(read_pool_lending(msgspec.convert(found, PoolLendingObject)))

    def answer(self, *names: str) -> Any:
        return msgspec.json.decode(msgspec.json.encode(asyncio.run(self.board.answer(names, {}))))


@pytest.mark.parametrize(
    ("mode", "spec", "approve", "undo"),
    [
        ("approve", {}, made.SUGGESTED, made.APPLIED),
        ("earned", {}, made.SUGGESTED, made.APPLIED),
        ("suggest", {}, "", made.APPLIED),  # its owner allows no more
        ("approve", {"approved": made.SUGGESTED}, "", made.APPLIED),  # asked for already
        ("approve", {"undo": made.APPLIED}, made.SUGGESTED, ""),
    ],
)
def test_a_size_says_what_can_be_approved_and_taken_back(
    mode: str, spec: dict[str, Any], approve: str, undo: str
) -> None:
    page = Page()
    page.sizing("cart", mode, spec=spec)
    (sizing,) = page.answer()["sizes"]
    assert (sizing["sizing"], sizing["suggested"]) == ("shop/cart", "cpu 1150m->900m")
    assert (sizing["approve"], sizing["undo"]) == (approve, undo)
    done, undone = sizing["receipts"]
    assert (done["outcome"], done["change"]) == ("done", "cpu 3->1150m, memory 4Gi->1Gi, memory limit 4Gi->1Gi")
    assert (undone["outcome"], undone["why"], undone["allowed_by"]) == ("undone", "Tue 14:00 set it", "ada")


def test_moves_that_wait_come_first_and_say_so() -> None:
    page = Page()
    planned = move("new", "shop/b")
    planned["metadata"]["uid"] = "uid-new"
    page.move(planned)
    page.move(made.waiting_move("waits", "shop/a"))
    first, second = page.answer()["moves"]
    assert (first["move"], first["waits"], first["state"], first["before"]) == ("waits", True, "suggested", "node-1")
    assert (second["move"], second["waits"], second["state"]) == ("new", False, "pending")


def test_a_pool_that_waits_can_be_approved_and_one_that_lends_be_taken_back() -> None:
    page = Page()
    page.pool(made.lending_pool("cluster"))
    page.pool(made.waiting_pool("old"))
    lent, waits = page.answer()["pools"]
    assert (lent["approve"], lent["may_undo"]) == ("", True)
    assert (waits["approve"], waits["may_undo"]) == ("0a1b2c3d-2", False)


def test_what_is_allowed_now_follows_freezes_windows_and_ceilings() -> None:
    page = Page()
    assert {(row["action"], row["rung"], row["may_begin"]) for row in page.answer()["allowed"]} == {
        (action, "act", True) for action in ("sizes", "lending", "moves", "recovery", "weights")
    }
    page.autonomy("night", actions=["moves"], ceiling="approve", windows=[{"from": "22:00", "to": "06:00"}])
    page.autonomy("freeze", actions=["sizes"], freeze={"why": "sale", "by": "eve"})
    found = page.answer()
    allowed = {row["action"]: row for row in found["allowed"]}
    assert (allowed["moves"]["rung"], allowed["moves"]["may_begin"]) == ("approve", False)
    assert "outside of its windows" in allowed["moves"]["why"]
    assert (allowed["sizes"]["is_frozen"], allowed["sizes"]["why"]) == (True, "frozen by eve: sale")
    assert allowed["recovery"]["may_begin"]
    assert found["is_frozen"]
    freeze, night = found["objects"]
    assert (freeze["freeze"], night["windows"]) == ({"why": "sale", "by": "eve"}, ["daily 22:00-06:00 UTC"])
    page.board.autonomy_gone("freeze")
    assert not page.answer()["is_frozen"]


def test_what_a_namespace_has_earned_is_counted_from_receipts() -> None:
    page = Page()
    page.sizing("cart")
    (row,) = page.answer()["earned"]
    assert (row["action"], row["where"], row["hits"], row["trials"]) == ("sizes", "shop", 1, 2)


def test_acts_of_recovery_are_listed_or_it_is_said_why_not() -> None:
    page = Page(may_change=False)
    found = page.answer()
    assert (found["recovery"][0]["culprit"], found["recovery_problem"], found["may_change"]) == ("batch/hog", "", False)
    page.problem = "traces: no answer"
    found = page.answer()
    assert (found["recovery"], found["recovery_problem"]) == ([], "traces: no answer")


def test_what_is_gone_is_not_listed_and_there_are_no_pages_below() -> None:
    page = Page()
    page.sizing("cart")
    page.board.sizing_gone("shop/cart")
    assert page.answer()["sizes"] == []
    with pytest.raises(NotFound):
        page.answer("shop")
