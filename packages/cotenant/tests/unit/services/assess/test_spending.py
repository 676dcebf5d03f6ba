"""A month of a small cluster, priced by hand: who pays, what is idle, what each step of the plan saves."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory
from cotenant.model.assess.prices import NodeRule, PriceTable, UnitPrices
from cotenant.model.assess.report import Consolidation, EmptiedNode, Money, Saving, Spending
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import NVIDIA_GPU, Amounts
from cotenant.policy.assess.shapes import Rooms
from cotenant.services.assess.columns import NodeColumns, RunningColumns
from cotenant.services.assess.lending import LendingAssessment
from cotenant.services.assess.spending import SHOWN, spending

MONTH_H = 730.0
NOTHING = Consolidation((), 0, (), (), 0, 0)
NO_LENDING = LendingAssessment((), {})
# 2 a core and 0.5 a GiB of an hour; `dear` costs 10 an hour, `free` has no price
UNITS = UnitPrices(2.0, 0.5, 7.0)
TABLE = PriceTable("EUR", (NodeRule(10.0, labels={"pool": "dear"}),), UNITS, left_out=("1 volume",))


def columns(**nodes: tuple[int, int]) -> NodeColumns:
    """`nodes`: cores and GiB."""
    cpu_m = np.array([cores * 1000 for cores, _ in nodes.values()], np.int64)
    memory = np.array([gib * 1024 for _, gib in nodes.values()], np.int64)
    none = np.zeros(0, np.int64)
    return NodeColumns(tuple(nodes), cpu_m, memory, cpu_m * 0, memory * 0, Rooms(none, none, none))


def pods(*given: tuple[str, str, int, int], tenants: dict[str, str] | None = None, cards: int = 0) -> RunningColumns:
    """`given`: namespace/name, node, cores and GiB requested."""
    entries = []
    for key, on, _, _ in given:
        namespace, _, name = key.partition("/")
        tenant = (tenants or {}).get(name, "")
        what = Pod(name, namespace=namespace, tenant=tenant, requests=Amounts.of({NVIDIA_GPU: cards} if cards else {}))
        entries.append(PodInfo(ObservedPod(what, f"u-{name}", "s", 0.0, node=on), node=on))
    return RunningColumns(
        tuple(entries),
        np.array([cores * 1000 for _, _, cores, _ in given], np.int64),
        np.array([gib * 1024 for _, _, _, gib in given], np.int64),
        tuple(f"{key.partition('/')[0]}/Deployment/{key.rpartition('/')[2][0]}" for key, _, _, _ in given),
    )


def history(**used: list[tuple[float, float]]) -> ClusterHistory:
    """`used`: cores and GiB of each step, by the pod's name in the namespace shop."""
    names = tuple(f"shop/{name}" for name in used)
    steps = len(next(iter(used.values()), []))
    rows = np.array(list(used.values()), np.float32).reshape(len(names), steps, 2)
    use = AssessedHistory(0.0, 60.0, names, rows[:, :, 0] * 1000, rows[:, :, 1] * 1024)
    unknown = np.full(len(names), np.nan, np.float32)
    none = np.zeros((0, steps), np.float32)
    return ClusterHistory(
        PodHistory(use, ("",) * len(names), ("",) * len(names), unknown, unknown),
        AssessedHistory(0.0, 60.0, (), none, none),
    )


def month(
    nodes: NodeColumns,
    running: RunningColumns,
    use: ClusterHistory | None = None,
    lent: LendingAssessment = NO_LENDING,
    emptied: Consolidation = NOTHING,
    table: PriceTable = TABLE,
    cards: dict[str, int] | None = None,
) -> Money:
    """Nodes whose names begin with d are of the pool `dear`; those that end with x the engine does not know."""
    there = {
        name: SimpleNamespace(
            allocatable=Amounts.of({NVIDIA_GPU: (cards or {}).get(name, 0)}),
            labels=Labels.of({"pool": "dear"} if name.startswith("d") else {}),
        )
        for name in nodes.names
        if not name.endswith("x")
    }
    copy = cast(Any, SimpleNamespace(engine=SimpleNamespace(node=there.get)))
    return spending(table, copy, nodes, running, use or history(), lent, emptied)


def hourly(one: Spending) -> tuple[float, ...]:
    return tuple(round(amount / MONTH_H, 6) for amount in (one.paid, one.used, one.idle, one.lent))


def test_what_is_paid_used_and_idle_is_by_the_node_of_each_pod() -> None:
    nodes = columns(a=(4, 8), d=(2, 8))
    running = pods(("shop/web", "a", 2, 2), ("shop/job", "d", 1, 4), ("ops/log", "a", 1, 1))
    found = month(nodes, running, history(web=[(0.5, 1.0), (1.5, 1.0)], job=[(2.0, 2.0), (2.0, 2.0)]))
    assert (found.currency, found.unpriced_nodes, found.left_out) == ("EUR", 0, ("1 volume",))
    assert found.nodes / MONTH_H == pytest.approx(4 * 2 + 8 * 0.5 + 10)
    # d: 10 an hour for 2 cores and 8 GiB, of which 8 are as dear as a core: 10/3 a core, 10/24 a GiB
    job = 2 * 10 / 3 + 4 * 10 / 24
    by_workload = {one.name: hourly(one) for one in found.workloads}
    assert by_workload["shop/Deployment/w"] == (5.0, 2.5, 2.5, 0.0)  # 1 of 2 cores, 1 of 2 GiB
    assert by_workload["shop/Deployment/j"] == pytest.approx((job, job - 2 * 10 / 24, 2 * 10 / 24, 0.0), abs=1e-5)
    assert by_workload["ops/Deployment/l"] == (2.5, 2.5, 0.0, 0.0)  # not measured: wholly used
    assert [one.name for one in found.namespaces] == ["shop", "ops"]
    assert (found.namespaces[0].pods, found.namespaces[0].unmeasured, found.namespaces[1].unmeasured) == (2, 0, 1)
    assert found.pods.paid + found.free == pytest.approx(found.nodes)
    assert found.tenants == ()


def test_pods_that_name_no_tenant_are_together_where_others_do() -> None:
    running = pods(("shop/web", "a", 1, 0), ("shop/job", "a", 2, 0), ("shop/own", "a", 1, 0), tenants={"web": "red"})
    found = month(columns(a=(8, 8)), running)
    assert [(one.name, hourly(one)[0]) for one in found.tenants] == [("none named", 6.0), ("red", 2.0)]


def test_nodes_and_pods_without_a_price_are_counted_and_left_out() -> None:
    table = replace(TABLE, otherwise=None)
    running = pods(("shop/web", "a", 2, 2), ("shop/job", "d", 1, 4), ("shop/gone", "", 1, 1))
    found = month(columns(a=(4, 8), d=(2, 8)), running, table=table)
    assert (found.unpriced_nodes, found.pods.unpriced, found.nodes) == (1, 2, 10 * MONTH_H)
    empty = month(columns(a=(4, 8)), pods(), table=table)
    assert (empty.nodes, empty.pods, empty.workloads) == (0.0, Spending("", 0, 0.0, 0.0, 0.0, 0.0, 0, 0), ())


def test_cards_have_their_price() -> None:
    running = pods(("shop/web", "a", 0, 0), cards=1)
    found = month(columns(a=(4, 8), ax=(4, 8)), running, cards={"a": 2})
    assert found.nodes / MONTH_H == pytest.approx(2 * (8 + 4) + 2 * 7)
    assert hourly(found.pods)[0] == 7.0
    assert found.free / MONTH_H == pytest.approx(24 + 7)


def test_what_could_be_lent_is_of_what_is_idle_and_of_what_nobody_asked_for() -> None:
    lent = LendingAssessment((), {"a": Use(2000, 2 << 30)})
    found = month(columns(a=(4, 8)), pods(("shop/web", "a", 2, 2)), history(web=[(1.0, 2.0)]), lent)
    # of cores 1 is idle and 2 are free, of which 2 in 3 could be lent; of GiB none is idle and 6 are free: 2 of them
    assert hourly(found.pods) == pytest.approx((5.0, 3.0, 2.0, 4 / 3), abs=1e-5)
    assert found.free_lent / MONTH_H == pytest.approx(2 * 2 * 2 / 3 + 2 * 0.5)
    (saving,) = found.savings
    assert (saving.step, saving.month / MONTH_H) == ("lend at the stated risk", pytest.approx(2 * 2 + 2 * 0.5))


def test_each_step_of_the_plan_saves_the_price_of_its_nodes() -> None:
    nodes = columns(a=(4, 8), b=(1, 2), c=(2, 2), d=(2, 8))
    plan = Consolidation(
        ("a", "b", "other"), 3, (EmptiedNode("c", 1, 2), EmptiedNode("d", 3, 1), EmptiedNode("gone", 1, 1)), (), 0, 0
    )
    found = month(nodes, pods(), emptied=plan)
    assert found.savings == (
        Saving("remove 2 nodes without pods to move", 15 * MONTH_H, "they hold nothing that would have to move"),
        Saving("empty c", 5 * MONTH_H, "move 1 pod to 2 other nodes, remove it"),
        Saving("empty d", 10 * MONTH_H, "move 3 pods to 1 other nodes, remove it"),
    )
    assert found.emptied == 15 * MONTH_H
    one = month(nodes, pods(), emptied=replace(plan, empty_nodes=("b",), emptied=()))
    assert [saving.step for saving in one.savings] == ["remove 1 node without pods to move"]
    unpriced = month(nodes, pods(), emptied=replace(plan, empty_nodes=()), table=replace(TABLE, otherwise=None))
    assert [saving.step for saving in unpriced.savings] == ["empty d"]


def test_the_groups_that_pay_most_are_shown() -> None:
    given = [(f"shop/{letter}1", "a", 1 + at, 0) for at, letter in enumerate("abcdefghijklm")]
    found = month(columns(a=(100, 8)), pods(*given))
    assert [one.name[-1] for one in found.workloads] == list("mlkjihgfedcba")[:SHOWN]
    assert len(found.workloads) == SHOWN < len(given)
