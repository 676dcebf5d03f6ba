"""Which pods wait for what, and which of them lending would hold, on clusters that can be counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fakes.cluster.assessed import NOW_S, node, pod, replica_set, resource_quota, snapshot

from cotenant.drivers.kube.snapshot.anonymise import Words, anonymised
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory
from cotenant.model.assess.prices import NodeRule, PriceTable
from cotenant.model.assess.report import AssessmentReport, WaitCause
from cotenant.services.assess.page import page
from cotenant.services.assess.whole_report import assess
from cotenant.services.assess.words import held


def three_days(cpu_m: float) -> ClusterHistory:
    """Of node a."""
    steps = 3 * 288
    none = np.zeros((0, steps), np.float32)
    few = np.zeros(0, np.float32)
    row = np.full((1, steps), cpu_m, np.float32)
    nodes = AssessedHistory(NOW_S - steps * 300.0, 300.0, ("a",), row, row / 2, "made up")
    return ClusterHistory(PodHistory(AssessedHistory(0.0, 300.0, (), none, none, "made up"), (), (), few, few), nodes)


def reasons(report: AssessmentReport) -> dict[WaitCause, tuple[str, int]]:
    return {group.holder: (group.why, group.pods) for group in report.waiting}


HALF = resource_quota({"requests.cpu": "3", "pods": "10"}, {"requests.cpu": "2500m", "pods": "2"})


def test_pods_that_a_quota_refuses_are_missing_and_lack_no_room() -> None:
    objects = [node("a", "64"), pod("p", "a"), pod("q", "a"), replica_set(5), HALF]
    report = assess(snapshot(objects), None, 0.01)
    why = "ResourceQuota shop/team allows no more: requests.cpu 2500m of 3 used"
    assert reasons(report) == {WaitCause.QUOTA: (why, 3)}
    assert held(report) == "0 pods lack room; 3 wait for a quota."
    assert "3 wait for a quota" in page(report, "")


@pytest.mark.parametrize(
    ("quota", "replicas"),
    [
        (HALF, 2),  # all that are wanted are there
        (resource_quota({"requests.cpu": "4"}, {"requests.cpu": "2500m"}), 5),  # one more would be allowed
        (resource_quota({"pods": "2"}, {"pods": "2"}, scopes=["BestEffort"]), 5),  # of some pods only
        (resource_quota({"limits.cpu": "1", "services": "1"}, {"limits.cpu": "1", "services": "1"}), 5),
    ],
)
def test_what_is_no_quota_that_holds(quota: dict[str, Any], replicas: int) -> None:
    objects = [node("a", "64"), pod("p", "a"), pod("q", "a"), replica_set(replicas), quota]
    assert assess(snapshot(objects), None, 0.01).waiting == ()


def test_without_a_sibling_only_a_quota_that_is_used_up_holds() -> None:
    used_up = resource_quota({"requests.memory": "8Gi"}, {"requests.memory": "8Gi"})
    assert reasons(assess(snapshot([node("a"), replica_set(2), used_up]), None, 0.01))[WaitCause.QUOTA][1] == 2
    left = resource_quota({"requests.memory": "8Gi"}, {"requests.memory": "7Gi"})
    assert assess(snapshot([node("a"), replica_set(2), left]), None, 0.01).waiting == ()


def test_a_quota_that_cannot_be_read_is_named() -> None:
    broken = resource_quota({"pods": "many"}, {})
    report = assess(snapshot([node("a"), broken]), None, 0.01)
    assert any("ResourceQuota shop/team: hard[pods]" in note for note in report.source.lacking)


def test_quotas_hold_as_many_without_names() -> None:
    objects = [node("a", "64"), pod("p", "a"), pod("q", "a"), replica_set(5), HALF]
    hidden = assess(anonymised(snapshot(objects), Words(b"secret")), None, 0.01)
    (group,) = hidden.waiting
    assert (group.holder, group.pods) == (WaitCause.QUOTA, 3)
    assert "requests.cpu 2500m of 3 used" in group.why
    assert "shop" not in group.why


def test_room_that_is_free_already_is_not_lent_once_more() -> None:
    # of 8 cores, 4 are requested and about 7.9 could be lent: 3.9 beyond the 4 that are free
    running = [pod(f"r{i}", "a", "2") for i in range(2)]
    waits = [pod(f"w{i}", cpu="1500m") for i in range(9)]
    report = assess(snapshot([node("a"), *running, *waits]), three_days(100.0), 0.01)
    now = sum(group.placed_now for group in report.waiting)
    lent = sum(group.placed_lent or 0 for group in report.waiting)
    assert (now, lent) == (2, 5)
    assert {group.holder for group in report.waiting} == {WaitCause.NOTHING, WaitCause.ROOM}
    assert "7 pods lack room; 2 cotenant would place now. With what could be lent 3 of those" in held(report)


def test_batch_pods_are_held_by_what_is_lent_to_batch() -> None:
    resources = {"requests": {"kubernetes.io/batch-cpu": "3000", "kubernetes.io/batch-memory": "1Gi"}}
    resources["limits"] = resources["requests"]
    waits = [pod(f"b{i}", containers=[{"name": "main", "resources": resources}]) for i in range(4)]
    report = assess(snapshot([node("a"), *waits]), three_days(1000.0), 0.01)
    assert sum(group.placed_now for group in report.waiting) == 0
    assert sum(group.placed_lent or 0 for group in report.waiting) == 2  # of about 7 cores


def test_pods_that_no_node_suits_lack_no_room() -> None:
    report = assess(snapshot([node("a"), pod("p", nodeSelector={"disk": "ssd"})]), None, 0.01)
    assert [group.holder for group in report.waiting] == [WaitCause.RULES]
    assert held(report) == "0 pods lack room; 1 waits for their rules."


def test_what_each_step_saves_is_the_price_of_its_nodes() -> None:
    prices = PriceTable("EUR", (NodeRule(2.0, name="b"), NodeRule(1.0, name="c")))
    objects = [node("a"), node("b"), node("c"), pod("p", "a", "3"), pod("q", "b"), pod("r", "a"), replica_set(3)]
    money = assess(snapshot(objects), None, 0.01, prices=prices).money
    assert money is not None
    by_step = {saving.step: saving.month for saving in money.savings}
    assert by_step == {"remove 1 node without pods to move": 730.0, "empty b": 1460.0}
    assert money.emptied == 1460.0
