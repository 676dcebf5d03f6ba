from __future__ import annotations

from math import inf, nan

import pytest

from cotenant.model.decisions.reasons import Rejection, no_node_line
from cotenant.model.decisions.record import CandidateNode, DecisionRecord, ScorePart
from cotenant.model.errors import InvalidInput


def test_the_line_reads_as_kube_schedulers() -> None:
    rejections = (
        Rejection("fit", "Insufficient memory", 3),
        Rejection("taints", "node(s) had untolerated taint {gpu: a100}", 237),
        Rejection("fit", "Insufficient cpu", 12),
    )
    assert no_node_line(249, rejections) == (
        "0/249 nodes are available: 12 Insufficient cpu, 237 node(s) had untolerated taint {gpu: a100}, 3 "
        "Insufficient memory."
    )


def test_equal_reasons_add_up() -> None:
    twice = (Rejection("a", "Insufficient cpu", 1), Rejection("b", "Insufficient cpu", 2))
    assert no_node_line(3, twice) == "0/3 nodes are available: 3 Insufficient cpu."
    assert no_node_line(0, ()) == "no nodes available to schedule pods"
    assert no_node_line(5, ()) == "0/5 nodes are available."


def test_a_placement_tells_every_part_of_the_scores() -> None:
    parts = (ScorePart("priority", 35.0), ScorePart("free capacity", 22.5))
    best, second = CandidateNode("n7", 57.0, parts), CandidateNode("n9", 41.0)
    record = DecisionRecord(
        "ns/web-0", 12.5, 249, "n7", (Rejection("fit", "Insufficient cpu", 12),), (best, second), policy="founding"
    )
    assert record.headline() == "placed on n7"
    assert record.lines() == (
        "ns/web-0 at 12.5 s by founding: placed on n7",
        "  12 of 249 rejected by fit: Insufficient cpu",
        "  1. n7 57 (chosen) = +35 priority +22.5 free capacity -0.5 rounding or limits",
        "  2. n9 41",
    )


def test_a_waiting_pods_headline_gives_the_reason() -> None:
    no_room = DecisionRecord("ns/p", 0.0, 2, None, (Rejection("fit", "Insufficient cpu", 2),))
    assert no_room.headline() == "0/2 nodes are available: 2 Insufficient cpu."
    assert no_room.lines()[0].endswith(no_room.headline())
    assert (
        DecisionRecord("ns/p", 0.0, 2, None, waiting_because="gang a has 3 of 8").headline()
        == "waits: gang a has 3 of 8"
    )


def test_what_is_not_a_number_is_refused() -> None:
    for candidate in (CandidateNode("n", nan), CandidateNode("n", 1.0, (ScorePart("x", nan),))):
        with pytest.raises(InvalidInput):
            DecisionRecord("p", 0.0, 1, "n", candidates=(candidate,))
    with pytest.raises(InvalidInput):
        DecisionRecord("p", nan, 1, None)
    with pytest.raises(InvalidInput):
        Rejection("fit", "Insufficient cpu", 0)
    assert CandidateNode("n", -inf, (ScorePart("x", -inf),)).rest() == 0.0
