"""The ring of decisions, and its sentences word for word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.node.decision_log import DecisionKind, DecisionLog, GroupExplanation, HeldKnob, sentences
from cotenant.model.errors import Permanent
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.replica_signal import FRESH_US, MaxAction, ReplicaSignal

SECOND = 1_000_000
QUOTA = KnobTarget("pods/a", Knob.CPU_MAX)
WHY = Reason("rule", "services come first", (DecisionTerm("node", 4000, "mCPU"), DecisionTerm("pods", 2)))
EMPTY = GroupExplanation("pods/a", ("pods/a",), "", (), (), (), (), None, ())


def filled(most: int, count: int) -> DecisionLog:
    log = DecisionLog(most)
    for i in range(1, count + 1):
        group, pod = ("pods/a", "") if i % 3 == 0 else ("", "ns/p") if i % 3 == 1 else ("pods/b", "ns/q")
        log.note(i, DecisionKind.HELD, "p", group, WHY, pod=pod)
        log.validate()
    return log


@pytest.mark.parametrize("count", [0, 3, 5, 12])
def test_the_newest_decisions_are_kept_in_order(count: int) -> None:
    log = filled(5, count)
    kept = list(range(max(1, count - 4), count + 1))
    assert len(log) == len(kept)
    for number in range(-2, count + 3):
        assert [one.number for one in log.since(number)] == [one for one in kept if one > number]


def test_decisions_on_groups_and_on_a_pod() -> None:
    log = filled(9, 9)
    assert [one.number for one in log.of(["pods/a"], "")] == [3, 6, 9]
    assert [one.number for one in log.of([], "ns/p")] == [1, 4, 7]
    assert [one.number for one in log.of(["pods/b", "pods/a"], "ns/p")] == list(range(1, 10))
    assert log.of(["", "pods/c"], "") == ()  # what is of no group is not of the group ""
    assert log.of([], "") == ()


def test_a_gap_is_found() -> None:
    log = filled(5, 7)
    log._ring.pop()
    with pytest.raises(Permanent, match="gaps"):
        log.validate()


def held(**fields: object) -> HeldKnob:
    made = HeldKnob(QUOTA, "100", "held", "guard", WHY, 0, (), "")
    return replace(made, **fields)  # type: ignore[arg-type]


def test_what_is_held_and_why() -> None:
    explained = replace(
        EMPTY,
        pod="ns/a",
        leaves=Reason("evict", "it is evicted"),
        holds=(
            held(lost=(("burst", "900"),), lifts="services are calm"),
            held(state="refused", policy="", detail="no such file", reason=Reason("rule", "asked")),
        ),
        stands=((QUOTA, "max 100000"),),
        verdicts=(("guard", (Reason("r", "one"), Reason("r", "two"))), ("burst", ())),
    )
    assert sentences(explained, 90 * SECOND) == (
        "it is evicted",
        f"{QUOTA} is held at '100' for 90.0 s, by guard: services come first",
        "  burst wanted '900' and was overruled",
        "  node 4000 mCPU",
        "  pods 2",
        "  it is released when services are calm",
        f"{QUOTA} is refused at '100' for 90.0 s: asked (no such file)",
        f"{QUOTA} reads 'max 100000'",
        "guard: one",
        "guard: two",
    )
    assert sentences(EMPTY, 0) == ("no knob of group /pods/a is held",)
    assert sentences(replace(EMPTY, pod="ns/a"), 0) == ("no knob of pod ns/a is held",)


@pytest.mark.parametrize(
    ("since_s", "said"),
    [
        (-5, "0.0 s"),
        (0, "0.0 s"),
        (119.9, "119.9 s"),
        (120, "2 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (90_000, "25 h"),
    ],
)
def test_spans_of_time(since_s: float, said: str) -> None:
    text = sentences(replace(EMPTY, holds=(held(),)), round(since_s * SECOND))[0]
    assert f" for {said}, by guard" in text


def test_decisions_are_told_with_their_age() -> None:
    log = DecisionLog(9)
    log.note(0, DecisionKind.HELD, "guard", "pods/a", WHY, QUOTA, "100")
    log.note(5 * SECOND, DecisionKind.RELEASED, "", "pods/a", WHY, QUOTA)
    log.note(9 * SECOND, DecisionKind.EVICTED, "evict", "", WHY, pod="ns/a")
    told = sentences(replace(EMPTY, decisions=log.since(0)), 10 * SECOND)[1:]
    assert told == (
        f"10.0 s ago: {QUOTA} held at '100' by guard: services come first",
        f"5.0 s ago: {QUOTA} released: services come first",
        "1.0 s ago: evicted by evict: services come first",
    )


def test_what_was_measured_of_its_spans() -> None:
    signal = ReplicaSignal(
        "ns/fast", "ns/web", "ns/a", "u", 100_000, 10_000, MaxAction.CAP, True, 10 * SECOND, 200, 4, 123_400, 0, SECOND
    )

    def said(**fields: object) -> str:
        changed = replace(signal, **fields)  # type: ignore[arg-type]
        return sentences(replace(EMPTY, signals=(changed,)), 0)[0]

    assert said() == (
        "objective ns/fast: 4 of 200 requests missed it within 10.0 s, p99 123.4 ms against 100 ms, "
        "budget burns 2.0 x (measured 1.0 s ago)"
    )
    assert said(threshold_us=None) == (
        "objective ns/fast: 4 of 200 requests missed it within 10.0 s, budget burns 2.0 x (measured 1.0 s ago)"
    )
    assert said(requests=0, bad=0) == "objective ns/fast: no request within 10.0 s"
    assert "missed it" in said(age_us=FRESH_US)
    assert said(age_us=FRESH_US + 1) == (
        "objective ns/fast: no signal from the trace process for 5.0 s; run delay and pressure are used instead"
    )
