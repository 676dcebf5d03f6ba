"""Which objectives count against a move: those that burn since, of the pod that moved and of its new neighbours."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.engine.rebalancer.test_other_kinds import NOW, World

from cotenant.engine.rebalancer.broken import BrokenObjectives, burning
from cotenant.engine.rebalancer.settings import MoveKinds
from cotenant.model.cluster.labels import Labels
from cotenant.model.groups.migration import JobPhase, MigrationJob, MoveNote, PodRef
from cotenant.model.traces.objective import FiringAlert, Indicator, ObjectiveState, ObjectiveStatus
from cotenant.policy.rebalance.standings import Standings


def status(service: str, burns: bool) -> ObjectiveStatus:
    firing = (FiringAlert("1h", "5m", 14.4),) if burns else ()
    state = ObjectiveState.BURNING if burns else ObjectiveState.OK
    return ObjectiveStatus(f"default/{service}", "default", service, Indicator.LATENCY, state, {"5m": 20.0}, firing)


def test_what_burnt_before_or_runs_elsewhere_does_not_count() -> None:
    world, standings = World(MoveKinds()), Standings()
    for name, node in (("moved", "b"), ("beside", "b"), ("away", "a")):
        if world.cluster.node(node) is None:
            world.node(node)
        world.pod(name, node, labels=Labels.of({"app": name}))
    broken = BrokenObjectives(world.cluster, standings)
    new = PodRef("default", "moved", "u-moved")
    note = MoveNote("k", "a", "b", "cpu")
    job = MigrationJob("j", "u", new, phase=JobPhase.SUCCEEDED, is_ours=True, new_pod=new, note=note)
    for name in ("moved", "beside", "away"):
        standings.seen(status(name, False), NOW)
    assert broken(job, NOW) == ""
    standings.seen(status("away", True), NOW)
    assert broken(job, NOW) == ""
    for name in ("beside", "moved"):
        before = replace(job, note=replace(note, burning=burning(standings, NOW)))
        standings.seen(status(name, True), NOW)
        assert broken(before, NOW) == f"ServiceObjective default/{name}"
        assert broken(replace(before, note=replace(note, burning=burning(standings, NOW))), NOW) == ""
        assert broken(replace(before, is_ours=False), NOW) == ""
    assert broken(before, NOW + 301.0) == "", "nobody counts any more"
