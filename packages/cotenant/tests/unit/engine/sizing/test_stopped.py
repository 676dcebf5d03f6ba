"""A change that its owner stopped was never proven, so nothing gives its size to others; one that is undone leaves what
was proven before it.
"""

from __future__ import annotations

import pytest
from tests.fakes.cluster.sizing_world import BIG, MIB, World, pod

from cotenant.model.machine.node_metric import Use
from cotenant.model.sizes.right_sizing import SizingMode, SizingOutcome, SizingPhase


@pytest.mark.parametrize("mode", [SizingMode.APPROVE, SizingMode.ACT])
def test_replicas_that_a_stopped_change_did_not_come_to_are_left_when_acting_is_allowed_again(mode: SizingMode) -> None:
    world = World(mode=SizingMode.ACT)
    world.reach(SizingPhase.PROOF)
    world.spec(mode=SizingMode.SUGGEST)
    assert world.run(60, lambda: world.phase() is None)
    assert world.status.receipts[0].outcome is SizingOutcome.STOPPED
    asked = len(world.resized)
    world.spec(mode=mode)
    world.run(600)
    assert len(world.resized) == asked


def test_undoing_the_second_change_leaves_the_first_for_pods_that_are_made_anew() -> None:
    world = World(mode=SizingMode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    first = world.status.receipts[0]
    world.now_s += 4000
    world.use = Use(1600, 900 * MIB)
    assert world.run(7200, lambda: len(world.status.receipts) == 2)
    world.spec(undo=world.status.receipts[0].id)
    assert world.run(60, lambda: len(world.status.receipts) == 3)
    assert world.sizes() == {first.after}
    world.put(pod("d"))  # from the template
    world.run(60)
    assert world.sizes() == {first.after}
    world.spec(undo=first.id)
    assert world.run(60, lambda: len(world.status.receipts) == 4)
    assert world.sizes() == {BIG}
    world.put(pod("e"))
    world.run(60)
    assert world.sizes() == {BIG}
