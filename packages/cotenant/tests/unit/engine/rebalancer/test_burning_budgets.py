"""MissedObjectives where ServiceObjectives cover a service: their alerts decide, not a window that a pod reports."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.engine.rebalancer.test_other_kinds import NOW, World, measure, missing

from cotenant.engine.migration.proof import FIRST_REST_S, Proofs, rests
from cotenant.engine.rebalancer.jobs import job_of, kind_of
from cotenant.engine.rebalancer.purposes import Purposes
from cotenant.engine.rebalancer.settings import ActingSettings, MissedObjectives, MoveKinds, PodScope
from cotenant.model.cluster.observed import OwnedBy
from cotenant.model.groups.migration import JobCondition, JobPhase, JobStep, MigrationJob, PodRef
from cotenant.model.traces.objective import FiringAlert, Indicator, ObjectiveState, ObjectiveStatus

ALERT = FiringAlert("1h", "5m", 14.4)
BURNING = ObjectiveStatus(
    "default/web-latency",
    "default",
    "web",
    Indicator.LATENCY,
    ObjectiveState.BURNING,
    {"5m": 30.0, "1h": 20.0},
    (ALERT,),
    "default/victim",
    55.0,
)
HOLDS = replace(BURNING, state=ObjectiveState.OK, burn={"5m": 0.4}, firing=(), worst_burn=1.2)
NO_DATA = replace(HOLDS, state=ObjectiveState.NO_DATA, burn={}, worst="")


def covered(*statuses: ObjectiveStatus, measured: bool = False) -> World:
    """`victim` and `batch` on a, of application web; b is free."""
    world = missing()
    if measured:
        measure(world)
    for status in statuses:
        world.planner.standings.seen(status, NOW)
    return world


def test_a_service_whose_budget_burns_is_relieved_by_its_worst_replica_without_any_report() -> None:
    (move,) = covered(BURNING).plan().moves
    assert (move.pod, move.target, move.about) == ("default/batch", "b", "objective default/web-latency")
    assert move.reason == (
        "ServiceObjective default/web-latency burns its budget: burn rate 20.0 over 1h and 30.0 over 5m, above 14.4; "
        "default/victim is its worst replica with 55.0; moving default/batch costs less"
    )


@pytest.mark.parametrize("name", ["default/victim", "victim", "u-victim"])
def test_the_worst_replica_is_named_by_pod_or_uid(name: str) -> None:
    world = covered(replace(BURNING, worst=name))
    world.pod("batch", "a", 4000)  # presses no more
    assert [move.pod for move in world.plan().moves] == ["default/victim"]


def test_a_service_whose_budget_does_not_burn_is_not_moved_for_what_its_pods_report() -> None:
    assert covered(measured=True).plan().moves, "the reports alone would move it"
    found = covered(HOLDS, measured=True).plan()
    assert not found.moves
    (kept,) = found.kept
    assert kept.pod == "default/victim"
    assert kept.reason.startswith("default/victim misses its objective: p99 is 2.50 of it")
    assert kept.reason.endswith(
        "ServiceObjective default/web-latency does not burn its budget: no alert fires, burn rate 0.4 over 5m"
    )


def test_without_data_the_reports_count_and_the_reason_says_so() -> None:
    (move,) = covered(NO_DATA, measured=True).plan().moves
    assert move.about == "default/victim"
    assert "by its reports, since ServiceObjective default/web-latency has no data" in move.reason


def test_reports_count_where_the_service_burns_and_no_replica_is_known_as_its_worst() -> None:
    (move,) = covered(replace(BURNING, worst="default/gone"), measured=True).plan().moves
    assert move.about == "default/victim"
    assert "above 14.4 and no replica is known as its worst" in move.reason


def test_of_a_service_that_burns_only_the_worst_replica_is_considered() -> None:
    world = covered(BURNING, measured=True)
    world.pod("worse", "a", 1000, objective_p99_ms=10.0)
    world.planner.standings.seen(replace(BURNING, worst="default/worse"), NOW)
    found = world.plan()
    assert {move.about for move in found.moves} == {"objective default/web-latency"}
    (kept,) = [kept_pod for kept_pod in found.kept if kept_pod.pod == "default/victim"]
    assert kept.reason.endswith("and default/worse is its worst replica")


def test_replicas_of_the_worst_replicas_workload_are_covered_whatever_their_labels() -> None:
    other = replace(HOLDS, service="spans-call-it-so")
    assert not covered(other, measured=True).plan().moves
    assert covered(replace(other, worst=""), measured=True).plan().moves
    world = covered(other, measured=True)
    entry = world.cluster.find("default/victim")
    assert entry is not None
    owner = OwnedBy("apps/v1", "ReplicaSet", "v", "uid-v", True)
    world.cluster.pod_seen(replace(entry.seen, owned_by=(owner,)), NOW)
    world.pod("sibling", "b", 100)
    world.planner.standings.seen(replace(other, worst="default/sibling"), NOW)
    assert world.plan().moves, "the sibling is of another workload"


def test_a_pod_was_moved_for_the_objective_lately() -> None:
    world = covered(BURNING)
    (move,) = world.plan().moves
    found = world.plan(done={kind_of(move)})
    assert not found.moves
    assert found.kept[0].reason == "a pod was moved for it less than an hour ago"


def test_a_worst_replica_out_of_scope_is_left_alone() -> None:
    world = World(MoveKinds(objectives=MissedObjectives(scope=PodScope(exclude=("default",)))))
    world.node("a")
    world.node("b")
    world.pod("victim", "a")
    world.planner.standings.seen(BURNING, NOW)
    found = world.plan()
    assert not found.moves
    assert (found.kinds[0].considered, found.kinds[0].solved) == (0, 0)


def judged(*after: ObjectiveStatus | None) -> MigrationJob:
    """The verdict of a move for the objective, whose status becomes these after it; None = it is deleted."""
    world = covered(BURNING)
    (move,) = world.plan().moves
    ready = JobCondition(JobStep.POD_READY, "True", since_s=NOW)
    new = PodRef("default", "batch-new", "u-batch-new")
    job = replace(
        job_of(move, "uid-w", 20, ActingSettings(), NOW),
        uid="j",
        phase=JobPhase.SUCCEEDED,
        conditions=(ready,),
        new_pod=new,
    )
    for status in after:
        if status is None:
            world.planner.standings.gone(BURNING.key)
        else:
            world.planner.standings.seen(status, NOW + 60.0)
    proofs = Proofs(lambda node, resource: None, 180.0, purpose=Purposes(world.cluster, world.planner))
    assert proofs.judge(job, NOW + 179.0) is None
    found = proofs.judge(job, NOW + 180.0)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("after", "status", "figures"),
    [
        (HOLDS, "True", "30.00 before, 0.40 after; no alert fires"),
        (replace(BURNING, burn={"5m": 15.0}), "True", "30.00 before, 15.00 after; an alert fires"),
        (replace(BURNING, burn={"5m": 15.1}), "False", "30.00 before, 15.10 after; an alert fires"),
    ],
)
def test_a_move_helped_where_the_budget_burns_less(after: ObjectiveStatus, status: str, figures: str) -> None:
    condition = judged(after).condition(JobStep.HELPED)
    assert condition is not None
    said = f"burn rate of ServiceObjective default/web-latency over 5m: {figures}"
    assert (condition.status, condition.message) == (status, said)


@pytest.mark.parametrize(
    ("after", "words"), [((), "has no data since"), ((NO_DATA,), "has no data since"), ((None,), "is gone")]
)
def test_nothing_is_claimed_without_a_status_since_the_move(
    after: tuple[ObjectiveStatus | None, ...], words: str
) -> None:
    condition = judged(*after).condition(JobStep.HELPED)
    assert condition is not None
    assert (condition.status, condition.message) == ("Unknown", f"ServiceObjective default/web-latency {words}")


def test_moves_for_an_objective_that_still_burns_are_backed_off() -> None:
    job = judged(replace(BURNING, worst_burn=56.0))
    kind = "MissedObjectives/objective default/web-latency"
    assert rests([job], NOW + 200.0) == {kind: NOW + 180.0 + FIRST_REST_S}
