"""What is counted from answers of the engine: which pods are asked, whose place is worse, and the share's interval."""

from __future__ import annotations

from collections.abc import Iterable
from math import nan, sqrt
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.assess.report import WaitCause
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.decisions.answers import NodeRefusal, NodeVerdict, PodAnswer
from cotenant.model.decisions.record import CandidateNode, ScorePart
from cotenant.model.machine.node_metric import Use
from cotenant.services.assess.asking import _grown, held_by, placement, without_counts

Z = 1.96
BEST = CandidateNode("b", 50.0)


class AskedEngine:
    """Knows the nodes `a` and `b`, and an answer for each pod."""

    def __init__(self, answers: Iterable[PodAnswer]) -> None:
        self._answers = {answer.pod: answer for answer in answers}
        self.asked: list[tuple[str, str]] = []
        self.why = SimpleNamespace(pod=self._pod)

    def node(self, name: str) -> object:
        return object() if name in ("a", "b") else None

    def _pod(self, key: str, now_s: float, what_if: Any) -> PodAnswer | None:
        assert now_s == 7.0
        self.asked.append((key, what_if.node))
        return self._answers.get(key)


def running(name: str, node: str = "a", is_daemon: bool = False, ends_s: float = nan) -> PodInfo:
    pod = Pod(name, namespace="ns", is_daemon=is_daemon)
    return PodInfo(ObservedPod(pod, f"u-{name}", "s", 0.0, node=node, ends_s=ends_s), node=node)


def answer(
    name: str,
    place: int,
    of: int,
    own: CandidateNode | None,
    *refusals: str,
    best: CandidateNode | None = BEST,
) -> PodAnswer:
    about = NodeVerdict("a", tuple(NodeRefusal("F", text) for text in refusals), own, place, of)
    candidates = () if best is None else (best,)
    return PodAnswer(f"ns/{name}", "u", 7.0, "bound", "", 0, (), asked_about=about, candidates=candidates)


def placed(engine: AskedEngine, pods: Iterable[PodInfo]) -> Any:
    return placement(cast(Any, SimpleNamespace(engine=engine, now_s=7.0)), list(pods))


def test_a_pod_goes_elsewhere_if_its_node_rejects_it_or_is_in_the_worse_half() -> None:
    parts = (ScorePart("cpu", 10.0), ScorePart("disk", 3.0))
    better = (ScorePart("cpu", 12.0), ScorePart("disk", 33.0), ScorePart("new", 5.0))
    best = CandidateNode("b", 50.0, better)
    engine = AskedEngine(
        [
            answer("half", 4, 8, CandidateNode("a", 10.0)),
            answer("worse", 5, 8, CandidateNode("a", 13.0, parts), best=best),
            answer("worst", 8, 8, CandidateNode("a", 20.0), best=CandidateNode("b", 50.0)),
            answer("equal", 7, 8, CandidateNode("a", 50.0 - 1e-8)),
            answer("rejected", 0, 8, None, "tainted", "full"),
            answer("crowded", 0, 8, None),
            answer("nowhere", 1, 1, CandidateNode("a", 1.0), best=None),
        ]
    )
    names = ("half", "worse", "worst", "equal", "rejected", "crowded", "nowhere", "unknown")
    found = placed(engine, map(running, names))
    assert engine.asked == [(f"ns/{name}", "a") for name in names]
    assert (found.asked, found.rejected, found.worse_half) == (6, 2, 2)
    assert [(one.pod, one.node, one.better, one.place, one.of, one.why) for one in found.elsewhere] == [
        ("ns/crowded", "a", "b", 0, 8, "its node is full"),
        ("ns/rejected", "a", "b", 0, 8, "tainted; full"),
        ("ns/worst", "a", "b", 8, 8, "score 50.0 against 20.0"),
        ("ns/worse", "a", "b", 5, 8, "disk: +30.0 of +37.0"),
    ]
    assert found.share.value == pytest.approx(400 / 6)
    assert found.share.low is not None  # two of the eight gave no answer


def test_daemons_and_pods_that_end_or_whose_node_is_not_known_are_not_asked() -> None:
    engine = AskedEngine([answer("p", 2, 2, CandidateNode("a", 1.0))])
    pods = [running("d", is_daemon=True), running("t", ends_s=9.0), running("x", "gone"), running("p")]
    found = placed(engine, pods)
    assert engine.asked == [("ns/p", "a")]
    assert (found.asked, found.worse_half) == (1, 1)
    assert (found.share.low, found.share.high) == (None, None)
    assert "every pod was asked" in found.share.interval
    none = placed(AskedEngine([]), pods)
    assert (none.asked, none.share.value, none.share.why) == (0, None, "no running pod could be asked")


@pytest.mark.parametrize(("pods", "asked", "worse"), [(401, 201, 0), (900, 300, 300), (1200, 400, 40), (800, 400, 399)])
def test_of_many_evenly_spaced_ones_are_asked_and_the_share_has_an_interval(pods: int, asked: int, worse: int) -> None:
    """The bounds are the shares from which what was seen is 1.96 deviations away (Wilson)."""
    step = -(-pods // 400)
    of_interest = range(0, pods, step)
    answers = [
        answer(f"p{number:04}", 2 if at < worse else 1, 2, CandidateNode("a", 1.0))
        for at, number in enumerate(of_interest)
    ]
    engine = AskedEngine(answers)
    found = placed(engine, (running(f"p{number:04}") for number in range(pods)))
    assert [key for key, _ in engine.asked] == [f"ns/p{number:04}" for number in of_interest]
    assert (found.asked, found.worse_half, len(found.elsewhere)) == (asked, worse, min(worse, 20))
    share, low, high = worse / asked, found.share.low / 100, found.share.high / 100
    assert found.share.value == pytest.approx(100 * share)
    for bound in {low, high} - {share}:
        assert abs(share - bound) == pytest.approx(Z * sqrt(bound * (1 - bound) / asked), rel=1e-6, abs=1e-8)
    assert 0 <= low <= share <= high + 1e-9 <= 1 + 1e-9
    assert low < high


def test_what_holds_a_pod_that_cannot_be_judged() -> None:
    def held(*, gates: tuple[str, ...] = (), unsupported: tuple[str, ...] = (), said: str = "") -> object:
        seen = ObservedPod(Pod("p"), "u", "s", 0.0, gates=gates, unsupported=unsupported)
        return held_by(PodInfo(seen, last_message=said))

    assert held(gates=("b", "a", "b"), unsupported=("x",)) == ("scheduling gates: a, b", WaitCause.GATE)
    assert held(unsupported=("x", "y"), said="z") == ("x; y", WaitCause.POD)
    assert held(said="z") == ("z", WaitCause.POD)
    assert held() == ("what it asks for cannot be judged", WaitCause.POD)


def test_causes_without_their_counts() -> None:
    said = (
        "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) had taint {a: b}, 1 Insufficient cpu. preemption: x"
    )
    assert without_counts(said) == "Insufficient cpu, node(s) had taint {a: b}"
    assert without_counts("0/1 nodes are available: 1 Too many pods.") == "Too many pods"
    assert without_counts("0/1 nodes are available") == "0/1 nodes are available"
    assert without_counts("waits for gang: 3 of 5") == "waits for gang: 3 of 5"


def test_lending_adds_to_a_node_what_is_neither_free_nor_lent_already() -> None:
    """Of node `a` 3 of 10 cores are free and 2 of those taken are lent: of 8 that could be lent 3 are new. It offers 5
    batch cores, so 3 more. Memory could be lent less than is free, and more than twice of it is offered.
    """
    resources = ("cpu", "memory", "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory", "other")
    capacity = np.array([[1, 1, 1, 1, 1], [10_000, 100, 5_000, 90, 7]])
    requested = np.array([[0, 0, 0, 0, 0], [7_000, 40, 2_000, 0, 7]])
    engine = SimpleNamespace(requested=lambda: (("z", "a"), resources, capacity, requested))
    found = _grown(cast(Any, SimpleNamespace(engine=engine)), {"a": Use(8_000, 50), "gone": Use(9, 9)})
    assert {name: dict(amounts) for name, amounts in found.items()} == {
        "a": {"cpu": 3_000, "memory": 0, "kubernetes.io/batch-cpu": 3_000, "kubernetes.io/batch-memory": 0}
    }


def test_a_node_that_offers_nothing_is_given_all_that_could_be_lent_of_it() -> None:
    engine = SimpleNamespace(requested=lambda: (("a",), ("cpu", "memory"), np.array([[0, 0]]), np.array([[5, 5]])))
    found = _grown(cast(Any, SimpleNamespace(engine=engine)), {"a": Use(10, 20)})
    assert dict(found["a"]) == {
        "cpu": 10,
        "memory": 20,
        "kubernetes.io/batch-cpu": 10,
        "kubernetes.io/batch-memory": 20,
    }
