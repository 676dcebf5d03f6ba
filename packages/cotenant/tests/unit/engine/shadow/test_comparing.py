"""Our choice beside the node on which another scheduler put the pod."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import Any

import pytest

from cotenant.engine.shadow.comparing import BY_THEN, NOT_EVALUATED, at_once, evaluated, nominated
from cotenant.engine.shadow.parking import JudgedPod
from cotenant.model.decisions.answers import NodeRefusal, NodeVerdict
from cotenant.model.decisions.record import CandidateNode, ScorePart
from cotenant.model.decisions.shadow import ShadowChoice, ShadowNomination, ShadowOutcome, ShadowPicture


def candidate(node: str, score: float, **parts: float) -> CandidateNode:
    return CandidateNode(node, score, tuple(ScorePart(name, value) for name, value in parts.items()))


PLACED = JudgedPod("u", ShadowChoice.PLACES, 0.0, "ours", best=(candidate("ours", 10.0), candidate("real", 4.0)))
WAITS = JudgedPod("u", ShadowChoice.WAITS, 0.0, words="no room", plugins=("Fit", "Taints"))
PREEMPTS = JudgedPod("u", ShadowChoice.PREEMPTS, 0.0, "ours", words="it would evict x")
UNJUDGED = JudgedPod("u", ShadowChoice.NOT_JUDGED, 0.0, words="its gates")


def test_what_the_choice_alone_tells() -> None:
    found = at_once(UNJUDGED, "real")
    assert found is not None
    assert (found.outcome, found.words) == (ShadowOutcome.NOT_JUDGEABLE, "its gates")
    assert at_once(WAITS, "real") is at_once(PREEMPTS, "ours") is None
    agreed = at_once(PLACED, "ours")
    assert agreed is not None
    assert (agreed.outcome, agreed.behind) == (ShadowOutcome.AGREED, 0.0)
    assert at_once(PLACED, "real") is None
    assert at_once(PLACED, "elsewhere") is None


@pytest.mark.parametrize(
    ("own", "real", "is_equal"),
    [
        (5.0, 5.0, True),
        (0.0, 1e-9, True),
        (0.0, 3e-9, False),
        (1e6, 1e6 + 1e-4, True),
        (1e6, 1e6 + 1e-2, False),
        (-1e6, -1e6 + 1e-4, True),
        (-5.0, 5.0, False),
    ],
)
def test_equal_scores_are_agreement(own: float, real: float, is_equal: bool) -> None:
    judged = replace(PLACED, best=(candidate("ours", own), candidate("real", real)))
    found = at_once(judged, "real")
    assert (found is not None) is is_equal
    if found is not None:
        assert (found.outcome, found.behind) == (ShadowOutcome.EQUAL_SCORE, 0.0)
    verdict = NodeVerdict("real", candidate=candidate("real", real), place=2, of=9)
    later = evaluated(judged, "real", (verdict, judged.best), ShadowPicture.AT_BIND)
    assert (later.outcome is ShadowOutcome.EQUAL_SCORE) is (is_equal or real >= own)
    assert (later.place, later.of) == (2, 9)


@pytest.mark.parametrize(
    ("judged", "outcome", "reason"),
    [
        (PLACED, ShadowOutcome.OTHER_NODE, NOT_EVALUATED),
        (PREEMPTS, ShadowOutcome.WOULD_PREEMPT, NOT_EVALUATED),
        (WAITS, ShadowOutcome.WOULD_WAIT, "Fit"),
        (UNJUDGED, ShadowOutcome.NOT_JUDGEABLE, NOT_EVALUATED),
    ],
)
def test_where_the_real_node_was_not_evaluated_our_own_reason_is_said(
    judged: JudgedPod, outcome: ShadowOutcome, reason: str
) -> None:
    for verdict in (None, (NodeVerdict("real"), ())):
        found = evaluated(judged, "real", verdict, ShadowPicture.AT_BIND)
        assert (found.outcome, found.reason, found.words, found.place, found.of) == (
            outcome,
            reason,
            judged.words,
            0,
            0,
        )
        assert isnan(found.behind)


def compare(
    verdict: NodeVerdict, judged: JudgedPod = PLACED, picture: ShadowPicture = ShadowPicture.AT_BIND, **fields: Any
) -> Any:
    return evaluated(judged, "real", (verdict, fields.get("best", judged.best)), picture)


def test_the_first_filter_that_refuses_the_real_node_makes_the_difference() -> None:
    one, two = NodeRefusal("Fit", "not enough cpu", "200m cpu"), NodeRefusal("Taints", "untolerated")
    found = compare(NodeVerdict("real", (one,)))
    assert (found.outcome, found.reason, found.words) == (
        ShadowOutcome.OTHER_NODE,
        "Fit",
        "real is refused: not enough cpu (200m cpu)",
    )
    found = compare(NodeVerdict("real", (two, one, one)), WAITS)
    assert (found.outcome, found.reason, found.words) == (
        ShadowOutcome.WOULD_WAIT,
        "Taints",
        "real is refused: untolerated, and 2 more filters",
    )


def test_a_pod_that_would_wait_for_another_reason_than_the_real_node() -> None:
    verdict = NodeVerdict("real", candidate=candidate("real", 4.0), place=1, of=2)
    found = compare(verdict, WAITS, best=PLACED.best)
    assert (found.outcome, found.reason, found.words) == (ShadowOutcome.WOULD_WAIT, "Fit", "no room")


def test_what_was_the_best_when_it_was_bound() -> None:
    first = NodeVerdict("real", candidate=candidate("real", 4.0), place=1, of=7)
    found = compare(first, picture=ShadowPicture.EARLIER)
    assert (found.reason, found.words, found.place, found.of, found.behind) == (
        BY_THEN,
        "when it was bound, real was the best for us too",
        1,
        7,
        0.0,
    )
    assert compare(first).reason != BY_THEN
    assert compare(replace(first, place=2), picture=ShadowPicture.EARLIER).reason != BY_THEN


def test_the_term_by_which_it_falls_behind_most() -> None:
    ours = candidate("ours", 10.0, load=6.0, balance=3.0, age=1.0, same=0.5)
    real = candidate("real", 4.0, load=1.0, balance=4.0, same=0.5)
    judged = replace(PLACED, best=(candidate("third", 11.0), ours))
    found = compare(NodeVerdict("real", candidate=real, place=3, of=5), judged)
    assert (found.outcome, found.reason, found.place, found.of, found.behind) == (
        ShadowOutcome.OTHER_NODE,
        "load",
        3,
        5,
        6.0,
    )
    assert found.words == "ours is ahead of real by 6: +5 load, +1 age"
    four = candidate("ours", 10.0, a=1.0, b=4.0, c=3.0, d=2.0)
    words = compare(NodeVerdict("real", candidate=candidate("real", 0.0), place=2, of=2), best=(four,)).words
    assert words == "ours is ahead of real by 10: +4 b, +3 c, +2 d"
    bare = compare(NodeVerdict("real", candidate=candidate("real", 4.0), place=2, of=2))
    assert (bare.reason, bare.words) == ("score", "ours is ahead of real by 6")
    gone = compare(
        NodeVerdict("real", candidate=candidate("real", 4.0), place=2, of=2), best=(candidate("third", 5.0),)
    )
    assert gone.behind == 1.0  # our node is no longer among them: against the best


@pytest.mark.parametrize(
    ("judged", "nomination"),
    [
        (None, ShadowNomination.NOT_JUDGED),
        (UNJUDGED, ShadowNomination.NOT_JUDGED),
        (PREEMPTS, ShadowNomination.OTHER_NODE),
        (replace(PREEMPTS, node="real"), ShadowNomination.SAME_NODE),
        (PLACED, ShadowNomination.WOULD_PLACE),
        (WAITS, ShadowNomination.WOULD_WAIT),
    ],
)
def test_beside_a_nomination(judged: JudgedPod | None, nomination: ShadowNomination) -> None:
    assert nominated(judged, "real") is nomination
