"""What is said of small clusters whose answers can be counted by hand; the engine is the real one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.fakes.cluster.assessed import NOW_S, budget, node, node_metric, pod, replica_set, snapshot

from cotenant.drivers.kube.snapshot.anonymise import Words, anonymised
from cotenant.model.assess.figure import AssessedFigure
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory
from cotenant.model.assess.meters import CardUse, CardUses, Energy, Meters
from cotenant.model.assess.prices import NodeRule, PriceTable, UnitPrices
from cotenant.model.assess.report import AssessmentReport
from cotenant.services.assess.page import page
from cotenant.services.assess.whole_report import assess
from cotenant.services.assess.words import headline, spent


def value(report: AssessmentReport, key: str) -> float | None:
    return next(figure for figure in report.figures if figure.key == key).value


def use(nodes: dict[str, np.ndarray], step_s: float = 300.0) -> ClusterHistory:
    rows = np.array(list(nodes.values()), np.float32)
    none = np.zeros((0, rows.shape[1]), np.float32)
    pods = AssessedHistory(0.0, step_s, (), none, none, "made up")
    few = np.zeros(0, np.float32)
    of_nodes = AssessedHistory(NOW_S - rows.shape[1] * step_s, step_s, tuple(nodes), rows, rows / 2, "made up")
    return ClusterHistory(PodHistory(pods, (), (), few, few), of_nodes)


def test_sums_are_those_of_the_objects() -> None:
    report = assess(
        snapshot([node("a"), node("b"), pod("p", "a", "2", "3Gi"), pod("q", "b"), replica_set(2)]), None, 0.01
    )
    assert (report.nodes, report.pods) == (2, 2)
    assert value(report, "cpu_allocatable") == 16
    assert value(report, "cpu_allocated") == 3
    assert value(report, "memory_allocated") == 4
    assert value(report, "memory_free") == 28
    assert [(workload.name, workload.pods) for workload in report.workloads] == [("shop/Deployment/web", 2)]


PRICES = PriceTable("EUR", (NodeRule(2.0, name="dear"),), UnitPrices(0.04, 0.005))


def test_what_is_paid_and_what_nobody_asked_for_is_the_price_of_the_nodes() -> None:
    objects = [node("a"), node("dear"), pod("p", "a", "2", "3Gi"), pod("q", "dear"), node_metric("a", {"p": 500}, 900)]
    money = assess(snapshot(objects), None, 0.01, prices=PRICES).money
    assert money is not None
    assert (money.currency, money.unpriced_nodes) == ("EUR", 0)
    assert money.nodes == pytest.approx(730 * (8 * 0.04 + 16 * 0.005 + 2.0))
    assert money.pods.paid + money.free == pytest.approx(money.nodes)
    (shop,) = money.namespaces
    assert (shop.name, shop.pods, money.tenants) == ("shop", 2, ())
    assert shop.used + shop.idle == pytest.approx(shop.paid)
    assert shop.idle == pytest.approx(730 * (1.5 * 0.04 + 2.5 * 0.005))  # q was not measured: wholly used
    assert shop.unmeasured == 1
    assert "EUR a month" in spent(money)


def test_nodes_without_a_price_are_left_out_and_counted() -> None:
    only = PriceTable("", (NodeRule(2.0, name="dear"),))
    objects = [node("a"), node("dear"), pod("p", "a"), pod("q", "dear")]
    money = assess(snapshot(objects), None, 0.01, prices=only).money
    assert money is not None
    assert (money.nodes, money.unpriced_nodes, money.pods.unpriced) == (730 * 2.0, 1, 1)
    assert "1 node without a price, with 1 pod, left out." in spent(money)
    empty = assess(snapshot([node("a")]), None, 0.01, prices=only).money
    assert empty is not None
    assert (empty.nodes, empty.pods.pods, empty.namespaces) == (0.0, 0, ())


def test_every_figure_has_a_definition_and_an_interval_or_says_why_not() -> None:
    report = assess(snapshot([node("a"), pod("p", "a")]), None, 0.01)

    def walk(part: Any) -> list[AssessedFigure]:
        if isinstance(part, AssessedFigure):
            return [part]
        if isinstance(part, tuple):
            return [figure for one in part for figure in walk(one)]
        return [figure for name in getattr(part, "__slots__", ()) for figure in walk(getattr(part, name))]

    found = walk(report)
    assert len(found) > 20
    for figure in found:
        assert figure.definition
        assert figure.interval
        assert (figure.value is None) == bool(figure.why)
    assert len({figure.key for figure in found}) == len(found)


@pytest.mark.slow
def test_days_that_are_alike_give_a_range_and_unlike_ones_no_amount() -> None:
    steps = np.arange(8 * 288)
    rng = np.random.default_rng(3)
    alike = 3000.0 + 500.0 * np.sin(2 * np.pi * steps / 288) + rng.normal(0, 50, len(steps))
    ours = assess(snapshot([node("a"), pod("p", "a", "7")]), use({"a": alike}), 0.01).lendable[0].ours
    assert ours.low is not None
    assert ours.high is not None
    exact = 8 - np.quantile(alike, 0.99) / 1000  # of every day, as they are alike
    assert exact - 0.1 < ours.low < exact < ours.high < exact + 0.1
    assert "80 %" in ours.interval
    unlike = 400.0 + 7400.0 * np.repeat([0, 1, 0, 0, 1, 0, 0, 1], 288)
    report = assess(snapshot([node("a"), pod("p", "a", "7")]), use({"a": unlike}), 0.01)
    assert report.lendable[0].ours.value is None
    assert "cannot be said from this history, because" in report.lendable[0].ours.why
    assert "0 cores by the rule, and 0 to 8 by its misses" in report.lendable[0].ours.why


def test_two_days_are_an_amount_whose_range_is_not_known() -> None:
    ours = assess(snapshot([node("a")]), use({"a": np.full(2 * 288, 3000.0)}), 0.01).lendable[0].ours
    assert (ours.low, ours.high) == (None, None)
    assert ours.value == pytest.approx(5.0, abs=0.2)
    assert "too few to try" in ours.interval


def test_nodes_of_other_systems_and_without_room_are_counted_as_any() -> None:
    arm, windows, empty = node("arm"), node("windows"), node("empty")
    arm["metadata"]["labels"] |= {"kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux"}
    windows["metadata"]["labels"] |= {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "windows"}
    empty["status"]["allocatable"] = {"cpu": "0", "memory": "0", "pods": "0"}
    waits = pod("p", "", "1")
    waits["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    report = assess(snapshot([arm, windows, empty, waits]), None, 0.01)
    assert (report.nodes, value(report, "cpu_allocatable")) == (2, 16)
    assert any("node empty: allocatable.cpu" in note for note in report.source.notes)
    assert [(one.pods, one.placed_now) for one in report.waiting] == [(1, 0)]


def test_use_of_one_moment_gives_idle_and_no_quantiles() -> None:
    objects = [node("a"), pod("p", "a", "4"), replica_set(1), node_metric("a", {"p": 1000}, 1100)]
    report = assess(snapshot(objects), None, 0.01)
    assert value(report, "cpu_used_last") == pytest.approx(1.1)
    assert value(report, "cpu_idle") == pytest.approx(3.0)
    assert value(report, "cpu_used_p99_day") is None
    assert [(one.name, one.idle_cpu_m) for one in report.idle] == [("shop/Deployment/web", 3000.0)]
    batch = report.lendable[0]
    assert batch.koordinator.value == pytest.approx(8 - 3.2 - 0.1 - 1.0)
    assert batch.ours.value is None
    assert "history" in batch.ours.why


def test_reported_histories_give_lendable_amounts_at_the_stated_risk() -> None:
    spread = {"mean": 1000.0, "deviation": 100.0, "highest": 1500.0}
    history = {
        "samples": 400,
        "weight": 300.0,
        "cpu": spread,
        "memory": {"mean": 1e8, "deviation": 0.0, "highest": 1e8},
    }
    objects = [node("a"), pod("p", "a", "4"), replica_set(1)]
    metric = node_metric("a", {"p": 1000}, 1100, extensions={"cotenant": {"useHistory": history}})
    amounts = [assess(snapshot([*objects, metric]), None, risk).lendable[0].ours.value for risk in (0.01, 0.1)]
    low, high = (amount or 0.0 for amount in amounts)
    assert 0 < low < high < 8 - 1 - 0.1


def test_what_batch_work_uses_already_is_told_with_what_could_be_lent() -> None:
    spread = {"mean": 1000.0, "deviation": 0.0, "highest": 1000.0}
    history = {"samples": 400, "weight": 300.0, "cpu": spread, "memory": {**spread, "mean": 1e8, "highest": 1e8}}
    batch = pod("job", "a", "0", "0")
    batch["spec"]["containers"][0]["resources"] = {}
    metric = node_metric("a", {"p": 1000, "job": 2500}, 3600, extensions={"cotenant": {"useHistory": history}})
    report = assess(snapshot([node("a"), pod("p", "a", "4"), batch, metric]), None, 0.01)
    assert [one.in_use for one in report.lendable] == [2.5, 0.5, None, None]
    assert "of which batch work uses already" in headline(report)
    assert "batch and free pods use 2.5 cores of it now" in report.lendable[0].ours.definition


def test_a_history_of_days_gives_what_stays_free() -> None:
    steps = np.arange(3 * 288)
    course = 3000.0 + 1000.0 * np.sin(2 * np.pi * steps / 288)
    report = assess(snapshot([node("a"), pod("p", "a", "7")]), use({"a": course}), 0.01)
    ours = report.lendable[0].ours
    assert ours.value is not None
    assert 3.0 < ours.value <= 4.3
    assert value(report, "cpu_used_p99_day") == pytest.approx(4.0, abs=0.02)
    low_high = next(figure for figure in report.figures if figure.key == "cpu_used_p99_week")
    assert (low_high.low, low_high.high) == (pytest.approx(4.0, abs=0.02),) * 2
    assert report.back_test is not None
    assert len(report.back_test.scores) > 3


def test_pods_that_wait_are_counted_by_reason_and_by_what_would_hold_them() -> None:
    running = [pod(f"r{i}", "a", "2") for i in range(4)]
    waits = [pod("small", cpu="1"), pod("huge", cpu="64"), pod("gated", schedulingGates=[{"name": "later"}])]
    report = assess(snapshot([node("a"), *running, *waits]), use({"a": np.full(3 * 288, 100.0)}), 0.01)
    by_pods = {entry.why: (entry.pods, entry.placed_now, entry.placed_lent) for entry in report.waiting}
    assert by_pods.pop("scheduling gates: later") == (1, 0, 0)
    assert sum(pods for pods, _, _ in by_pods.values()) == 2
    assert sum(now for _, now, _ in by_pods.values()) == 0
    assert sum(lent or 0 for _, _, lent in by_pods.values()) == 1


def test_a_node_is_emptied_within_budgets_and_not_without() -> None:
    objects = [node("a"), node("b"), pod("p", "a"), pod("q", "b", "3"), pod("r", "b"), replica_set(3)]
    free = assess(snapshot([*objects, budget(2)]), None, 0.01).consolidation
    assert [(one.node, one.pods, one.targets) for one in free.emptied] == [("a", 1, 1)]
    assert (free.cpu_m, free.memory_mib) == (8000, 16384)
    held = assess(snapshot([*objects, budget(0)]), None, 0.01).consolidation
    assert held.emptied == ()
    assert any("PodDisruptionBudget" in refused.why for refused in held.refused)


def test_nodes_without_pods_are_empty_already() -> None:
    found = assess(snapshot([node("a"), node("b"), pod("p", "a"), replica_set(1)]), None, 0.01).consolidation
    assert len(found.empty_nodes) == 1


def test_a_pod_whose_node_rejects_it_would_go_elsewhere() -> None:
    wants = {"nodeSelector": {"disk": "ssd"}}
    report = assess(snapshot([node("a"), node("b", disk="ssd"), pod("p", "a", **wants)]), None, 0.01)
    assert (report.placement.asked, report.placement.rejected) == (1, 1)
    assert [(one.pod, one.better, one.place) for one in report.placement.elsewhere] == [("shop/p", "b", 0)]


def test_figures_are_the_same_without_names() -> None:
    objects = [
        node("a"), node("b"), pod("p", "a", "4"), pod("q"), pod("r", cpu="99"), replica_set(3), budget(2),
        node_metric("a", {"p": 1000}, 1100),
    ]  # fmt: skip
    given = snapshot(objects)
    plain, hidden = assess(given, None, 0.01), assess(anonymised(given, Words(b"secret")), None, 0.01)
    assert hidden.source.is_anonymised
    assert [(f.key, f.value) for f in hidden.figures] == [(f.key, f.value) for f in plain.figures]
    assert [one.ours.value for one in hidden.lendable] == [one.ours.value for one in plain.lendable]
    assert [(one.why, one.pods) for one in hidden.waiting] == [(one.why, one.pods) for one in plain.waiting]
    assert len(hidden.consolidation.emptied) == len(plain.consolidation.emptied)
    assert "shop" not in msgspec.json.encode(hidden).decode()


def test_cards_and_energy_are_said_where_they_are_measured() -> None:
    card = node("a")
    card["status"]["allocatable"] |= {"nvidia.com/gpu": "2"}
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    objects = [card, pod("p", "a", containers=[{"name": "main", "resources": resources}]), replica_set(1)]
    unasked = assess(snapshot(objects), None, 0.01)
    (gpu,) = unasked.cards
    assert (gpu.cards, gpu.allocated, gpu.used.value) == (2, 1, None)
    assert "none was given" in gpu.shareable.why
    assert unasked.energy is None
    assert "none was given" in next(figure for figure in unasked.figures if figure.key == "energy_pods").why
    cards = (CardUse("a", "G0", (20.0,), (30.0,), 10.0, "shop/p"), CardUse("a", "G1", (0.0,), (0.0,), 0.0))
    energy = Energy((("shop/p", (3.6e6,)), ("shop/gone", (1.8e6,))), (9e6,), "Kepler", "")
    history = replace(use({"a": np.full(288, 100.0)}), meters=Meters(CardUses(cards, "DCGM", "", True), energy))
    report = assess(snapshot(objects), history, 0.01)
    (gpu,) = report.cards
    assert (gpu.used.value, gpu.shareable.value) == (pytest.approx(0.2), 1)
    assert value(report, "energy_pods") == pytest.approx(1.5)
    assert value(report, "energy_nodes") == pytest.approx(2.5)
    assert report.energy is not None
    assert [(one.name, one.kwh_a_day) for one in report.energy.workloads] == [
        ("shop/Deployment/web", 1.0),
        ("shop, not known", 0.5),
    ]
    assert "kWh a day" in page(report, "")


HOSTILE = [
    "",
    "‮gnp.exe",
    "<script>alert(1)</script>",
    "नमस्ते-שלום-你好-🙂",
    "a" * 3000,
    "a/b/c",
    "\x1b[31mred",
    "'; DROP TABLE",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_in_every_script_are_shown_and_run_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from cotenant.cli.assess.assess_tables import show

    objects = [node("a"), node(f"n{name}"), pod(f"p{name}", "a"), pod(f"w{name}", cpu="99")]
    report = assess(snapshot(objects), None, 0.01)
    text = page(report, "a test")
    assert "<script>alert" not in text
    show(report)
    shown = capsys.readouterr().out
    assert "\x1b[31m" not in shown
    assert json.loads(msgspec.json.encode(report))["nodes"] == 2


def test_nodes_of_no_size_and_amounts_that_are_none_are_named_and_not_counted() -> None:
    odd = [node("zero", "0", "0"), node("nan", "NaN"), node("huge", "1e300"), node("minus", "-4")]
    objects = [node("a"), *odd, pod("p", "a"), pod("q", "zero"), pod("nan", cpu="NaN"), pod("inf", cpu="inf")]
    report = assess(snapshot(objects), None, 0.01)
    assert value(report, "cpu_allocatable") == 8
    assert any("nan" in note for note in report.source.notes)
    page(report, "a test")


def test_a_cluster_of_nothing() -> None:
    report = assess(snapshot([]), None, 0.01)
    assert (report.nodes, report.pods, report.waiting) == (0, 0, ())
    page(report, "a test")


def test_ten_thousand_namespaces() -> None:
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"ns-{i}"}} for i in range(10_000)]
    one = pod("p", "a")
    one["metadata"]["namespace"] = "ns-9999"
    report = assess(snapshot([node("a"), one, *spaces]), None, 0.01)
    assert report.workloads[0].name == "ns-9999/ReplicaSet/web-rs"


def test_a_history_without_places_takes_them_from_running_pods() -> None:
    values = np.full((2, 20), 1500.0, np.float32)
    of_pods = AssessedHistory(NOW_S - 6000.0, 300.0, ("shop/p", "shop/gone"), values, values, "made up")
    few = np.full(2, np.nan, np.float32)
    nodes = use({"a": np.full(20, 1600.0)}).nodes
    given = ClusterHistory(PodHistory(of_pods, ("", ""), ("", ""), few, few), nodes)
    report = assess(snapshot([node("a"), pod("p", "a", "4"), replica_set(1)]), given, 0.01)
    assert [(one.name, one.cpu_p99_m, one.idle_cpu_m) for one in report.idle] == [
        ("shop/Deployment/web", 1500.0, 2500.0)
    ]


def test_sizes_are_tried_where_days_of_pods_are_known() -> None:
    hours = np.arange(4 * 24)
    busy = np.where(hours % 24 < 6, 2000.0, 500.0).astype(np.float32)
    rows = np.stack([busy, np.full(len(hours), 700.0, np.float32)])
    of_pods = AssessedHistory(NOW_S - 4 * 86_400.0, 3600.0, ("shop/p", "shop/q"), rows, rows, "made up")
    few = np.full(2, np.nan, np.float32)
    nodes = use({"a": busy}, 3600.0).nodes
    alone = pod("q", "a", "1")
    del alone["metadata"]["ownerReferences"]
    objects = snapshot([node("a"), pod("p", "a", "4"), alone, replica_set(1)])
    given = ClusterHistory(PodHistory(of_pods, ("a", "a"), ("shop/Deployment/web", ""), few, few), nodes)
    tried = assess(objects, given, 0.01).sizes
    assert tried is not None
    assert tried.workloads == 2
    requests = next(one for one in tried.rules if one.rule == "requests")
    assert requests.over_pct == pytest.approx(100 * (5000 - 2700) / 2700)
    assert tried.rules[0].loss_pct is not None
    assert requests.loss_pct is not None
    assert tried.rules[0].loss_pct < requests.loss_pct
    short = assess(objects, use({"a": busy[:30]}, 3600.0), 0.01)
    assert short.sizes is None


def test_objects_that_cannot_be_used_are_named_as_not_read() -> None:
    odd = pod("odd", "a")
    odd["spec"]["nodeName"] = 5
    given = snapshot([node("a"), pod("p", "a"), odd])
    kinds = tuple(replace(kind, malformed=2) if kind.key == "v1/pods" else kind for kind in given.kinds)
    report = assess(replace(given, kinds=kinds), None, 0.01)
    assert report.source.lacking[0] == "pods: 2 entries were no objects with a name"
    assert report.source.lacking[1] == "1 of Pod, not readable and not counted"
    assert report.pods == 1
