from __future__ import annotations

import json

import pytest

from cotenant.cli.ask.receipts_showing import changed, show
from cotenant.model.autonomy.pool_lending import (
    LendingDay,
    LendingOutcome,
    LendingReceipt,
    LendingStatus,
    LendingSuggestion,
    PoolLending,
)
from cotenant.model.groups.migration import JobCondition, JobPhase, JobStep, MigrationJob, MoveNote, PodRef
from cotenant.model.sizes.container import ContainerSize
from cotenant.model.sizes.right_sizing import (
    RightSizing,
    SizingMode,
    SizingOutcome,
    SizingReceipt,
    SizingStatus,
    Suggestion,
)

A, B = ContainerSize(3000, None, 2 << 30, 4 << 30), ContainerSize(1150, None, 2 << 30, 3 << 30)
STATUS = SizingStatus(
    "awaitsApproval",
    "spec.approved: abcdef12 begins it",
    suggestion=Suggestion("abcdef12", A, B, ("CPU set by Mon 9h",)),
    receipts=(
        SizingReceipt(
            "11111111", "2026-01-02T00:00:00Z", SizingOutcome.UNDONE, A, B, "objective fast burns", "mode act", 1
        ),
        SizingReceipt("22222222", "2026-01-01T00:00:00Z", SizingOutcome.DONE, A, B, "proven", "spec.approved, ada", 3),
    ),
)
SIZING = RightSizing("shop/cart", "u", 1, "Deployment", "cart", SizingMode.APPROVE, status=STATUS)


def test_what_stands_and_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert show([SIZING], [], [], False) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 100
    assert "cpu 3->1150m, memory limit 4Gi->3Gi" in " ".join(said.split())
    assert "shop/cart: spec.approved: abcdef12 begins it" in said
    assert said.index("2026-01-02") < said.index("2026-01-01")
    assert "11111111: objective fast burns; 1 pod; allowed by mode act" in said


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert show([SIZING], [], [], True) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["sizing"], row["mode"], row["receipts"][0]["outcome"]) == ("shop/cart", "approve", "undone")


def test_nothing_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert show([], [], [], False) == 0
    assert capsys.readouterr().out == "no RightSizings\n"
    assert changed(A, A) == "nothing"
    assert changed(ContainerSize(), ContainerSize(100)) == "cpu -->100m"


def test_moves_have_receipts_too_without_an_undo(capsys: pytest.CaptureFixture[str]) -> None:
    note = MoveNote("k", "old", "new", "cpu")
    waits = MigrationJob(
        "waits", "u", PodRef("shop", "p"), is_ours=True, paused=True, suggested=True, reason="too hot", note=note
    )
    helped = (JobCondition(JobStep.HELPED, "False", "ObjectiveBroken", "ServiceObjective shop/fast burns"),)
    ended = MigrationJob(
        "ended",
        "v",
        PodRef("shop", "q"),
        is_ours=True,
        allowed_by="ada",
        reason="hot",
        note=note,
        phase=JobPhase.SUCCEEDED,
        conditions=helped,
    )
    assert show([], [waits, ended], [], False) == 0
    said = capsys.readouterr().out
    assert "waits: too hot; allowed by nobody yet" in said
    assert "ended: hot; allowed by ada" in said
    assert "ended: ServiceObjective shop/fast burns" in said
    assert "no undo" in said
    assert show([SIZING], [waits, ended], [], True) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row.get("move", row.get("sizing")) for row in rows] == ["shop/cart", "waits", "ended"]
    assert [(row["state"], row["before"], row["after"], row["undo"]) for row in rows[1:]] == [
        ("suggested", "old", "new", "none"),
        ("did not help", "old", "new", "none"),
    ]


def test_pools_that_lend_are_shown_with_their_days(capsys: pytest.CaptureFixture[str]) -> None:
    day = LendingDay(20_785, 48, 1, 48, 48 * 40_000, 48 * 65_536)
    status = LendingStatus(
        "lent",
        "lendMode earned: begins at suggest",
        "earned",
        "act",
        LendingSuggestion("0a1b2c3d-1", "cpu by peak at 1 % risk", 2, 80_000, 131_072),
        (
            LendingReceipt("2026-11-28", LendingOutcome.HELD, day, "act", "ada", "1 of 48 node-hours exceeded"),
            LendingReceipt("2026-11-27", LendingOutcome.OBJECTIVE, LendingDay(20_784), "act", "ada", "web burns"),
        ),
    )
    pools = [PoolLending("cluster", status=status), PoolLending("big")]
    assert show([], [], pools, False) == 0
    said = capsys.readouterr().out
    words = " ".join(said.split())
    assert "cluster earned act lent 80 CPU, 128Gi on 2 nodes 0a1b2c3d-1" in words
    assert "big - - not seen" in words
    assert "0a1b2c3d-1: cpu by peak at 1 % risk" in said
    assert (
        "2026-11-28 cluster held 40 CPU, 64Gi a node 1 of 48 node-hours" in words
    )  # what follows may be on a new line
    assert said.index("2026-11-28") < said.index("2026-11-27")
    assert show([], [], pools, True) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["pool"], first["rung"], first["receipts"][0]["outcome"]) == ("cluster", "act", "held")
    assert second["suggestion"] is None
