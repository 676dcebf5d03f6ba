"""What a plan of the rebalancer's says: nodes that would be empty, why others are not, and the first moves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.engine.rebalancer.plan import KeptPod, KindPlan, MovePlan, PlannedMove, PoolPlan
from cotenant.engine.rebalancer.room import PACKING
from cotenant.model.assess.report import AdvisedMove, EmptiedNode, RefusedNodes
from cotenant.model.resources import Amounts
from cotenant.services.assess import moving
from cotenant.services.assess.moving import MAX_EMPTIED, SHOWN, _alike, _refused, consolidation, first_hour

GIB = 1 << 30


def move(pod: str, node: str, target: str, trigger: str = PACKING) -> PlannedMove:
    none: dict[str, float] = {}
    return PlannedMove(
        pod, f"u-{pod}", "", node, target, "", "", f"{node} is hot", (), {}, none, none, none, none,
        trigger=trigger, about=node,
    )  # fmt: skip


def plan(
    moves: tuple[PlannedMove, ...] = (),
    kept: tuple[KeptPod, ...] = (),
    considered: int | None = None,
    solved: int = 0,
    notes: tuple[str, ...] = (),
    **more: Any,
) -> MovePlan:
    kinds = () if considered is None else (KindPlan(PACKING, considered, solved, notes),)
    return MovePlan(
        moves, kept, more.get("pools", ()), more.get("nodes", 4), 9, more.get("unmeasured", ()), 0, (), kinds
    )


def copy(nodes: dict[str, list[str]], metrics: bool = True) -> Any:
    """`nodes`: their pods; daemons are `d...`, static ones `s...`. Each node has 4 cores and 8 GiB."""
    size = Amounts.of({"cpu": 4000, "memory": 8 * GIB})
    there = {name: SimpleNamespace(name=name, allocatable=size) for name in nodes}

    def on(node: str) -> list[Any]:
        return [
            SimpleNamespace(seen=SimpleNamespace(pod=SimpleNamespace(key=key, is_daemon=key.startswith("d"))))
            for key in nodes[node]
        ]

    engine = SimpleNamespace(nodes=lambda: list(there.values()), node=there.get, pods_on=on)
    notes = lambda key: SimpleNamespace(is_static=key.startswith("s"))  # noqa: E731
    return cast(Any, SimpleNamespace(engine=engine, notes_of=notes, metrics={"a": 1} if metrics else {}))


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets what the planner finds; the settings that it was given."""
    given: list[Any] = []

    def find(found: MovePlan) -> list[Any]:
        monkeypatch.setattr(moving, "_plan", lambda of, settings: given.append(settings) or found)
        return given

    return find


FOUR: dict[str, list[str]] = {"a": ["w1", "w2"], "b": ["w3"], "c": ["d1", "s1"], "e": []}


def test_nodes_whose_pods_all_move_are_emptied_and_their_room_is_added_up(planned: Any) -> None:
    moves = (move("w1", "a", "b"), move("w2", "a", "b"), move("w3", "b", "a"), move("x", "c", "a", "LowNodeLoad"))
    given = planned(plan(moves, considered=4))
    found = consolidation(copy(FOUR))
    assert found.emptied == (EmptiedNode("a", 2, 1), EmptiedNode("b", 1, 1))
    assert found.empty_nodes == ("c", "e")  # daemons and static pods stay with their node
    assert (found.considered, found.cpu_m, found.memory_mib) == (2, 8000, 16 * 1024)
    assert (found.refused, found.note) == ((), "")
    assert given[0].kinds.packing.most == 3  # one node takes what the others give


def test_what_else_is_said_of_a_plan(planned: Any) -> None:
    moves = (move("w1", "a", "b"),)
    later = KeptPod("w2", "a", "a budget", PACKING)
    kept = (later, KeptPod("w3", "f", "alone", PACKING), KeptPod("w4", "b", "other", "LowNodeLoad"))
    planned(plan(moves, kept, considered=7, notes=("one note",)))
    found = consolidation(copy(FOUR))
    assert found.considered == 5
    assert found.refused == (RefusedNodes("alone", 1, "w3"),)
    assert found.note == "one note; 1 of them in several rounds, as budgets allow; 3 others took pods in"
    many = {f"n{i}": ["w"] for i in range(MAX_EMPTIED + 50)}
    planned(plan(tuple(move(f"w{i}", f"n{i}", "z") for i in range(100)), considered=150, solved=MAX_EMPTIED))
    assert consolidation(copy(many)).note == f"stopped after {MAX_EMPTIED} nodes"
    planned(plan())
    none = consolidation(copy(FOUR))
    assert (none.considered, none.emptied, none.note) == (0, (), "")


def test_reasons_that_differ_in_counts_and_names_alone_are_one() -> None:
    no_node = "it fits nowhere: 0/{} nodes are available: {} Insufficient cpu, 1 node(s) were cordoned"
    assert _alike(no_node.format(5, 4)) == _alike(no_node.format(9, 8))
    tried = "on n{} memory would rise from {}.5 to 90; on n{} its budget is spent"
    assert _alike(tried.format(1, 3, 2)) == _alike(tried.format(7, 4, 8))
    assert _alike("on n1 memory would rise from 3.5 to 90") == "where it was tried, memory would rise"
    assert _alike("on n1 b; on n2 a; on n3 b") == "where it was tried, a; where it was tried, b"
    for plain in ("a budget: none may go", "on n1 it is full; and more", "it has no controller"):
        assert _alike(plain) == plain


def test_refusals_are_by_reason_those_of_most_nodes_first() -> None:
    kept = [
        KeptPod("p1", "a", "budget"),
        KeptPod("p2", "a", "budget"),
        KeptPod("p3", "b", "alone"),
        KeptPod("p4", "c", "alone"),
        KeptPod("p5", "d", "aged"),
    ]
    assert _refused(kept) == (
        RefusedNodes("alone", 2, "p3"),
        RefusedNodes("aged", 1, "p5"),
        RefusedNodes("budget", 1, "p1"),
    )
    assert len(_refused([KeptPod("p", "n", f"why {i}") for i in range(SHOWN + 5)])) == SHOWN


def pool(*overloaded: str) -> PoolPlan:
    return cast(Any, SimpleNamespace(overloaded=overloaded))


def test_the_moves_of_a_first_hour_and_what_they_are_by(planned: Any) -> None:
    moves = tuple(move(f"p{i}", "a", "b") for i in range(SHOWN + 2))
    planned(plan(moves, pools=(pool("a", "b"), pool("c")), nodes=1200, unmeasured=("x",)))
    found, note = first_hour(copy(FOUR))
    assert found[0] == AdvisedMove("p0", "a", "b", "a is hot")
    assert len(found) == SHOWN
    assert note == "3 of 1,200 nodes are overloaded; 1 have no current measurement"
    unknown, why = first_hour(copy(FOUR, metrics=False))
    assert unknown == ()
    assert why == "the current load of nodes is not known, neither by NodeMetrics nor by a history: no move is proposed"
