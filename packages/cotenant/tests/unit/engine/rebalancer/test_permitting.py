"""How far a move may go: the lowest of the mode, what was earned, and the cluster's objects."""

from __future__ import annotations

import pytest
from tests.unit.engine.migration.test_outcomes import job

from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.migration.proof import OBJECTIVE_BROKEN
from cotenant.engine.rebalancer.permitting import MovePermits
from cotenant.model.autonomy.autonomy import Action, Autonomy, AutonomyRung, Blackout, Freeze, MoveMode
from cotenant.model.groups.migration import MigrationJob, PodRef

PLANNED = MigrationJob("m", "", PodRef("shop", "p", "pu"), is_ours=True)
GOOD = [job(float(k), "True") for k in range(9)]


def test_what_was_earned_counts_in_its_namespace_only() -> None:
    jobs = list(GOOD)
    permits = MovePermits(Permissions(), lambda: jobs, MoveMode.EARNED)
    assert permits.leave("shop", 0.0).rung is AutonomyRung.ACT
    assert permits.leave("other", 0.0).rung is AutonomyRung.APPROVE
    acts = permits.leave("shop", 0.0).job_of(PLANNED)
    assert (acts.paused, acts.suggested) == (False, False)
    assert acts.allowed_by == "mode earned: climbed to act: 9 of 9 held, at least 70 %"
    jobs.append(job(20.0, "False", OBJECTIVE_BROKEN))
    waits = permits.leave("shop", 0.0).job_of(PLANNED)
    assert (waits.paused, waits.suggested, waits.allowed_by) == (True, True, "")
    jobs.append(job(21.0, "False", OBJECTIVE_BROKEN))
    assert permits.leave("shop", 0.0).rung is AutonomyRung.SUGGEST
    assert not permits.leave("shop", 0.0).may_create


@pytest.mark.parametrize("mode", list(MoveMode))
@pytest.mark.parametrize("ceiling", list(AutonomyRung))
def test_the_lowest_counts(mode: MoveMode, ceiling: AutonomyRung) -> None:
    permissions = Permissions()
    permissions.seen(Autonomy("c", frozenset({"shop"}), ceiling=ceiling))
    found = MovePermits(permissions, lambda: GOOD, mode).leave("shop", 0.0)
    assert found.rung is min(AutonomyRung.APPROVE if mode is MoveMode.APPROVE else AutonomyRung.ACT, ceiling)
    assert found.may_create == (ceiling >= AutonomyRung.APPROVE)
    assert not found.is_held


def test_a_freeze_holds_everything_and_a_blackout_what_is_new_or_was_just_approved() -> None:
    permissions = Permissions()
    permits = MovePermits(permissions, lambda: (), MoveMode.ACT)
    begun, approved = permits.leave("shop", 0.0).job_of(PLANNED), MigrationJob("a", "u", PLANNED.pod, suggested=True)
    permissions.seen(Autonomy("sale", blackouts=(Blackout(10.0, 20.0, "sale"),)))
    assert permits.leave("shop", 15.0).is_held
    assert permits.holds(begun, 15.0) == ""
    assert "sale" in permits.holds(approved, 15.0)
    assert permits.holds(approved, 25.0) == ""
    permissions.seen(Autonomy("freeze", actions=frozenset({Action.MOVES}), freeze=Freeze("outage")))
    assert "outage" in permits.holds(begun, 25.0)
    assert not permits.leave("shop", 25.0).may_create
    permissions.gone("freeze")
    permissions.seen(Autonomy("low", ceiling=AutonomyRung.SUGGEST))
    assert permits.holds(begun, 25.0) == ""
    assert "low" in permits.holds(approved, 25.0)
