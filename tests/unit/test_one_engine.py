"""The lab, the local cluster and `cotenant scheduler` run one engine: the same class, built from the same profile
object, giving the same instructions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Instruction, Preempt, Unschedulable
from cotenant.model.cluster.affinity import SpreadConstraint
from cotenant.model.cluster.labels import ZONE, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod, PodEstimate
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import PlacementProfile, profile
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.scheduler.scheduler_process import SchedulerProcess
from cotenant.services.scheduling.names import by_requests, cluster_profile
from cotenant.services.scheduling.options import Options
from cotenant_lab.bridge import Bridge
from cotenant_lab.workloads.colocation import generate
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.world import World
from cotenant_local.up.config import UpConfig

SEED = 5
GIB = 1 << 30
PROFILES = ("cotenant-requests", "kube-default", "founding")


def of_the_lab(name: str) -> Cluster:
    config = WorldConfig(nodes=3, pods=60, horizon_s=7200.0)
    truth, offer = generate(config, SEED, 0.8)
    bridge = Bridge(World(truth, config, SEED), offer, config, profile(name), np.random.default_rng(SEED))
    for node in bridge._names:  # the lab's own machines; the recorded events bring theirs
        bridge.engine.node_gone(node, 0.0)
    bridge.engine.rebuild(0.0)  # rows from the first one on, as in an engine that has seen no node: ties fall by row
    return bridge.engine


def of_a_scheduler(chosen: PlacementProfile) -> Cluster:
    async def made() -> Cluster:
        access = Access("http://127.0.0.1:1", FixedCredential(Credential("")))
        process = SchedulerProcess(
            access, chosen, Options(listen=Address("127.0.0.1", 0), seed=SEED), "one", lambda client: Alone()
        )
        await process.client.close()
        return process.cluster

    return asyncio.run(made())


def of_cotenant_scheduler(name: str) -> Cluster:
    return of_a_scheduler(by_requests(cluster_profile("--profile", name)))


def of_the_local_cluster(name: str) -> Cluster:
    """As its child process builds it from the options that `up` gives it."""
    given = UpConfig(directory=Path("up"), profile=name).scheduler_options()
    return of_a_scheduler(by_requests(cluster_profile("--profile", given[given.index("--profile") + 1])))


MAKERS: tuple[Callable[[str], Cluster], ...] = (of_the_lab, of_cotenant_scheduler, of_the_local_cluster)


def recorded(engine: Cluster) -> list[tuple[object, ...]]:
    """A short day: pods come, are bound, are measured, miss, are preempted for, and go; what was to be done, in
    order.
    """
    said: list[tuple[object, ...]] = []

    def act(now_s: float) -> None:
        for instruction in engine.decide(now_s):
            value = as_values(instruction)
            if (
                value[0] != "waits" or value not in said
            ):  # the lab's records are brief: a reason in other words is not repeated
                said.append(value)
            if isinstance(instruction, Bind):
                assert engine.sending(instruction.uid, now_s)
                engine.bound(instruction.uid, now_s)
            if isinstance(instruction, Preempt):
                for victim in instruction.victims:
                    engine.pod_gone(victim.uid, now_s)
            if isinstance(instruction, Evict):
                engine.pod_gone(instruction.victim.uid, now_s)

    def pod(i: int, cpu: int, **more: object) -> None:
        service = i % 3 == 0
        value = Pod(
            f"p{i}",
            requests=Amounts.of({"cpu": cpu, "memory": 2 * GIB}),
            labels=Labels.of({"app": "web"}),
            estimate=PodEstimate(cpu / 1000.0, GIB, 0.4, 0.4, 0.5, np.inf if service else 100.0),
            objective_p99_ms=10.0 if service else None,
            **more,
        )  # type: ignore[arg-type]
        engine.pod_seen(ObservedPod(value, value.name, "cotenant", float(i)), float(i))

    for i in range(6):
        size = Amounts.of({"cpu": 8000 + 4000 * (i % 2), "memory": 32 * GIB, "pods": 20})
        engine.node_seen(Node(f"n{i}", size, Labels.of({ZONE: f"z{i % 3}"})))
        engine.report(f"n{i}", (0.1 * i, 0.2, 5.0, 0.0, 0.2, 1.0, 0.0))
    for i in range(24):
        spread = (SpreadConstraint(ZONE, LabelSelector.of({"app": "web"})),) if i % 4 == 0 else ()
        pod(i, 500 + 750 * (i % 4), spread=spread)
    act(30.0)
    numbers = np.array([engine.number_of(f"p{i}") for i in range(24)], dtype=np.int64)
    engine.usage_measured(numbers, np.linspace(0.2, 2.0, 24), np.full(24, 1.0 * GIB), 90.0)
    for minute in range(2, 5):
        engine.latency_measured(numbers[::3], np.full(8, 2.0), np.full(8, 5_000), 60.0 * minute)
        act(60.0 * minute)
    for i in range(24, 40):
        pod(i, 4000)
    act(300.0)
    pod(50, 6000, priority=1000)
    act(320.0)
    act(340.0)
    engine.node_seen(replace(Node("n0", Amounts.of({"cpu": 8000, "memory": 32 * GIB})), ready=False))
    for i in range(12):
        engine.pod_gone(f"p{i}", 350.0)
    act(360.0)
    act(700.0)
    engine.validate()
    return said


def as_values(instruction: Instruction) -> tuple[object, ...]:
    match instruction:
        case Bind(uid=uid, node=node):
            return "bind", uid, node
        case Preempt(uid=uid, node=node, victims=victims):
            return "preempt", uid, node, victims
        case Evict(victim=victim, reason=reason):
            return "evict", victim.uid, reason
        case Unschedulable(uid=uid):
            return "waits", uid
        case _:
            return (type(instruction).__name__,)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("name", PROFILES)
def test_every_service_builds_the_engine_from_the_same_profile_object(
    name: str, make: Callable[[str], Cluster]
) -> None:
    engine = make(name)
    assert type(engine) is Cluster
    assert engine.profile is profile(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_one_sequence_of_events_gives_the_same_instructions_everywhere(name: str) -> None:
    lab, scheduler, local = (recorded(replayed(make, name)) for make in MAKERS)
    assert {entry[0] for entry in lab} >= {"bind", "waits", "preempt"}
    assert lab == scheduler == local


def replayed(make: Callable[[str], Cluster], name: str) -> Cluster:
    """The engine with what is a matter of pace, not of judgement, set alike: pods a round, and back-off."""
    engine = make(name)
    engine.settings = replace(engine.settings, max_pods=1000)
    engine._components.queue._backoff = type(engine._components.queue._backoff)()
    return engine
