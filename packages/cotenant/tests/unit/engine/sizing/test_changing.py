"""One step of a change at a time, from facts that are written down by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from tests.fakes.cluster.sizing_world import BIG, MIB, pod

from cotenant.engine.sizing.changing import go_on, is_in_place, spread
from cotenant.engine.sizing.scene import SizingScene, SizingStep
from cotenant.engine.sizing.suggesting import PAUSE_S, PROBATION_S, QUIET_S, ended, first_of
from cotenant.model.machine.node_metric import Use
from cotenant.model.sizes.container import ContainerSize, SizedPod
from cotenant.model.sizes.right_sizing import (
    MAX_RECEIPTS,
    RightSizing,
    SizeChange,
    SizingMode,
    SizingOutcome,
    SizingPhase,
    SizingReceipt,
    SizingStatus,
    Suggestion,
    Touched,
)
from cotenant.policy.sizing.proof import Sign

STEP = replace(BIG, cpu_request_m=1200)
GOAL = ContainerSize(1200, None, 1000 * MIB, 1100 * MIB)
PROOF_S, PATIENCE_S = 120.0, 300.0
SINCE_S = 1000.0


def sized(name: str, size: ContainerSize, **fields: Any) -> SizedPod:
    """In place, as its kubelet says."""
    made = pod(name)
    container = replace(made.containers[0], size=size, allocated=size)
    return replace(made, containers=(container,), **fields)


def asked(name: str, size: ContainerSize, allocated: ContainerSize | None = BIG, **fields: Any) -> SizedPod:
    """Asked for, and not yet in place."""
    made = sized(name, size, **fields)
    return replace(made, containers=(replace(made.containers[0], allocated=allocated),))


def touched(name: str) -> Touched:
    return Touched(pod(name).uid, name)


def scene(
    pods: Iterable[SizedPod],
    phase: SizingPhase,
    names: str,
    after: ContainerSize = STEP,
    reported: str = "",
    changed: dict[str, Any] | None = None,
    signs: dict[str, Any] | None = None,
    **more: Any,
) -> SizingScene:
    known = {one.uid: one for one in pods}
    change = SizeChange(
        "id", phase, SINCE_S, BIG, after, GOAL, "mode act", tuple(map(touched, names)), **(changed or {})
    )
    sizing = RightSizing(
        "ns/web", "s", 1, "Deployment", "web", SizingMode.ACT, "fast", proof_s=PROOF_S, patience_s=PATIENCE_S,
        status=SizingStatus("changing", "as before", change=change),
    )  # fmt: skip
    found = {
        uid: Sign(uid, one.name, one.is_ready, 0, False, one.containers[0].size, Use(500, MIB))
        for uid, one in known.items()
    }
    for name, fields in (signs or {}).items():
        found[pod(name).uid] = replace(found[pod(name).uid], **fields)
    return SizingScene(sizing, known, found, frozenset(pod(name).uid for name in reported), **more)


def step(of: SizingScene, after_s: float = 0.0) -> SizingStep:
    return go_on(of, SINCE_S + after_s, lambda at_s: f"t{at_s:.0f}")


def change_of(stepped: SizingStep) -> SizeChange:
    assert stepped.status.change is not None
    return stepped.status.change


def order(stepped: SizingStep) -> str:
    return "".join(one.pod for one in change_of(stepped).touched)


# ---- one replica after the other


def test_a_replica_is_asked_for_until_it_has_the_size_and_then_watched() -> None:
    pods = [sized("b", BIG), sized("a", BIG)]
    begun = step(scene(pods, SizingPhase.FIRST, "a"))
    assert [(one.pod, one.namespace, one.size) for one in begun.resizes] == [("a", pods[0].namespace, STEP)]
    assert (change_of(begun).phase, change_of(begun).since_s) == (SizingPhase.FIRST, SINCE_S)
    waits = step(scene([sized("b", BIG), asked("a", STEP)], SizingPhase.FIRST, "a"), 60)
    assert (waits.resizes, waits.status.message, change_of(waits).since_s) == ((), "", SINCE_S)
    deferred = [sized("b", BIG), asked("a", STEP, pending="Deferred", pending_why="no room")]
    assert step(scene(deferred, SizingPhase.FIRST, "a"), 60).status.message == "a: Deferred: no room"
    there = step(
        scene([sized("b", BIG), sized("a", STEP)], SizingPhase.FIRST, "a", changed={"measured": 5, "bad": 1}), 70
    )
    change = change_of(there)
    assert (change.phase, change.since_s, change.measured, change.bad) == (SizingPhase.PROOF, SINCE_S + 70, 0, 0)
    assert there.status.message == ""


@pytest.mark.parametrize(
    ("fields", "after_s", "why"),
    [
        ({}, PATIENCE_S, ""),
        ({}, PATIENCE_S + 1, "a: its kubelet did nothing for 301 s"),
        ({"pending": "Infeasible", "pending_why": "too large"}, 1, "a: Infeasible for 1 s: too large"),
        ({"pending": "Deferred", "pending_why": "no room"}, PATIENCE_S, ""),
        ({"pending": "Deferred", "pending_why": "no room"}, PATIENCE_S + 1, "a: Deferred for 301 s: no room"),
        ({"in_progress": True, "progress_error": "no cgroup"}, PATIENCE_S + 1, "a: in progress for 301 s: no cgroup"),
    ],
)
def test_a_kubelet_has_its_time(fields: dict[str, Any], after_s: float, why: str) -> None:
    found = step(scene([asked("a", STEP, **fields)], SizingPhase.FIRST, "a"), after_s)
    if not why:
        assert change_of(found).phase is SizingPhase.FIRST
        return
    change = change_of(found)
    assert (change.phase, change.ending, change.why, change.since_s) == (
        SizingPhase.UNDOING,
        SizingOutcome.GIVEN_UP,
        why,
        SINCE_S + after_s,
    )
    assert (found.status.state, found.status.message) == ("undoing", why)


def test_what_the_api_server_refuses_is_given_up() -> None:
    change = change_of(step(scene([sized("a", BIG)], SizingPhase.FIRST, "a", refusal="no permission")))
    assert (change.phase, change.ending, change.why) == (
        SizingPhase.UNDOING,
        SizingOutcome.GIVEN_UP,
        "the API server refuses: no permission",
    )


def test_a_replica_that_went_away_is_replaced_by_a_ready_one() -> None:
    found = step(scene([sized("c", BIG), sized("b", BIG), sized("d", STEP)], SizingPhase.FIRST, "a"), 9)
    assert (order(found), change_of(found).since_s) == ("b", SINCE_S + 9)
    unready = step(scene([sized("b", BIG, is_ready=False)], SizingPhase.FIRST, "a"))
    assert unready.status.message == "no ready replica is left: it waits for one"
    assert order(unready) == "a"
    second = step(scene([sized("b", STEP, is_ready=False)], SizingPhase.FIRST, "ba"), 9)
    assert (order(second), change_of(second).since_s) == ("ba", SINCE_S)  # none is there: it waits
    later = step(scene([sized("b", STEP), sized("c", BIG)], SizingPhase.REST, "ba"), 9)
    assert (order(later), change_of(later).phase) == ("b", SizingPhase.REST)


def test_the_others_follow_by_name_and_then_all_are_watched() -> None:
    pods = [sized("a", STEP), sized("d", BIG), sized("c", BIG), sized("x", replace(BIG, cpu_request_m=7))]
    found = step(scene(pods, SizingPhase.REST, "a"), 5)
    assert (order(found), change_of(found).phase, change_of(found).since_s) == ("ac", SizingPhase.REST, SINCE_S + 5)
    # one that an earlier step has touched, and this one has not
    pods = [sized("a", GOAL), sized("c", STEP), sized("b", STEP)]
    assert order(step(scene(pods, SizingPhase.REST, "bca", after=GOAL))) == "cab"
    pods = [sized("a", STEP), sized("c", STEP)]
    whole = change_of(step(scene(pods, SizingPhase.REST, "ac", changed={"measured": 3}), 5))
    assert (whole.phase, whole.measured, whole.since_s) == (SizingPhase.WHOLE, 0, SINCE_S + 5)


# ---- proofs


def prove(
    after_s: float, names: str = "a", phase: SizingPhase = SizingPhase.PROOF, measured: int = 2, **more: Any
) -> SizingStep:
    pods = [sized("a", STEP), sized("b", STEP if len(names) > 1 else BIG)]
    changed = {"measured": measured, **more.pop("changed", {})}
    return step(scene(pods, phase, names, changed=changed, **more), after_s)


def test_a_proof_takes_its_time_and_two_reports() -> None:
    assert change_of(prove(PROOF_S - 1)).phase is SizingPhase.PROOF
    assert change_of(prove(PROOF_S)).phase is SizingPhase.REST
    assert change_of(prove(PROOF_S, measured=1)).phase is SizingPhase.PROOF
    assert change_of(prove(PROOF_S, measured=1, reported="a")).phase is SizingPhase.REST
    assert change_of(prove(PROOF_S, measured=1, reported="b")).measured == 1  # not the one that is watched
    assert change_of(prove(3 * PROOF_S - 1, measured=1)).phase is SizingPhase.PROOF
    undone = change_of(prove(3 * PROOF_S, measured=1))
    assert (undone.phase, undone.ending) == (SizingPhase.UNDOING, SizingOutcome.UNDONE)
    assert undone.why == "nothing was measured of it for 360 s, so it cannot be proven"


def test_harm_in_two_reports_in_a_row_takes_it_back() -> None:
    hurt = {"a": {"is_ready": False}}
    once = prove(10, measured=0, reported="a", signs=hurt)
    assert (change_of(once).measured, change_of(once).bad, once.status.message) == (1, 1, "a is not ready")
    unseen = prove(20, changed={"bad": 1}, signs=hurt)
    assert change_of(unseen).bad == 1
    well = prove(20, reported="a", changed={"bad": 1})
    assert (change_of(well).bad, well.status.message) == (0, "")
    twice = prove(20, reported="a", changed={"bad": 1}, signs=hurt)
    assert (change_of(twice).phase, change_of(twice).why) == (SizingPhase.UNDOING, "a is not ready")
    assert change_of(prove(PROOF_S, changed={"bad": 1})).phase is SizingPhase.PROOF  # one more report decides


def test_harm_of_any_replica_counts_once_all_have_the_size() -> None:
    hurt = {"b": {"is_ready": False}}
    whole = prove(9, "ab", SizingPhase.WHOLE, reported="b", changed={"bad": 1}, signs=hurt)
    assert change_of(whole).why == "b is not ready"
    alone = prove(9, "ba", SizingPhase.PROOF, reported="ab", changed={"bad": 1}, signs=hurt)
    assert (change_of(alone).phase, change_of(alone).bad) == (SizingPhase.PROOF, 0)  # the last one touched is watched


def test_the_fellows_are_those_without_the_new_size() -> None:
    waits = {"a": {"wait_per_cpu": 1.0}, "b": {"wait_per_cpu": 0.9}}
    assert change_of(prove(9, reported="a", signs=waits)).bad == 0
    calm = {"a": {"wait_per_cpu": 1.0}, "b": {"wait_per_cpu": 0.1}}
    assert change_of(prove(9, reported="a", signs=calm)).bad == 1


def test_when_all_are_proven_the_next_step_begins_with_the_first_of_them() -> None:
    found = prove(PROOF_S, "ab", SizingPhase.WHOLE)
    change = change_of(found)
    assert (change.phase, change.after, order(found), change.since_s) == (
        SizingPhase.FIRST,
        GOAL,
        "ba",
        SINCE_S + PROOF_S,
    )
    assert (change.measured, change.bad, found.status.message) == (0, 0, "")
    pods = [sized("a", GOAL), sized("b", GOAL)]
    done = step(scene(pods, SizingPhase.WHOLE, "ab", after=GOAL, changed={"measured": 2}), PROOF_S).status
    assert (done.change, done.state, done.message) == (None, "done", "proven")
    assert done.applied == Suggestion("id", BIG, GOAL)


def test_a_single_replica_needs_no_proof_of_all() -> None:
    pods = [sized("a", GOAL)]
    done = step(scene(pods, SizingPhase.PROOF, "a", after=GOAL, changed={"measured": 2}), PROOF_S).status
    assert (done.state, done.change) == ("done", None)
    again = change_of(step(scene([sized("a", STEP)], SizingPhase.PROOF, "a", changed={"measured": 2}), PROOF_S))
    assert (again.phase, again.after) == (SizingPhase.FIRST, GOAL)


def test_where_all_watched_are_gone_it_begins_anew() -> None:
    found = change_of(step(scene([sized("b", BIG)], SizingPhase.PROOF, "a"), 9))
    assert (found.phase, found.since_s) == (SizingPhase.FIRST, SINCE_S + 9)


# ---- ends


@pytest.mark.parametrize("mode", list(SizingMode))
def test_a_permission_that_is_taken_back_stops_it(mode: SizingMode) -> None:
    of = scene([sized("a", STEP)], SizingPhase.PROOF, "a")
    found = step(replace(of, sizing=replace(of.sizing, mode=mode)), 9).status
    if mode in (SizingMode.APPROVE, SizingMode.ACT, SizingMode.EARNED):
        assert found.change is not None
    else:
        (receipt,) = found.receipts
        assert (receipt.outcome, receipt.why, receipt.at) == (SizingOutcome.STOPPED, f"mode was set to {mode}", "t1009")


def test_an_amount_that_nobody_here_set_is_somebody_elses() -> None:
    foreign = replace(BIG, cpu_request_m=777)
    for phase in (SizingPhase.FIRST, SizingPhase.PROOF, SizingPhase.REST, SizingPhase.WHOLE):
        (receipt,) = step(scene([sized("a", foreign)], phase, "a")).status.receipts
        assert (receipt.outcome, receipt.why) == (SizingOutcome.YIELDED, "a was given another size by somebody else")
    # what this change had given, and found again before a proof
    assert step(scene([sized("a", BIG)], SizingPhase.REST, "a")).status.change is not None
    for phase in (SizingPhase.PROOF, SizingPhase.WHOLE):
        assert step(scene([sized("a", BIG)], phase, "a")).status.change is None
    assert step(scene([sized("a", BIG), sized("b", STEP)], SizingPhase.PROOF, "ab")).status.change is not None
    assert step(scene([sized("x", foreign), sized("b", STEP)], SizingPhase.PROOF, "b")).status.change is not None


def test_harm_that_counts_at_once() -> None:
    burns = change_of(step(scene([sized("a", BIG)], SizingPhase.FIRST, "a", objective_burns=True)))
    assert (burns.why, burns.ending) == ("objective fast burns", SizingOutcome.UNDONE)
    restarted = {"a": {"restarts": 1}}
    for size, is_hurt in ((STEP, True), (BIG, False)):
        found = change_of(step(scene([sized("a", size)], SizingPhase.FIRST, "a", signs=restarted)))
        assert (found.phase is SizingPhase.UNDOING) is is_hurt
    assert (
        change_of(step(scene([sized("b", BIG)], SizingPhase.FIRST, "ab", objective_burns=False))).phase
        is SizingPhase.FIRST
    )


def test_what_is_taken_back_is_asked_for_until_it_is_there() -> None:
    changed = {"why": "it hurt", "ending": SizingOutcome.UNDONE}
    foreign = replace(BIG, cpu_request_m=777)
    pods = [sized("a", STEP), asked("b", BIG, STEP), sized("c", BIG), sized("d", foreign)]
    found = step(scene(pods, SizingPhase.UNDOING, "abcd", changed=changed), 3 * PATIENCE_S)
    assert [(one.pod, one.size) for one in found.resizes] == [("a", BIG)]
    assert found.status.message == "it hurt"
    refused = step(scene(pods, SizingPhase.UNDOING, "abcd", changed=changed, refusal="no"), 9)
    assert refused.status.message == "it hurt; refused: no"
    late = step(scene(pods, SizingPhase.UNDOING, "abcd", changed=changed), 3 * PATIENCE_S + 1).status
    assert (late.change, late.receipts[0].why) == (
        None,
        "it hurt; not yet back at what it had: a (not in place), b (not in place)",
    )
    done = step(scene([sized("c", BIG), pod("e")], SizingPhase.UNDOING, "cea", changed=changed)).status
    assert (done.receipts[0].outcome, done.receipts[0].why, done.receipts[0].pods) == (
        SizingOutcome.UNDONE,
        "it hurt",
        3,
    )


def test_in_place_is_what_the_kubelet_says() -> None:
    assert is_in_place(sized("a", STEP), STEP)
    assert not is_in_place(sized("a", STEP), BIG)
    assert not is_in_place(asked("a", STEP), STEP)
    assert not is_in_place(sized("a", STEP, pending="Deferred"), STEP)
    assert not is_in_place(sized("a", STEP, in_progress=True), STEP)
    silent = asked("a", STEP, None)
    assert not is_in_place(silent, STEP)
    assert is_in_place(silent, STEP, was_never_resized=True)
    limits_only = asked("a", STEP, replace(STEP, memory_limit_bytes=None))
    assert is_in_place(limits_only, STEP)  # requests are what is allocated
    assert not is_in_place(asked("a", STEP, replace(STEP, memory_request_bytes=1)), STEP)


def spread_of(
    pods: list[SizedPod], mode: SizingMode = SizingMode.ACT, refusal: str = "", **status: Any
) -> list[tuple[str, ContainerSize]]:
    of = scene(pods, SizingPhase.FIRST, "a")
    kept = SizingStatus(applied=Suggestion("id", BIG, GOAL))
    sizing = replace(of.sizing, mode=mode, status=replace(kept, **status))
    return [(one.pod, one.size) for one in spread(replace(of, sizing=sizing, refusal=refusal))]


def test_pods_made_anew_get_the_proven_size_one_at_a_time() -> None:
    pods = [sized("c", BIG), sized("a", GOAL), sized("b", BIG)]
    assert spread_of(pods) == spread_of(pods, SizingMode.APPROVE) == [("b", GOAL)]
    assert spread_of(pods, SizingMode.SUGGEST) == spread_of(pods, SizingMode.OFF) == spread_of(pods, refusal="no") == []
    assert spread_of(pods, applied=None) == []
    assert spread_of([replace(pods[2], pending="Deferred"), pods[0]]) == [("c", GOAL)]
    assert spread_of(pods, template=STEP) == []
    assert spread_of([sized("z", STEP)], template=STEP) == [("z", GOAL)]
    assert spread_of(pods, template=GOAL) == []
    two = replace(pods[0], containers=pods[0].containers * 2)
    assert spread_of([two]) == []
    for outcome, given in ((SizingOutcome.DONE, [("b", GOAL)]), (SizingOutcome.STOPPED, [])):
        later = SizingReceipt("x", "t", SizingOutcome.GIVEN_UP, BIG, STEP, "", "", 1)
        assert spread_of(pods, receipts=(later, SizingReceipt("id", "t", outcome, BIG, GOAL, "", "", 1))) == given


# ---- receipts


def after(outcomes: list[SizingOutcome], outcome: SizingOutcome, **status: Any) -> SizingStatus:
    receipts = tuple(SizingReceipt(str(i), "t", one, BIG, GOAL, "", "", 1) for i, one in enumerate(outcomes))
    change = SizeChange("new", SizingPhase.WHOLE, 0.0, BIG, GOAL, GOAL, "ada", (touched("a"), touched("b")))
    return ended(SizingStatus(receipts=receipts, refused=("r",), **status), change, outcome, "why", "at", 500.0)


def test_an_end_has_a_receipt_and_doubles_the_quiet_time_with_each_failure() -> None:
    done = after([], SizingOutcome.DONE)
    assert done.receipts == (SizingReceipt("new", "at", SizingOutcome.DONE, BIG, GOAL, "why", "ada", 2),)
    assert (done.quiet_until_s, done.probation_until_s) == (500 + PAUSE_S, 500 + PROBATION_S)
    assert ([one.pod for one in done.proven], done.refused) == (["a", "b"], ("r",))
    failed = SizingOutcome.UNDONE
    for before, days in (
        ([], 1),
        ([failed], 2),
        ([failed, SizingOutcome.DONE, failed, failed], 2),
        ([failed] * 3, 8),
        ([failed] * 9, 16),
    ):
        found = after(before, failed)
        assert found.quiet_until_s == 500 + days * QUIET_S
        assert (found.proven, found.probation_until_s, found.refused) == ((), 0.0, ("new", "r"))
        assert (found.applied, found.template) == (None, None)
    assert len(after([failed] * MAX_RECEIPTS, failed).receipts) == MAX_RECEIPTS
    stopped = after([], SizingOutcome.STOPPED)
    assert (stopped.applied, stopped.refused, stopped.state) == (Suggestion("new", BIG, GOAL), ("r",), "stopped")


def test_what_pods_are_made_with_is_remembered_from_the_first_of_a_row_of_changes() -> None:
    assert after([], SizingOutcome.DONE).template == BIG
    follows = {"template": STEP, "applied": Suggestion("old", STEP, BIG)}
    assert after([], SizingOutcome.DONE, **follows).template == STEP
    apart = {"template": STEP, "applied": Suggestion("old", STEP, GOAL)}
    assert after([], SizingOutcome.DONE, **apart).template == BIG
    assert after([], SizingOutcome.UNDONE, **apart).template == STEP


def test_the_first_is_a_ready_one_of_the_size_by_name() -> None:
    pods = [sized("c", BIG), sized("b", BIG, is_ready=False), sized("a", STEP), sized("d", BIG)]
    found = first_of(scene(pods, SizingPhase.FIRST, "a"), BIG)
    assert found is not None
    assert found.pod == "c"
    assert first_of(scene(pods, SizingPhase.FIRST, "a"), GOAL) is None
