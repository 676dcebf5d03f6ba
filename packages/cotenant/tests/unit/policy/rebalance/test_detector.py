"""When a node counts as overloaded, round by round."""

from __future__ import annotations

import pytest

from cotenant.policy.rebalance.loads.detector import AnomalyCondition, Detector, Detectors


def marks(detector: Detector, rounds: str, from_s: float = 0.0) -> str:
    """`x` an abnormal round, `.` a normal one, one a second; the state after each, `X` = anomalous."""
    return "".join(
        "X" if detector.mark(normal=letter == ".", now_s=from_s + at) else "-" for at, letter in enumerate(rounds)
    )


@pytest.mark.parametrize(
    ("rounds", "states"),
    [
        ("xxx", "--X"),  # more than two in a row
        ("xx.xx.xxx", "--------X"),
        ("xxx..", "--XX-"),  # more than one normal one in a row
        ("xxx.x.x.x", "--XXXXXXX"),
        ("xxx..xxx", "--XX---X"),  # the counters begin anew with each change
        ("xxxxx..xx", "--XXXX---"),
    ],
)
def test_the_state_changes_after_so_many_in_a_row(rounds: str, states: str) -> None:
    assert marks(Detector(AnomalyCondition(2, 1, 100.0)), rounds) == states


def test_it_does_not_stay_anomalous_for_longer_than_the_time_limit() -> None:
    detector = Detector(AnomalyCondition(1, 3, 10.0))
    assert not detector.is_anomalous(0.0)
    assert marks(detector, "xx", 5.0) == "-X"
    assert detector.is_anomalous(15.9)
    assert not detector.is_anomalous(16.0)
    assert marks(detector, "xx", 17.0) == "-X"
    assert marks(detector, "x", 28.0) == "-"  # the limit was over before the mark, which is the first again
    detector.reset(29.0)
    assert marks(detector, "x", 29.0) == "-"


def test_each_node_has_its_own_and_calm_forgets() -> None:
    detectors = Detectors(AnomalyCondition(2, 0, 100.0))
    assert [detectors.mark("a", at) for at in (0, 1)] == [False, False]
    assert not detectors.mark("b", 1)
    assert detectors.mark("a", 2)
    detectors.calm("unknown", 3)
    detectors.acted_on("unknown", 3)
    detectors.acted_on("a", 3)  # a normal round: one suffices here
    assert not detectors.mark("a", 4)
    assert not detectors.mark("b", 4)
    detectors.calm("b", 5)
    assert [detectors.mark("b", at) for at in (6, 7, 8)] == [False, False, True]


@pytest.mark.parametrize("condition", [None, AnomalyCondition(1), AnomalyCondition(0)])
def test_one_round_suffices_where_nothing_else_is_asked(condition: AnomalyCondition | None) -> None:
    detectors = Detectors(condition)
    assert detectors.mark("a", 0.0)
    detectors.acted_on("a", 0.0)
    assert detectors.mark("a", 1.0)
    assert (AnomalyCondition().is_immediate, AnomalyCondition(2).is_immediate) == (False, False)
