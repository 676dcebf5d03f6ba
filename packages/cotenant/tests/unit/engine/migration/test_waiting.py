"""What a job waits for is said in its status, and a wait for its turn among other moves does not count toward its
time limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from tests.fakes.processes.migration_world import MigrationWorld, PassAll

from cotenant.engine.migration.contracts import MigrationSettings
from cotenant.engine.migration.instructions import CreateReservation, Instruction, WriteStatus
from cotenant.engine.migration.pending import TWO_BUDGETS
from cotenant.model.groups.migration import JobPhase, JobReason, JobStep, MigrationJob, PodRef, WaitReason
from cotenant.policy.rebalance.migration.arbitration import BUDGET, ArbitrationVerdict
from cotenant.policy.rebalance.migration.object_limiter import ObjectLimit

FREE = MigrationSettings(per_minute=None, per_workload=ObjectLimit(0.0))


@dataclass
class Holds(PassAll):
    """An arbiter that lets every job wait."""

    why: str = ""

    def arbitrate(
        self, pending: Sequence[MigrationJob], moving: Sequence[MigrationJob], now_s: float
    ) -> Mapping[str, tuple[ArbitrationVerdict, str]]:
        verdict = ArbitrationVerdict.WAITING if self.why else ArbitrationVerdict.PASSED
        return {job.name: (verdict, self.why) for job in pending}


def waiting(world: MigrationWorld, name: str = "job") -> tuple[str, str, str]:
    """Status, reason and message of the condition."""
    found = world.jobs[name].condition(JobStep.WAITING)
    assert found is not None
    return found.status, found.reason, found.message


def storm(world: MigrationWorld, jobs: int, ttl_s: float) -> None:
    for i in range(1, jobs + 1):
        made = world.job(name=f"job-{i}", uid=f"job-uid-{i}", pod=PodRef("default", f"web-{i}", f"u{i}"), ttl_s=ttl_s)
        world.jobs[made.name] = made
        world.jobs.pop("job")


BUDGET_HOLDS = f"{BUDGET} default/d allows no further disruption now"


@pytest.mark.parametrize(
    ("why", "reason"),
    [(BUDGET_HOLDS, WaitReason.BUDGET), ("2 pods of a are moving, at most 2 may at a time", WaitReason.LIMIT)],
)
def test_a_job_that_is_not_begun_says_why_at_once(why: str, reason: WaitReason) -> None:
    world = MigrationWorld(arbiter=Holds(why))
    world.job()
    world.run(3)
    assert waiting(world) == ("True", reason, why)
    job = world.jobs["job"]
    assert (job.phase, job.message) == (JobPhase.PENDING, why)
    writes = world.writes
    world.run(20)
    assert world.writes == writes


def test_what_a_budget_held_until_the_end_is_named() -> None:
    world = MigrationWorld(arbiter=Holds(BUDGET_HOLDS))
    world.job(ttl_s=30.0)
    world.run(20)
    job = world.jobs["job"]
    assert (job.phase, job.status_reason) == (JobPhase.FAILED, JobReason.TIMEOUT)
    assert job.message == f"not complete within 30 s: {BUDGET_HOLDS}"
    assert waiting(world)[0] == "False"


def test_the_server_s_refusal_of_an_eviction_is_said_and_it_is_tried_again() -> None:
    world = MigrationWorld(budget=lambda: False)
    world.job(ttl_s=120.0)
    world.run(20)
    assert waiting(world) == (
        "True",
        WaitReason.BUDGET,
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )
    world.budget = lambda: True
    world.run(20)
    assert world.jobs["job"].phase is JobPhase.SUCCEEDED
    assert waiting(world)[0] == "False"
    assert world.jobs["job"].message == ""


def test_two_budgets_over_a_pod_fail_its_job_at_the_first_answer() -> None:
    @dataclass
    class TwoBudgets(MigrationWorld):
        def _evict(self, job: MigrationJob, policy: object) -> str:
            return f"This pod has {TWO_BUDGETS}, which the eviction subresource does not support."

    world = TwoBudgets()
    world.job()
    world.run(8)
    job = world.jobs["job"]
    assert (job.phase, job.status_reason) == (JobPhase.FAILED, JobReason.FAILED_EVICT)
    assert TWO_BUDGETS in job.message
    world.check()


@pytest.mark.parametrize("step", ["its replacement is not ready yet", "0/2 nodes are available", "it is paused"])
def test_later_waits_are_said_too(step: str) -> None:
    world = MigrationWorld()
    world.job(paused=step == "it is paused")
    world.schedules = "nodes" not in step
    found = []
    for _ in range(20):
        world.act()
        condition = world.jobs["job"].condition(JobStep.WAITING)
        found.append(condition.message if condition is not None and condition.status == "True" else "")
        world.turn()
        if "ready" in step:
            world.pods.update({key: replace(pod, ready=False) for key, pod in world.pods.items()})
    assert step in found


def test_a_wait_for_a_turn_does_not_count_toward_the_time_limit() -> None:
    arbiter = Holds("30 pods of the cluster are moving, at most 30 may at a time")
    world = MigrationWorld(arbiter=arbiter)
    world.job(ttl_s=60.0)
    world.run(100)  # five minutes
    phases = [world.jobs["job"].phase]
    arbiter.why = ""
    world.restart()
    world.run(15)
    assert [*phases, world.jobs["job"].phase] == [JobPhase.PENDING, JobPhase.SUCCEEDED]


def test_no_job_of_a_storm_ends_for_want_of_time() -> None:
    world = MigrationWorld(replicas=39, settings=replace(FREE, per_minute=10))
    storm(world, 39, ttl_s=90.0)
    world.run(500)
    world.check()
    assert {job.phase for job in world.jobs.values()} == {JobPhase.SUCCEEDED}


def test_room_is_not_reserved_before_the_eviction_may_begin() -> None:
    """A storm over the limit of evictions a minute holds reservations for those only that may be evicted now."""
    world = MigrationWorld(replicas=12, settings=replace(FREE, per_minute=3))
    for key, pod in list(world.pods.items()):  # they do not wait for one another
        world.pods[key] = replace(pod, workload="")
    storm(world, 12, ttl_s=90.0)
    for _ in range(4):
        world.act()
    assert len(world.reservations) == 3
    held = [job for job in world.jobs.values() if job.condition(JobStep.QUEUED) is not None]
    assert len(held) == 9
    assert {waiting(world, job.name)[1] for job in held} == {WaitReason.LIMIT}


@pytest.mark.parametrize("restarts", [False, True])
def test_no_minute_has_more_evictions_than_allowed_and_none_has_fewer_without_need(restarts: bool) -> None:
    """A rebalancer that is started again counts what the one before it evicted."""
    world = MigrationWorld(replicas=6, settings=replace(FREE, per_minute=2))
    for key, pod in list(world.pods.items()):
        world.pods[key] = replace(pod, workload="")
    storm(world, 6, ttl_s=600.0)
    evicted_s: list[float] = []
    for _ in range(120):
        if restarts:
            world.restart()
        before = len(world.evicted)
        world.act()
        evicted_s += [world.now_s] * (len(world.evicted) - before)
        world.turn()

    assert len(evicted_s) == 6
    apart_s = [later_s - earlier_s for earlier_s, later_s in zip(evicted_s[:-2], evicted_s[2:], strict=True)]
    assert min(apart_s) >= 60.0
    assert max(apart_s) <= 75.0  # a reservation is made and placed first, at three seconds a turn


def test_an_answer_that_comes_after_the_watch_does_not_hide_what_became_of_it() -> None:
    """A reservation is placed, and the watch shows that, before its creation is answered."""
    world = MigrationWorld()
    world.job()
    world.act()
    (create,) = [create_job for create_job in _decided(world) if isinstance(create_job, CreateReservation)]
    world._carry_out(create)
    (answer,) = world.reservations.values()
    world.turn()
    world._show()
    world.engine.reservation_written(answer)
    world.engine.done(create, world.now_s)
    assert world.engine._reservations[answer.name].node == "new-node"


def test_an_old_answer_about_a_job_is_left_alone() -> None:
    world = MigrationWorld()
    first = world.job()
    (write,) = [create_job for create_job in _decided(world) if isinstance(create_job, WriteStatus)]
    answer = replace(write.job, version="2")
    later = replace(answer, version="3", paused=True)
    world.engine.job_seen(later)
    world.engine.job_written(write, answer)
    assert world.engine.jobs["job"] is later
    world.engine.job_seen(first)
    world.engine.job_written(write, answer)
    assert world.engine.jobs["job"] is answer


def _decided(world: MigrationWorld) -> list[Instruction]:
    world._show()
    return world.engine.decide(world.now_s)
