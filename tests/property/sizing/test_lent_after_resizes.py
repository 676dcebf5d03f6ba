"""Prod pods that anybody resizes in place on a node that lends: what stands on the node follows what they request and
use, is what a manager that begins now would leave, and never more than services leave.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.fakes.processes.managed_world import CORES, World

from cotenant.model.resources import Amounts

SEEDS = range(4)
STEPS = 40
DIFFERS_PERCENT = 1  # of what stands: less is not written


def resized(world: World, name: str, cores: int) -> None:
    of = world.pods[name]
    requests = Amounts.of({"cpu": cores * 1000, "memory": of.pod.requests.get("memory")})
    world.pods[name] = replace(of, pod=replace(of.pod, requests=requests))
    world.manager.pod_seen(world.pods[name], world.now_s)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_lent_follows_what_services_request_now(seed: int) -> None:
    random = Random(seed)
    world = World(
        cpuCalculatePolicy="maxUsageRequest",
        cpuReclaimThresholdPercent=100,
        resourceDiffThreshold=DIFFERS_PERCENT / 100,
        metricReportIntervalSeconds=20,
        updateTimeThresholdSeconds=1,
    )
    world.node()
    amounts = set()
    for number in range(STEPS):
        if len(world.pods) < 4:
            world.pod(f"p{number}", cores=random.randint(1, 20))
        for name in random.sample(sorted(world.pods), random.randint(0, len(world.pods))):
            resized(world, name, random.randint(1, 24))
        if random.random() < 0.1:
            name = random.choice(sorted(world.pods))
            world.manager.pod_gone(world.pods.pop(name).uid, world.now_s)
        uses = {name: random.randint(100, 5000) for name in world.pods}
        world.measure(**uses)
        for _ in range(3):
            world.step(10.0)
        lent = world.lent().get("batch-cpu", 0)
        taken = sum(max(of.pod.requests.get("cpu"), uses[name]) for name, of in world.pods.items())
        assert abs(lent - (CORES - taken)) <= CORES * DIFFERS_PERCENT // 100 + 1, (lent, taken)
        amounts.add(lent)
        world.restart()
        world.step(1.0)
        assert world.lent().get("batch-cpu", 0) == lent
    assert len(amounts) > STEPS // 2
