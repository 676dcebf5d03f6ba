"""Which objective covers a pod, and what its status says about a move."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.traces.objective import FiringAlert, Indicator, ObjectiveState, ObjectiveStatus
from cotenant.policy.rebalance.standings import CURRENT_S, MoveEvidence, Standings

OK = ObjectiveStatus("shop/cart-latency", "shop", "cart", Indicator.LATENCY, ObjectiveState.OK, {"5m": 0.4, "1h": 0.2})
ALERT = FiringAlert("1h", "5m", 14.4)
BURNING = replace(
    OK,
    state=ObjectiveState.BURNING,
    burn={"5m": 30.0, "1h": 20.0},
    firing=(ALERT,),
    worst="shop/cart-1",
    worst_burn=55.0,
)
CART = Labels.of({"app": "cart"})


def evidence(*statuses: ObjectiveStatus, now_s: float = 10.0) -> tuple[MoveEvidence, str] | None:
    standings = Standings()
    for status in statuses:
        standings.seen(status, 0.0)
    found = standings.of("shop", CART, "", now_s)
    return (found.evidence, found.words) if found is not None else None


def test_an_alert_that_fires_is_evidence_and_an_objective_that_holds_is_evidence_against() -> None:
    burns = "ServiceObjective shop/cart-latency burns its budget: burn rate 20.0 over 1h and 30.0 over 5m, above 14.4"
    assert evidence(BURNING) == (MoveEvidence.BURNS, burns)
    holds = "ServiceObjective shop/cart-latency does not burn its budget: no alert fires, burn rate 0.4 over 5m"
    assert evidence(OK) == (MoveEvidence.HOLDS, holds)
    assert evidence() is None


def test_a_budget_that_was_used_up_burns_only_while_an_alert_fires() -> None:
    assert (evidence(replace(OK, state=ObjectiveState.EXHAUSTED)) or (None,))[0] is MoveEvidence.HOLDS
    assert (evidence(replace(BURNING, state=ObjectiveState.EXHAUSTED)) or (None,))[0] is MoveEvidence.BURNS


@pytest.mark.parametrize(
    ("status", "now_s", "words"),
    [
        (replace(OK, state=ObjectiveState.NO_DATA), 0.0, "ServiceObjective shop/cart-latency has no data"),
        (replace(OK, alerts=False), 0.0, "the alerts of ServiceObjective shop/cart-latency are off"),
        (replace(OK, state=None), 0.0, "ServiceObjective shop/cart-latency has no status that can be read"),
        (BURNING, CURRENT_S + 1.0, "the status of ServiceObjective shop/cart-latency has not changed for 301 s"),
    ],
)
def test_without_data_there_is_no_evidence(status: ObjectiveStatus, now_s: float, words: str) -> None:
    assert evidence(status, now_s=now_s) == (MoveEvidence.NO_DATA, words)


def test_a_status_that_is_seen_again_unchanged_does_not_become_newer() -> None:
    standings = Standings()
    standings.seen(BURNING, 0.0)
    standings.seen(replace(BURNING), CURRENT_S)
    assert standings.burning(CURRENT_S)
    assert not standings.burning(CURRENT_S + 1.0)
    standings.seen(replace(BURNING, worst_burn=54.0), CURRENT_S + 2.0)
    assert [standing.status.key for standing in standings.burning(2 * CURRENT_S)] == ["shop/cart-latency"]


def test_a_service_without_a_bad_request_holds_as_long_as_requests_are_counted() -> None:
    standings = Standings()
    for number in range(10):
        standings.seen(replace(OK, burn={"5m": 0.0}, requests=number), 100.0 * number)
    found = standings.of("shop", CART, "", 1000.0)
    assert found is not None
    assert found.evidence is MoveEvidence.HOLDS


def test_the_strongest_of_several_objectives_counts() -> None:
    silent = replace(OK, key="shop/a", state=ObjectiveState.NO_DATA)
    other = replace(BURNING, key="shop/z")
    assert (evidence(silent, OK) or (None,))[0] is MoveEvidence.HOLDS
    assert (evidence(silent, OK, other) or (None,))[0] is MoveEvidence.BURNS


def test_objectives_of_errors_do_not_count() -> None:
    assert evidence(replace(BURNING, indicator=Indicator.ERRORS)) is None
    standings = Standings()
    standings.seen(BURNING, 0.0)
    standings.seen(replace(BURNING, indicator=Indicator.ERRORS), 1.0)
    assert standings.find(BURNING.key) is None


@pytest.mark.parametrize(
    ("namespace", "labels", "workload", "covered"),
    [
        ("shop", CART, "", True),
        ("shop", Labels.of({"app.kubernetes.io/name": "cart", "app": "x"}), "", True),
        ("spans", CART, "", True),
        ("other", CART, "", False),
        ("shop", Labels.of({"app": "checkout"}), "", False),
        ("shop", NO_LABELS, "", False),
        ("other", NO_LABELS, "rs-1", True),
        ("other", NO_LABELS, "rs-2", False),
    ],
)
def test_covered_by_application_or_by_the_workload_of_a_worst_replica(
    namespace: str, labels: Labels, workload: str, covered: bool
) -> None:
    standings = Standings()
    standings.seen(replace(OK, service_namespace="spans"), 0.0)
    standings.has_replica(OK.key, "rs-1")
    assert (standings.of(namespace, labels, workload, 0.0) is not None) is covered
    standings.gone(OK.key)
    assert standings.of(namespace, labels, workload, 0.0) is None


def test_the_oldest_workloads_of_a_service_are_forgotten() -> None:
    standings = Standings()
    standings.seen(OK, 0.0)
    for number in range(20):
        standings.has_replica(OK.key, f"rs-{number}")
    assert [number for number in range(20) if standings.of("x", NO_LABELS, f"rs-{number}", 0.0)] == list(range(4, 20))
