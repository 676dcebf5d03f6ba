"""The cluster around the engine: jobs run while all of their members do, restart from a checkpoint, and capacity is
checked independently.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import DeviceType
from cotenant.model.errors import Permanent
from cotenant.model.resources import GPU_CORE, Amounts
from cotenant.policy.placement.profiles import profile
from cotenant_lab.clusterworld.capacity_check import CapacityCheck
from cotenant_lab.clusterworld.config import ClusterConfig
from cotenant_lab.clusterworld.job import WorldJob
from cotenant_lab.clusterworld.racks import RackedNode, gpus
from cotenant_lab.clusterworld.usage import UsageTotals
from cotenant_lab.clusterworld.world import ClusterWorld, JobLog, PodAttributes
from cotenant_lab.workloads.training import URGENT, USUAL, JobPlan

CALM = ClusterConfig(
    bind_s=(0.5, 0.5), bind_fails=0.0, between_failures_s=inf, checkpoint_s=100.0, grace_s=10.0, restart_s=20.0
)
START_S = CALM.period_s + 0.5 + CALM.start_s  # at most: from arrival to running


def node(name: str, gpus: int = 2) -> Node:
    allocatable = {
        "cpu": 96_000,
        "memory": 1 << 40,
        "koordinator.sh/gpu-core": 100 * gpus,
        "koordinator.sh/gpu-memory-ratio": 100 * gpus,
    }
    return Node(name, Amounts.of(allocatable), Labels.of({HOSTNAME: name}))


def plan(
    number: int, arrival_s: float, duration_s: float, pods: int = 1, percent: int = 100, priority: int = USUAL
) -> JobPlan:
    return JobPlan(number, 0, arrival_s, duration_s, pods, percent, priority)


def world(
    plans: list[JobPlan], nodes: int = 2, config: ClusterConfig = CALM, log: JobLog | None = None, racks: int = 1
) -> ClusterWorld:
    names = [f"n{i}" for i in range(nodes)]
    cluster = Cluster(profile("first-fit"), np.random.default_rng(0), EngineSettings(max_pods=64))
    usage = UsageTotals(2.0 * nodes, np.array([2.0 * nodes]), np.array([0]), (0.0, 1e6))
    return ClusterWorld(
        cluster,
        [RackedNode(node(name), f"r{i % racks}", gpus(2)) for i, name in enumerate(names)],
        plans,
        lambda _: PodAttributes(),
        usage,
        config,
        np.random.default_rng(1),
        4.0,
        log,
    )


def test_a_job_runs_as_long_as_it_takes_alone() -> None:
    one = world([plan(0, 3.0, 50.0, pods=4)])
    one.run()
    (job,) = one.jobs
    assert job.ended_s == pytest.approx(job.first_run_s + 50.0)
    assert job.first_run_s - 3.0 <= START_S
    assert one.usage.computing.sum() == pytest.approx(4 * 50.0)
    assert one.cluster.size() == (2, 0)


def test_an_incomplete_job_holds_idle_gpus() -> None:
    """Two jobs of three members on four GPUs: the second holds one while the first runs."""
    both = world([plan(0, 0.0, 100.0, pods=3), plan(1, 0.0, 100.0, pods=3)])
    both.run()
    first, second = both.jobs
    assert second.first_run_s >= first.ended_s
    idle = both.usage.held.sum() - both.usage.computing.sum()
    assert 90.0 < idle < 90.0 + 8 * START_S


def test_incomplete_jobs_are_requeued_at_the_time_out() -> None:
    """Two jobs of three members hold two GPUs each when a fourth GPU of the first's goes to the second: one must
    yield.
    """
    plans = [plan(0, 0.0, 1000.0, pods=3), plan(1, 1.0, 10.0, pods=2)]
    kept = world(plans)
    kept.run()
    assert kept.jobs[1].first_run_s > 1000.0
    given_back = world(plans, config=replace(CALM, timeout_s=60.0, requeue_first_s=30.0))
    given_back.run()
    assert given_back.jobs[1].requeued > 0
    idle = [
        cluster_world.usage.held.sum() - cluster_world.usage.computing.sum() for cluster_world in (kept, given_back)
    ]
    assert idle[1] < idle[0]


def test_a_job_restarts_from_its_last_checkpoint() -> None:
    job = WorldJob(plan(0, 0.0, 1000.0), running_since_s=10.0)
    job.stop(265.0, 100.0)
    assert (job.done_s, job.lost_s, job.remaining_s()) == (200.0, 55.0, 800.0)
    job.stop(300.0, 100.0)
    assert job.lost_s == 55.0
    job.running_since_s = 300.0
    job.stop(320.0, 100.0)
    assert (job.done_s, job.lost_s) == (200.0, 75.0)


def test_a_failed_node_sets_its_jobs_back_to_a_checkpoint() -> None:
    failing = replace(CALM, between_failures_s=400.0, outage_s=50.0)
    some = world([plan(i, 0.0, 1000.0, pods=2) for i in range(2)], config=failing)
    some.run()
    assert some.lost > 0
    for job in some.jobs:
        assert job.ended
        assert job.interruptions > 0
        assert job.ended_s - job.first_run_s >= 1000.0 + job.lost_s


def test_preemption_interrupts_the_whole_job() -> None:
    log = JobLog(0)
    plans = [plan(0, 0.0, 500.0, pods=4), plan(1, 250.0, 20.0, priority=URGENT)]
    some = world(plans, log=log)
    some.run()
    usual, urgent = some.jobs
    assert some.preempted == 1
    assert usual.interruptions == 1
    assert usual.done_s == 200.0
    assert urgent.ended_s < usual.ended_s
    assert any("higher priority" in line for line in log.lines)


def test_a_job_across_racks_takes_longer() -> None:
    spread = world([plan(0, 0.0, 100.0, pods=4)], racks=2)
    spread.run()
    (job,) = spread.jobs
    assert job.crossed == 1
    assert job.ended_s == pytest.approx(job.first_run_s + 110.0)


def test_failed_binds_are_retried() -> None:
    flaky = world([plan(i, 0.0, 10.0) for i in range(4)], config=replace(CALM, bind_fails=0.5))
    flaky.run()
    assert flaky.failed_binds > 0
    assert all(job.ended for job in flaky.jobs)


def test_equal_seeds_give_equal_runs() -> None:
    config = replace(CALM, bind_fails=0.2, between_failures_s=300.0, bind_s=(0.1, 0.9))
    runs = []
    for _ in range(2):
        one = world([plan(i, 7.0 * i, 90.0, pods=1 + i % 3) for i in range(8)], config=config)
        one.run()
        runs.append([(job.first_run_s, job.ended_s) for job in one.jobs])
    assert runs[0] == runs[1]
    assert nan not in runs[0]


def test_overcommitted_capacity_is_detected() -> None:
    check = CapacityCheck()
    check.add_node(node("a"))
    part = DeviceAllocation(DeviceType.GPU, 0, Amounts.of({GPU_CORE: 60}))
    pod = Pod("x", requests=Amounts.of({GPU_CORE: 60}))
    check.assign("u1", pod, "a", Holdings(devices=(part,)))
    with pytest.raises(Permanent, match="already assigned"):
        check.assign("u1", pod, "a", NO_HOLDINGS)
    with pytest.raises(Permanent, match="120 % of gpu 0 of a"):
        check.assign("u2", pod, "a", Holdings(devices=(part,)))
    check.remove("u2")
    check.remove("u1")
    with pytest.raises(Permanent, match="its pods request 300"):
        check.assign("u3", replace(pod, requests=Amounts.of({GPU_CORE: 300})), "a", NO_HOLDINGS)
