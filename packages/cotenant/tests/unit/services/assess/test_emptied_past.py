"""Emptying tried on the past, and what the plan of today does not empty for what comes, on nodes counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fakes.cluster.assessed import NOW_S, node, pod, replica_set, snapshot

from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory
from cotenant.model.assess.report import AssessmentReport
from cotenant.policy.assess.emptied_judging import EmptyingOutcome
from cotenant.services.assess.emptied_past import interval_of, verdict
from cotenant.services.assess.used_room import COMES_BACK
from cotenant.services.assess.whole_report import assess

NAN = float("nan")
HOURS = 8 * 24


def outcome(
    rule: str = "ours", nodes: int = 2, squeezed: float = 0.0, unplaced: int = 0, **more: float
) -> EmptyingOutcome:
    given = {"low_pct": NAN, "high_pct": NAN, "before_pct": 0.0, "peak_pct": NAN, "late": 100, "days": 4} | more
    return EmptyingOutcome(
        rule, tuple(range(nodes)), 3 * nodes, squeezed, given["low_pct"], given["high_pct"], given["before_pct"], 0,
        given["peak_pct"], int(given["late"]), unplaced, 0, 1000, int(given["days"]),
    )  # fmt: skip


def test_the_verdict_says_what_came_and_who_was_better() -> None:
    said = verdict([outcome(nodes=1, squeezed=0.5, low_pct=0.2, high_pct=0.8, peak_pct=93.4, late=1)], 0.01)
    assert said == (
        "By the first half of the history the plan would have emptied 1 node, and moved 3 pods. In the second half 0.5 "
        "% of pods' time (0.2 to 0.8, 95 %) would have been on a node with more use than it has, and 0 % without any "
        "move. Of 1 pod that came later none would have found no place; the fullest node that took pods in reached 93 "
        "% of its capacity. The stated risk of 1 % was kept. There is no other rule to compare with."
    )
    assert "would have emptied no node. No other rule" in verdict([outcome(nodes=0), outcome("r", 0)], 0.01)
    late = verdict([outcome(unplaced=2, late=100), outcome("r", 1)], 0.01)
    assert "2 would have found no place. The stated risk of 1 % was not kept" in late
    assert "The rule r was better: 1 node emptied, 0 % squeezed, 0 pods without a place." in late
    assert "No pod came later." in verdict([outcome(late=0)], 0.01)
    assert "the most that is tried" in verdict([outcome(nodes=100)], 0.01)


@pytest.mark.parametrize(
    ("ours", "rival", "is_better"),
    [
        (outcome(nodes=3), outcome("r", 4, 1.1), False),  # more nodes at more than the stated risk
        (outcome(nodes=3), outcome("r", 4, 0.9), True),
        (outcome(nodes=3), outcome("r", 3), False),  # level
        (outcome(nodes=3, squeezed=0.2), outcome("r", 3, 0.1), True),
        (outcome(nodes=3, squeezed=3.0), outcome("r", 9, 2.0), True),  # neither kept it
        (outcome(nodes=3, squeezed=3.0, before_pct=2.5), outcome("r", 9, 9.0, before_pct=2.5), False),
        (outcome(nodes=3, unplaced=1), outcome("r", 4, unplaced=2), False),  # 1 and 2 of 100
    ],
)
def test_rules_that_keep_the_risk_come_first_and_then_those_with_more_nodes(
    ours: EmptyingOutcome, rival: EmptyingOutcome, is_better: bool
) -> None:
    assert ("was better" in verdict([ours, rival], 0.01)) == is_better


def test_an_interval_or_why_there_is_none() -> None:
    assert interval_of(outcome(low_pct=0.1, high_pct=0.2)) == (
        "95 % by the spread of the 4 whole days of the second half, by Student's law"
    )
    assert interval_of(outcome(days=1)) == "none: the second half has 1 whole day, and a spread needs 2"
    assert "nothing was squeezed on any of the 4 whole days" in interval_of(outcome())


def history(cpu_m: dict[str, np.ndarray], on: dict[str, str], nodes: list[str], requested: float) -> ClusterHistory:
    """Pods of shop by the hour; what they use is all that their nodes do."""
    rows = np.array(list(cpu_m.values()), np.float32)
    start_s = NOW_S - rows.shape[1] * 3600.0
    names = tuple(f"shop/{name}" for name in cpu_m)
    use = AssessedHistory(start_s, 3600.0, names, rows, np.where(np.isnan(rows), np.nan, 100.0).astype(np.float32))
    of_nodes = np.array([np.nansum(rows[[on[name] == node for name in cpu_m]], axis=0) for node in nodes], np.float32)
    asked = np.full(len(names), requested, np.float32)
    pods = PodHistory(use, tuple(on.values()), ("shop/ReplicaSet/web-rs",) * len(names), asked, asked)
    of = AssessedHistory(start_s, 3600.0, tuple(nodes), of_nodes, np.full(of_nodes.shape, 200.0, np.float32), "made up")
    return ClusterHistory(pods, of)


def reported(past: ClusterHistory, on: dict[str, str], nodes: list[str], requested_m: int) -> AssessmentReport:
    pods = [pod(name, where, f"{requested_m}m", "1Gi") for name, where in on.items()]
    return assess(snapshot([*map(node, nodes), *pods, replica_set(len(on))]), past, 0.01)


ON = {"p": "a", "q": "b", "r": "c"}


def test_the_trial_stands_in_the_report_with_its_nodes_and_its_interval() -> None:
    flat = {name: np.full(HOURS, 1000.0) for name in ON}
    trial = reported(history(flat, ON, ["a", "b", "c"], 1000.0), ON, ["a", "b", "c"], 1000).emptying
    assert trial is not None
    assert trial.resource == "CPU and memory of nodes"
    plan, by_requests = trial.rules[:2]
    assert (plan.nodes, plan.moved, plan.squeezed.value) == (("a", "c"), 2, 0.0)
    assert (by_requests.rule, by_requests.nodes) == ("requests", ("a", "c"))
    assert "nothing was squeezed" in plan.squeezed.interval
    assert "the plan would have emptied 2 nodes, and moved 2 pods" in trial.verdict


@pytest.mark.slow
def test_a_node_stays_whose_pods_use_more_than_would_fit_elsewhere() -> None:
    """Each requests a quarter of a core and uses 4.5 of eight."""
    busy = {name: np.full(HOURS, 4500.0) for name in ON}
    full = reported(history(busy, ON, ["a", "b", "c"], 250.0), ON, ["a", "b", "c"], 250).consolidation
    assert full.emptied == ()
    would = "what its pods will use does not fit where they would go, at 1 % risk"
    assert [(one.nodes, one.why) for one in full.refused] == [(2, would)]
    assert full.basis == "by requests, and by what use will stay below on the next day but for 1 % of the time"
    calm = {name: np.full(HOURS, 100.0) for name in ON}
    found = reported(history(calm, ON, ["a", "b", "c"], 250.0), ON, ["a", "b", "c"], 250).consolidation
    assert len(found.emptied) == 2


def test_nodes_are_kept_for_what_was_requested_before() -> None:
    """Twenty-four pods of a core ran until yesterday, of which three are left: three nodes of eight cores stay."""
    gone = {f"g{i}": np.where(np.arange(HOURS) < HOURS - 24, 100.0, np.nan) for i in range(16)}
    use = {name: np.full(HOURS, 100.0) for name in ON} | gone
    on = ON | {name: "abcd"[i % 4] for i, name in enumerate(gone)}
    nodes = ["a", "b", "c", "d"]
    found = reported(history(use, on, nodes, 1000.0), ON, nodes, 1000).consolidation
    assert len(found.emptied) == 1  # of 32 cores 1.25 times 19 stay
    assert [one.nodes for one in found.refused if one.why == COMES_BACK] == [1]


def test_without_a_history_it_is_by_requests_alone() -> None:
    pods = [pod(name, where, "250m") for name, where in ON.items()]
    found = assess(snapshot([*map(node, "abc"), *pods, replica_set(3)]), None, 0.01).consolidation
    assert len(found.emptied) == 2
    assert found.basis == "by requests alone, as use over two days is not known"
