"""`cotenant rebalancer plan`: the printed plan, within 100 columns."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from cotenant.cli.cluster.rebalancer_showing import show
from cotenant.engine.rebalancer.plan import KeptPod, KindPlan, MovePlan, PlannedMove, PoolPlan, PredictedEffect
from cotenant.services.rebalancer.planning import plan_json

MOVE = PlannedMove(
    "shop/checkout-6f8b9c7d5d-abcde",
    "u1",
    "ReplicaSet/checkout",
    "node-0001",
    "node-0002",
    "p",
    "node",
    "cpu 80.00 % above 65.00 %",
    ("cpu",),
    {"cpu": 2000, "memory": 3 << 29},
    {"cpu": 80.0, "memory": 20.0},
    {"cpu": 60.0, "memory": 18.0},
    {"cpu": 10.0, "memory": 5.0},
    {"cpu": 30.0, "memory": 7.0},
)
PLAN = MovePlan(
    (MOVE, replace(MOVE, pod="shop/" + "very-long-name-" * 5, uid="u2", scope="prod", reason="memory 9 % above 8 %")),
    (KeptPod("a/b", "node-0001", "it has local storage"), KeptPod("a/c", "node-0001", "it has local storage")),
    (PoolPlan("p", 4, ("node-0001",), ("node-0001",), 2, ""), PoolPlan("q", 1, (), (), 0, "no node is overloaded")),
    5,
    40,
    ("node-0005",),
    3,
    ("evictQPS: applies only where moves are carried out",),
)


def test_a_plan_is_printed_within_100_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    show(PLAN)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    for part in (
        "5 nodes, 4 with a current NodeMetric; 40 pods: 2 moves. Nothing was evicted. In the simulation 3",
        "pool p: 1 of 4 nodes overloaded, after the moves 1 (node-0001); 2 underused",
        "pool q: no node is overloaded; 0 of 1 node overloaded",
        "2000m 1.5Gi  node-0001  cpu 80 -> 60  node-0002  cpu 10 -> 30",
        "node-0001: use cpu 80.00 % above 65.00 %",
        "node-0001: use of production pods memory 9 % above 8 %",
        "2 pods considered and not moved:",
        "  2: it has local storage (a/b, ...)",
        "  evictQPS: applies only where moves are carried out",
    ):
        assert part in text


def test_other_kinds_and_predicted_effects_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    effect = PredictedEffect(1.2, 0.3, 0.5, 0.4, None, 0.25, "shop/cart-0", 0.2, 0.0, "learned")
    other = replace(
        MOVE,
        trigger="Defragmentation",
        reason="frees room for a/b, which waits",
        node_before={},
        node_after={},
        over=(),
    )
    show(replace(PLAN, moves=(replace(MOVE, effect=effect), other), kinds=(KindPlan("Defragmentation", 2, 1),)))
    text = capsys.readouterr().out
    for part in (
        "Defragmentation: 2 found, 1 solved by this plan",
        "from, to      its use, %    objective of  used, %",
        "node-0001     cpu 80 -> 60  the pod       120 -> 30",
        "-> node-0002  cpu 10 -> 30  neighbours    - -> 25",
        "shop/checkout-6f8b9c7d5d-abcde: frees room for a/b, which waits (Defragmentation)",
    ):
        assert part in text, text
    assert text.count("node-0001: use cpu") == 1
    (move, _) = msgspec.json.decode(plan_json(replace(PLAN, moves=(replace(MOVE, effect=effect), other))))["moves"]
    assert (move["effect"]["pod_after"], move["effect"]["neighbour"], move["trigger"]) == (
        0.3,
        "shop/cart-0",
        "LowNodeLoad",
    )


def test_without_metrics_it_says_who_writes_them(capsys: pytest.CaptureFixture[str]) -> None:
    show(MovePlan((), (), (), 2, 0, ("a", "b"), 0, ()))
    assert "Without NodeMetrics no move by load can be planned" in " ".join(capsys.readouterr().out.split())


def test_many_reasons_are_cut_and_json_has_all(capsys: pytest.CaptureFixture[str]) -> None:
    kept = tuple(KeptPod(f"a/{i}", "n", f"reason {i:02}") for i in range(20))
    show(replace(PLAN, kept=kept))
    assert "and 8 more reasons: --json" in capsys.readouterr().out
    read = msgspec.json.decode(plan_json(replace(PLAN, kept=kept)))
    assert len(read["kept"]) == 20
    assert read["moves"][0]["node_after"]["cpu"] == 60.0
