"""The phase of a PodGroup by its members' counts; its order of precedence is upstream's."""

from __future__ import annotations

import pytest

from cotenant.model.groups.gang import GangPhase
from cotenant.policy.placement.gangs.phase import MemberCounts, phase_of


@pytest.mark.parametrize(
    ("counts", "phase"),
    [
        (MemberCounts(2, 0, 0, 0, 0), GangPhase.PENDING),  # fewer members than the minimum of 3
        (MemberCounts(3, 0, 0, 0, 0), GangPhase.PRE_SCHEDULING),
        (MemberCounts(3, 1, 1, 0, 0), GangPhase.SCHEDULING),
        (MemberCounts(3, 3, 2, 0, 0), GangPhase.SCHEDULED),
        (MemberCounts(3, 3, 3, 0, 0), GangPhase.RUNNING),
        (MemberCounts(3, 3, 1, 2, 0), GangPhase.RUNNING),  # succeeded members count as running
        (MemberCounts(3, 3, 2, 0, 1), GangPhase.FAILED),  # one failed, and no member is still to come
        (MemberCounts(3, 3, 1, 1, 1), GangPhase.FAILED),
        (MemberCounts(3, 2, 1, 0, 1), GangPhase.SCHEDULING),  # one failed, and one has not run yet
        (MemberCounts(4, 4, 0, 3, 1), GangPhase.FINISHED),  # the minimum succeeded, whatever the others did
    ],
)
def test_phases_of_a_gang_of_at_least_three(counts: MemberCounts, phase: GangPhase) -> None:
    assert phase_of(GangPhase.NONE, 3, counts) is phase


@pytest.mark.parametrize("ended", [GangPhase.FINISHED, GangPhase.FAILED])
def test_a_gang_that_has_ended_keeps_its_phase_when_its_pods_are_deleted(ended: GangPhase) -> None:
    assert phase_of(ended, 3, MemberCounts(0, 0, 0, 0, 0)) is ended
    assert phase_of(ended, 3, MemberCounts(3, 0, 0, 0, 0)) is GangPhase.PRE_SCHEDULING
    assert phase_of(GangPhase.RUNNING, 3, MemberCounts(0, 0, 0, 0, 0)) is GangPhase.PENDING
