"""A change that its owner stopped halfway was never proven: it can be undone, and nothing gives its size to others."""

from __future__ import annotations

import pytest
from tests.fakes.cluster.sizing_world import World

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
