"""Changes of sizes under a freeze, outside of windows, and on a rung that was earned."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.fakes.cluster.sizing_world import BIG, NOW_S, World

from cotenant.engine.sizing.outcomes import judged
from cotenant.model.autonomy.autonomy import Action, Autonomy, AutonomyRung, Blackout
from cotenant.model.sizes.right_sizing import SizingMode, SizingOutcome, SizingPhase, SizingReceipt
from cotenant.model.traces.objective import Indicator, ObjectiveState, ObjectiveStatus


def burning(state: ObjectiveState) -> ObjectiveStatus:
    return ObjectiveStatus("ns/fast", "ns", "web", Indicator.LATENCY, state=state)


def test_frozen_nothing_is_begun_and_thawed_it_goes_on() -> None:
    world = World(mode=SizingMode.ACT)
    world.freeze("outage")
    world.run(1200)
    assert (world.status.state, world.status.message) == ("waiting", "frozen by ada: outage")
    assert world.resized == []
    world.freeze(None)
    assert world.run(7200, lambda: bool(world.status.receipts))
    assert world.status.receipts[0].outcome is SizingOutcome.DONE


def test_what_a_person_approved_is_not_begun_either() -> None:
    world = World(mode=SizingMode.APPROVE)
    world.freeze("outage")
    world.approve()
    world.run(600)
    assert world.resized == []


@pytest.mark.parametrize("phase", [SizingPhase.FIRST, SizingPhase.PROOF, SizingPhase.REST, SizingPhase.WHOLE])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_freeze_in_the_middle_holds_the_change_and_a_thaw_lets_it_end(phase: SizingPhase, restarts: bool) -> None:
    world = World(mode=SizingMode.ACT)
    world.reach(phase)
    world.freeze("outage")
    resized = len(world.resized)
    if restarts:
        world.restart()
    world.run(7200)
    assert len(world.resized) == resized
    assert not world.status.receipts or (phase is SizingPhase.WHOLE and world.status.change is None)
    world.freeze(None)
    assert world.run(7200, lambda: bool(world.status.receipts))
    assert world.status.receipts[0].outcome is SizingOutcome.DONE  # the freeze did not count as a silent kubelet


@pytest.mark.parametrize("phase", [SizingPhase.PROOF, SizingPhase.REST, SizingPhase.WHOLE])
def test_frozen_a_proof_still_sees_harm_and_undoes_it(phase: SizingPhase) -> None:
    world = World(mode=SizingMode.ACT, objective="fast")
    world.engine.objective_seen(burning(ObjectiveState.OK))
    world.reach(phase)
    world.freeze("outage")
    world.run(30)
    world.engine.objective_seen(burning(ObjectiveState.BURNING))
    assert world.run(120, lambda: bool(world.status.receipts))
    assert world.status.receipts[0].outcome is SizingOutcome.UNDONE
    assert world.status.receipts[0].broke_objective
    assert world.sizes() == {BIG}


def test_frozen_an_undo_that_is_asked_for_runs() -> None:
    world = World(mode=SizingMode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    world.freeze("outage")
    world.spec(undo=world.status.receipts[0].id)
    world.run(120)
    assert world.sizes() == {BIG}


def test_a_resize_that_was_decided_before_the_freeze_is_not_sent_after_it() -> None:
    world = World(mode=SizingMode.ACT)
    world.reach(SizingPhase.FIRST)
    writes = world.engine.decide(world.now_s + 1)
    (resize,) = [write for write in writes if hasattr(write, "undoes")]
    assert world.engine.may_resize(resize, world.now_s + 1)
    world.freeze("outage")
    assert not world.engine.may_resize(resize, world.now_s + 1)
    assert world.engine.may_resize(resize._replace(undoes=True), world.now_s + 1)


def test_a_ceiling_and_a_blackout_hold_it() -> None:
    world = World(mode=SizingMode.ACT)
    world.engine.permissions.seen(Autonomy("a", actions=frozenset({Action.SIZES}), ceiling=AutonomyRung.SUGGEST))
    world.run(600)
    assert world.status.state == "suggested"
    world.engine.permissions.seen(Autonomy("a", blackouts=(Blackout(NOW_S, NOW_S + 3600, "holidays"),)))
    world.run(600)
    assert (world.status.state, world.resized) == ("waiting", [])
    assert world.run(7200, lambda: bool(world.status.receipts))


def _receipts(days: int, outcome: SizingOutcome = SizingOutcome.DONE) -> tuple[SizingReceipt, ...]:
    first = datetime.fromtimestamp(NOW_S, UTC) - timedelta(days=days + 2)
    return tuple(
        SizingReceipt(f"r{day}", (first + timedelta(days=day)).isoformat(), outcome, BIG, BIG, "", "", 1)
        for day in reversed(range(days))
    )


def test_earned_it_acts_once_enough_changes_of_the_namespace_held() -> None:
    for days, expected in ((3, "awaitsApproval"), (12, "changing")):
        world = World(mode=SizingMode.EARNED)
        world.sizing = replace(world.sizing, status=replace(world.sizing.status, receipts=_receipts(days)))
        world.restart()
        assert world.run(600, lambda of=world, state=expected: of.status.state == state), world.status
    assert world.status.change is not None
    assert world.status.change.allowed_by == "mode earned"


def test_what_was_taken_back_counts_once_and_what_is_fresh_not_yet() -> None:
    (done,) = _receipts(1)
    undone = replace(done, outcome=SizingOutcome.UNDONE, broke_objective=True)
    at_s = datetime.fromisoformat(done.at).timestamp()
    assert [found.held for found in judged([undone, done], NOW_S)] == [False]
    assert judged([done], at_s + 3600) == []
    assert [found.held for found in judged([done], at_s + 90_000)] == [True]
    assert judged([replace(done, outcome=SizingOutcome.GIVEN_UP), replace(done, at="broken")], NOW_S) == []
