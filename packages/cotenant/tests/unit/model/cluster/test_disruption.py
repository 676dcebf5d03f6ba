"""Marks about disruption: how they are read, when they hold, and the table in full."""

from __future__ import annotations

from math import inf, nan

import pytest

from cotenant.model.cluster.disruption import (
    CANDIDATE_TAINT,
    EFFECTS,
    NO_MARKS,
    REMOVAL_TAINTS,
    DisruptionMark,
    DisruptionMarks,
    MarkEffect,
    Mover,
    holds_back,
    node_mark,
    read_marks,
)
from cotenant.model.cluster.taints import Taint


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("true", inf),
        ("1h30m", 5400.0),
        ("1h30m45s", 5445.0),
        ("+5m", 300.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("250ms", 0.25),
        ("false", 0.0),
        ("True", 0.0),
        ("", 0.0),
        ("5", 0.0),
        ("-5m", 0.0),
        ("5m ", 0.0),
        ("1d", 0.0),
        ("1h" * 40, 0.0),
        ("9" * 60 + "h", 1e10),
        ("٣h", 0.0),
    ],
)
def test_how_long_a_pod_is_kept(text: str, seconds: float) -> None:
    assert read_marks(text, None, None).kept_for_s == seconds


def test_a_duration_counts_from_the_start_and_ends() -> None:
    marks = read_marks("5m", None, None)
    assert marks.present(100.0, 399.9) == (DisruptionMark.DO_NOT_DISRUPT,)
    assert marks.present(100.0, 400.0) == ()
    assert marks.present(nan, 1e9) == (DisruptionMark.DO_NOT_DISRUPT,)  # it has not started
    assert NO_MARKS.present(nan, 0.0) == ()
    assert read_marks(None, None, None) is NO_MARKS


def test_the_others_hold_by_value_and_by_presence() -> None:
    assert read_marks(None, "false", None) == DisruptionMarks(not_safe=True)
    assert read_marks(None, "true", None) == read_marks(None, "no", None) == DisruptionMarks()
    assert read_marks(None, None, "") == DisruptionMarks(prefers_none=True)


def test_nodes_that_an_autoscaler_removes_or_may() -> None:
    for key in REMOVAL_TAINTS:
        assert node_mark((Taint("other"), Taint(key), Taint(CANDIDATE_TAINT))) == (DisruptionMark.NODE_REMOVED, key)
    assert node_mark((Taint(CANDIDATE_TAINT),)) == (DisruptionMark.NODE_CANDIDATE, CANDIDATE_TAINT)
    assert node_mark((Taint("karpenter.sh/other"),)) is None


def test_reasons_name_the_mark() -> None:
    def why(text: str, *taints: Taint) -> str:
        return holds_back(Mover.REBALANCER, read_marks(text, None, None), 0.0, taints, 1.0)

    assert why("true") == "its annotation karpenter.sh/do-not-disrupt forbids it"
    assert why("1m") == "its annotation karpenter.sh/do-not-disrupt holds for 60 s after its start"
    assert why("", Taint("karpenter.sh/disrupted")).endswith("(taint karpenter.sh/disrupted)")
    assert why("", Taint(CANDIDATE_TAINT)) == ""


def test_the_whole_table() -> None:
    """A change of it is a change of what owners may rely on."""
    assert set(Mover) == EFFECTS.keys()
    assert all(EFFECTS[mover].keys() == set(DisruptionMark) for mover in Mover)
    of_owners = {DisruptionMark.DO_NOT_DISRUPT, DisruptionMark.NOT_SAFE_TO_EVICT, DisruptionMark.PREFER_NO_EVICTION}
    holds = {(mover, mark) for mover in Mover for mark in DisruptionMark if EFFECTS[mover][mark] is MarkEffect.HOLDS}
    last = {(mover, mark) for mover in Mover for mark in DisruptionMark if EFFECTS[mover][mark] is MarkEffect.LAST}
    voluntary = (Mover.REBALANCER, Mover.MISSED_OBJECTIVE)
    assert holds == {(mover, mark) for mover in voluntary for mark in (*of_owners, DisruptionMark.NODE_REMOVED)}
    assert last == {(Mover.AGENT_SHORTAGE, mark) for mark in of_owners}
