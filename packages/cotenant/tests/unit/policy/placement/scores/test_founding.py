"""The founding score, worked by hand from the founding document's formula."""

import numpy as np
import pytest

from cotenant.engine.state.ledger import empty_nodes
from cotenant.model.arrays import Param, ReportColumn, ShapeArrays, Sum
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.scores.founding import founding
from cotenant.policy.placement.scores.kube import kube_default

GIB = 2**30


def cluster(requested: tuple[int, int] = (0, 0), report: dict[ReportColumn, float] | None = None):
    nodes = empty_nodes(np.array([[10_000, 100 * GIB, 100]]))
    nodes.requested[0, :2] = requested
    if report:
        nodes.report[0] = 0.0
        for column, value in report.items():
            nodes.report[0, column] = value
    params = np.zeros((1, len(Param)))
    params[0, Param.PRIORITY_BASE] = 35.0
    zero = np.zeros(1, np.uint64)
    shapes = ShapeArrays(
        np.array([[1000, 10 * GIB, 1]]),
        np.zeros((1, len(Sum)), np.int64),
        params,
        zero,
        zero[:, None],
        np.zeros(1, np.int64),
        np.full(1, -1),
        np.zeros(1, np.int64),
    )
    return nodes, shapes


def score(now_s: float = 0.0, from_ledger: bool = False, **given) -> float:
    nodes, shapes = cluster(**given)
    return float(founding(nodes, shapes, 0, np.array([0]), now_s, from_ledger)[0])


FULL = {
    ReportColumn.CPU_USED: 0.5,
    ReportColumn.MEMORY_USED: 0.7,
    ReportColumn.LATENCY_P99_MS: 60.0,
    ReportColumn.VIOLATION: 0.25,
    ReportColumn.DOMINANT_SHARE: 0.7,
    ReportColumn.FAIRNESS: 0.8,
    ReportColumn.REPORTED_AT: 0.0,
}


def test_every_term_of_a_fresh_report() -> None:
    # 35 + (0.5 + 0.3)/2 x 40 + 0.8 x 15 + (1 - 60/120) x 20 - 0.7 x 15 - 0.25 x 20 = 57.5 -> 57
    assert score(report=FULL) == 57.0


def test_no_report_falls_back_to_what_is_allocated_and_rules_nothing_out() -> None:
    # 35 + (0.8 + 0.6)/2 x 40 + 15 + 20 - 0.4 x 15 = 92
    assert score(requested=(2_000, 40 * GIB)) == 92.0


def test_a_report_older_than_two_minutes_counts_as_none() -> None:
    assert score(report=FULL, requested=(2_000, 40 * GIB), now_s=120.0) == 57.0
    assert score(report=FULL, requested=(2_000, 40 * GIB), now_s=120.5) == 92.0


def test_capacity_from_the_ledger_keeps_latency_fairness_and_violations() -> None:
    # 35 + (0.8 + 0.6)/2 x 40 + 0.8 x 15 + 10 - 0.4 x 15 - 5 = 74
    assert score(report=FULL, requested=(2_000, 40 * GIB), from_ledger=True) == 74.0


def test_the_score_is_clamped_and_absurd_latency_costs_at_most_its_weight() -> None:
    worst = FULL | {
        ReportColumn.CPU_USED: 1.0,
        ReportColumn.MEMORY_USED: 1.0,
        ReportColumn.LATENCY_P99_MS: 1e9,
        ReportColumn.FAIRNESS: 0.0,
    }
    # 35 + 0 + 0 + 0 - 10.5 - 5 = 19.5
    assert score(report=worst) == 19.0
    assert score() == 100.0  # 35 + 40 + 15 + 20 = 110, clamped


@pytest.mark.parametrize(
    ("requested", "expected"),
    # after the pod: fractions (c, m); least = (100(1-c) + 100(1-m)) // 2, balanced = floor(100 (1 - |c - m| / 2))
    [((0, 0), 90 + 100), ((4_000, 0), (50 + 90) // 2 + 80), ((8_999, 80 * GIB), (0 + 10) // 2 + 95)],
)
def test_kube_default_truncates_each_plugin(requested: tuple[int, int], expected: int) -> None:
    nodes, shapes = cluster(requested=requested)
    assert kube_default(nodes, shapes, 0, np.array([0]))[0] == expected


def test_the_weights_are_knobs_whose_defaults_are_the_published_ones() -> None:
    nodes, shapes = cluster(report=FULL)

    def weighted(**changed: float) -> float:
        knobs = Knobs().with_values(tuple(changed.items())).array()
        return float(founding(nodes, shapes, 0, np.array([0]), 0.0, False, knobs)[0])

    assert weighted() == 57.0  # of 57.5
    assert weighted(founding_base=28.0) == 50.0
    assert weighted(founding_capacity=60.0) == 65.0
    assert weighted(founding_fairness=5.0) == 49.0
    assert weighted(founding_latency=0.0) == 47.0
    assert weighted(founding_dominant=0.0) == 68.0
    assert weighted(founding_violations=40.0) == 52.0
