"""A cluster whose load only a history knows: what needs NodeMetrics is said all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fakes.cluster.assessed import NOW_S, node, node_metric, pod, replica_set, snapshot

from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory
from cotenant.model.assess.report import AssessmentReport
from cotenant.services.assess.whole_report import assess

STEPS, STEP_S = 24, 300.0


def history(nodes: dict[str, float], pods: dict[str, float], age_s: float = 0.0) -> ClusterHistory:
    """Constant use, milli-CPU, that ended so long before the copy."""
    start_s = NOW_S - age_s - STEPS * STEP_S

    def series(names: tuple[str, ...], cpu_m: list[float]) -> AssessedHistory:
        rows = np.repeat(np.array(cpu_m, np.float32)[:, None], STEPS, axis=1).reshape(len(names), STEPS)
        return AssessedHistory(start_s, STEP_S, names, rows, np.full_like(rows, 1024.0), "made up")

    keys = tuple(f"shop/{name}" for name in pods)
    unknown = np.full(len(keys), np.nan, np.float32)
    nowhere = ("",) * len(keys)
    of_pods = PodHistory(series(keys, list(pods.values())), nowhere, nowhere, unknown, unknown)
    return ClusterHistory(of_pods, series(tuple(nodes), list(nodes.values())))


# five pods of one core each on a, which use much more than they request; nothing on b
OBJECTS: list[dict[str, Any]] = [node("a"), node("b"), *(pod(f"p{i}", "a") for i in range(5)), replica_set(5)]
HOT = history({"a": 7800.0, "b": 100.0}, {f"p{i}": 1500.0 for i in range(5)})


def first_hour(report: AssessmentReport) -> list[tuple[str, str]]:
    return [(move.node, move.target) for move in report.moves]


def test_a_first_hour_is_planned_by_a_history() -> None:
    report = assess(snapshot(OBJECTS), HOT, 0.01)
    assert report.moves_note == "1 of 2 nodes are overloaded; 0 have no current measurement"
    assert {*first_hour(report), ("a", "b")} == {("a", "b")}
    assert report.moves


def test_koordinators_formula_is_computed_by_a_history() -> None:
    batch = assess(snapshot(OBJECTS), HOT, 0.01).lendable[0].koordinator
    # of b: 8 less 40 % less what the system uses; of a: nothing is left
    assert batch.value == pytest.approx(8 - 3.2 - 0.1, abs=0.01)


def test_what_an_agent_reported_counts_before_the_history() -> None:
    calm = [node_metric("a", {f"p{i}": 100 for i in range(5)}, 600)]
    report = assess(snapshot([*OBJECTS, *calm]), HOT, 0.01)
    assert report.moves_note == "0 of 2 nodes are overloaded; 0 have no current measurement"


def test_a_history_that_ended_long_ago_says_nothing_of_now() -> None:
    old = history({"a": 7800.0, "b": 100.0}, {}, age_s=3600.0)
    report = assess(snapshot(OBJECTS), old, 0.01)
    assert report.moves == ()
    assert "not known" in report.moves_note
    assert report.lendable[0].koordinator.value is None
