"""A rebalancer that is killed after any write: the next one ends the job, and no reservation or evicted pod is left
behind.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.fakes.processes.migration_world import Killed, MigrationWorld

from cotenant.engine.migration.contracts import MigrationSettings
from cotenant.engine.migration.instructions import WithdrawEviction
from cotenant.engine.migration.steps import SimulatedMove
from cotenant.model.cluster.eviction_request import INVALID, EvictionRequest
from cotenant.model.groups.migration import (
    EvictPolicy,
    JobMode,
    JobPhase,
    JobReason,
    JobStep,
    MoveNote,
    PodRef,
    WaitReason,
)
from cotenant.policy.rebalance.migration.object_limiter import ObjectLimit

MAX_WRITES = 20


def _plain(world: MigrationWorld) -> None:
    world.job()


def _direct(world: MigrationWorld) -> None:
    world.job(mode=JobMode.EVICT_DIRECTLY)


def _soft(world: MigrationWorld) -> None:
    world.job(policy=EvictPolicy.SOFT)


def _without_uid(world: MigrationWorld) -> None:
    world.job(pod=PodRef("default", "web-1"))


def _no_room(world: MigrationWorld) -> None:
    world.schedules = False
    world.job()


def _budget(world: MigrationWorld) -> None:
    world.budget = lambda: False
    world.job()


def _budget_later(world: MigrationWorld) -> None:
    start_s = world.now_s
    world.budget = lambda: world.now_s > start_s + 60
    world.job()


def _asked(world: MigrationWorld) -> None:
    world.serve_requests()
    world.job()


def _slow_responder(world: MigrationWorld) -> None:
    world.serve_requests()
    world.responds = lambda asked_s: asked_s > 100
    world.job()


def _endless_responder(world: MigrationWorld) -> None:
    world.serve_requests()
    world.responds = lambda asked_s: False
    world.job()


def _no_request_for_such_a_pod(world: MigrationWorld) -> None:
    world.serve_requests()
    world.refuses = INVALID
    world.job()


def _no_responder_left(world: MigrationWorld) -> None:
    world.serve_requests()
    world.refuses = "NoFurtherResponder"
    world.job()


def _surge(world: MigrationWorld) -> None:
    world.arbiter.surge = True
    world.pods = {key: pod for key, pod in world.pods.items() if key == "default/web-1"}
    world.replicas = 1
    world.restart()
    world.job()


def _surge_that_never_starts(world: MigrationWorld) -> None:
    _surge(world)
    world.starts = False


def _surge_without_room(world: MigrationWorld) -> None:
    _surge(world)
    world.schedules = False


def _surge_of_no_deployment(world: MigrationWorld) -> None:
    _surge(world)
    world.refuses_rollout = "default/web-1 belongs to no Deployment is not supported here"


def _requested(world: MigrationWorld) -> None:
    world.simulated = SimulatedMove(PodRef("default", "web-2", "u2"), MoveNote(node="old-node", target="new-node"))
    world.job(what_if=True, alternatives=("default/web-2",), is_ours=False)


def _requested_in_vain(world: MigrationWorld) -> None:
    world.simulated = SimulatedMove(why="default/web-1: the scheduler finds no node", final=True)
    world.job(what_if=True, is_ours=False)


SCENES: dict[str, tuple[Callable[[MigrationWorld], None], JobPhase]] = {
    "reservation first": (_plain, JobPhase.SUCCEEDED),
    "evict directly": (_direct, JobPhase.SUCCEEDED),
    "soft eviction": (_soft, JobPhase.SUCCEEDED),
    "a job without the pod's UID": (_without_uid, JobPhase.SUCCEEDED),
    "no node for the reservation": (_no_room, JobPhase.FAILED),
    "a budget that never allows it": (_budget, JobPhase.FAILED),
    "an EvictionRequest": (_asked, JobPhase.SUCCEEDED),
    "a responder that takes its time": (_slow_responder, JobPhase.SUCCEEDED),
    "a responder that never ends": (_endless_responder, JobPhase.FAILED),
    "a pod that cannot be requested": (_no_request_for_such_a_pod, JobPhase.SUCCEEDED),
    "no responder that evicts": (_no_responder_left, JobPhase.FAILED),
    "the only replica": (_surge, JobPhase.SUCCEEDED),
    "the only replica, whose replacement never starts": (_surge_that_never_starts, JobPhase.FAILED),
    "the only replica, without room": (_surge_without_room, JobPhase.FAILED),
    "the only replica, of no Deployment": (_surge_of_no_deployment, JobPhase.FAILED),
    "a requested move": (_requested, JobPhase.SUCCEEDED),
    "a budget that allows it later": (_budget_later, JobPhase.SUCCEEDED),
}


@pytest.mark.parametrize("scene", SCENES)
def test_killed_after_any_write(scene: str) -> None:
    prepare, wanted = SCENES[scene]
    killed = 0
    for kill_after in range(1, MAX_WRITES):
        world = MigrationWorld(kill_after=kill_after)
        prepare(world)
        try:
            world.run(110)
        except Killed:
            killed += 1
            world.restart()
            world.turn()
            world.run(110)
        world.check()
        assert world.jobs["job"].phase is wanted, world.jobs["job"]
        if world.arbiter.surge:
            assert world.min_ready == 1, "its only replica was away"
            assert bool(world.rolled_out) is (wanted is JobPhase.SUCCEEDED), "not undone"
    assert killed >= 3


@pytest.mark.slow
def test_killed_twice_anywhere_while_the_others_go_on() -> None:
    for seed in range(150):
        rng = random.Random(seed)
        world = MigrationWorld()
        prepare, _ = rng.choice(list(SCENES.values()))
        prepare(world)
        for _ in range(2):
            world.kill_after = world.writes + rng.randrange(1, 8)
            try:
                world.run(rng.randrange(40))
            except Killed:
                world.restart()
                for _ in range(rng.randrange(30)):
                    world.turn()
        world.kill_after = None
        world.restart()
        world.run(120)
        world.check()


@pytest.mark.parametrize("kill_after", range(1, 8))
def test_a_job_that_is_deleted_while_no_rebalancer_runs_leaves_no_reservation(kill_after: int) -> None:
    world = MigrationWorld(kill_after=kill_after)
    world.job(ttl_s=0.0)
    with pytest.raises(Killed):
        world.run()
    world.jobs.clear()
    world.restart()
    world.run()
    world.check()


def test_a_pod_that_was_replaced_meanwhile_is_not_evicted() -> None:
    world = MigrationWorld()
    world.job(pod=PodRef("default", "web-1", "older"))
    world.run()
    world.check()
    assert world.jobs["job"].status_reason == JobReason.MISSING_POD
    assert not world.evicted


def test_rates_survive_a_restart() -> None:
    world = MigrationWorld(replicas=12, settings=MigrationSettings(per_minute=2))
    for i in range(1, 6):
        world.job(name=f"job-{i}", uid=f"job-uid-{i}", pod=PodRef("default", f"web-{i}", f"u{i}"), forced=True)
        made = world.jobs.pop("job")
        world.jobs[made.name] = made
    per_minute: list[float] = []
    for _ in range(70):
        before = len(world.evicted)
        world.restart()
        world.act()
        per_minute += [world.now_s] * (len(world.evicted) - before)
        world.turn()
    assert len(per_minute) == 5
    assert all(later - earlier > 60 for earlier, later in zip(per_minute, per_minute[2:], strict=False))


def test_a_workload_moves_one_replica_in_its_time() -> None:
    world = MigrationWorld()
    for i in (1, 2):
        world.jobs[f"job-{i}"] = world.job(
            name=f"job-{i}", uid=f"job-uid-{i}", pod=PodRef("default", f"web-{i}", f"u{i}"), ttl_s=900.0
        )
        world.jobs.pop("job")
    world.run(50)
    assert len(world.evicted) == 1
    assert "its workload was moved less than 300 s ago" in world.engine.waits("job-2")
    world.run(80)
    assert len(world.evicted) == 2
    world.check()


def test_two_writes_of_one_version_do_not_both_count() -> None:
    world = MigrationWorld()
    job = world.job()
    world.act()
    assert world._store(job, job) == "conflict"


def test_an_ended_job_is_deleted_after_its_time() -> None:
    world = MigrationWorld(settings=MigrationSettings(kept_s=600.0))
    world.job()
    world.run(20)
    assert world.jobs["job"].has(JobStep.POD_READY)
    world.now_s += 1000.0
    world.run(2)
    assert not world.jobs


def test_two_jobs_of_one_workload_do_not_take_each_others_reservation() -> None:
    world = MigrationWorld(replicas=6, settings=MigrationSettings(per_workload=ObjectLimit(0.0)))
    for i in (1, 2, 3):
        world.jobs[f"job-{i}"] = world.job(
            name=f"job-{i}", uid=f"job-uid-{i}", pod=PodRef("default", f"web-{i}", f"u{i}")
        )
        world.jobs.pop("job")
    world.run(100)
    world.check()
    assert {job.phase for job in world.jobs.values()} == {JobPhase.SUCCEEDED}
    assert len({job.new_pod for job in world.jobs.values()}) == 3


def test_a_requested_move_is_about_the_pod_that_was_chosen() -> None:
    world = MigrationWorld()
    _requested(world)
    world.run()
    world.check()
    job = world.jobs["job"]
    assert (job.pod.name, job.phase, world.evicted) == ("web-2", JobPhase.SUCCEEDED, ["u2"])
    assert world.simulations == 1


def test_a_requested_move_without_a_better_place_ends_with_the_reason() -> None:
    world = MigrationWorld()
    _requested_in_vain(world)
    world.run()
    job = world.jobs["job"]
    assert (job.phase, job.status_reason) == (JobPhase.FAILED, JobReason.NO_BETTER_PLACE)
    assert job.message == "default/web-1: the scheduler finds no node"
    assert not world.evicted


def test_a_requested_move_that_must_wait_is_simulated_again_until_its_time_is_over() -> None:
    world = MigrationWorld()
    world.simulated = SimulatedMove(why="2 pods of a are moving, at most 2 may at a time")
    world.job(what_if=True, ttl_s=120.0)
    world.act()
    assert world.engine.waits("job") == "2 pods of a are moving, at most 2 may at a time"
    world.run()
    assert 4 <= world.simulations <= 5
    assert world.jobs["job"].status_reason == JobReason.TIMEOUT


def test_one_request_is_simulated_a_turn() -> None:
    world = MigrationWorld()
    world.simulated = SimulatedMove(why="not now")
    for i in range(3):
        made = world.job(name=f"job-{i}", uid=f"uid-{i}", what_if=True)
        world.jobs[made.name] = made
    world.jobs.pop("job")
    world.act()
    assert world.simulations == 1


def test_what_a_responder_says_is_in_the_status_and_an_endless_one_is_named_and_left() -> None:
    world = MigrationWorld()
    _endless_responder(world)
    world.run(20)
    waits = world.jobs["job"].condition(JobStep.WAITING)
    assert waits is not None
    assert waits.reason == WaitReason.RESPONDER
    assert waits.message.startswith("EvictionRequest default/cotenant-job-uid: responder example.com/mover has it for ")
    world.run(90)
    world.check()
    job = world.jobs["job"]
    assert job.status_reason == JobReason.TIMEOUT
    assert job.message.startswith("not complete within 300 s: EvictionRequest default/cotenant-job-uid: responder")
    assert not world.evicted


@pytest.mark.parametrize("kill_after", range(1, 9))
def test_a_request_whose_job_was_deleted_is_withdrawn(kill_after: int) -> None:
    world = MigrationWorld(kill_after=kill_after)
    _endless_responder(world)
    world.jobs["job"] = replace(world.jobs["job"], ttl_s=0.0)
    with suppress(Killed):
        world.run(20)
    world.jobs.clear()
    world.kill_after = None
    world.restart()
    world.run()
    world.check()
    assert not world.evicted


def test_requests_of_others_are_left_alone() -> None:
    world = MigrationWorld()
    _asked(world)
    theirs = EvictionRequest("default", "drain", "q", "example.com/drain", "u2", "web-2", 0.0)
    world.engine.request_seen(theirs)
    assert not [one for one in world.engine.decide(1e6) if isinstance(one, WithdrawEviction)]


def test_the_only_replica_has_its_replacement_first_on_the_reserved_node() -> None:
    world = MigrationWorld()
    _surge(world)
    world.run(60)
    world.check()
    job = world.jobs["job"]
    begun = job.condition(JobStep.SURGE)
    assert begun is not None
    assert (begun.status, begun.reason) == ("True", JobReason.SURGING)
    assert job.new_pod is not None
    assert [pod.node for pod in world.pods.values()] == ["new-node"]
    assert world.min_ready == 1


def test_a_surge_that_fails_is_undone_and_says_so() -> None:
    world = MigrationWorld()
    _surge_that_never_starts(world)
    world.run(120)
    job = world.jobs["job"]
    undone = job.condition(JobStep.SURGE)
    assert undone is not None
    assert (job.status_reason, undone.status, undone.reason) == (JobReason.TIMEOUT, "False", JobReason.UNDONE)
    assert list(world.pods) == ["default/web-1"]
    assert world.rolled_out == ""
