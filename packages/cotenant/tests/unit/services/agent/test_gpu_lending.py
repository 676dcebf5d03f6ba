"""Idle GPUs, lent by the agent's process: from its samples to the Device object, and back to an eviction."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec
import pytest
from tests.fakes.node.agent_world import AwaySource, World
from tests.unit.engine.node.test_gpu_lending import OTHER, SERVER, TRAIN, card, use
from tests.unit.services.agent.reports.test_devices import OneObject

from cotenant.drivers.kube.kinds.custom.device import DeviceObject, read_devices
from cotenant.engine.node.gpu_lending.settings import GpuLendingSettings
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import PolicySettings
from cotenant.model.resources import LENT_GPU
from cotenant.services.agent_settings.config import AgentConfig, ClusterAccess

PERIOD_S = 10


def world(mode: AgentMode, client: OneObject) -> World:
    settings = GpuLendingSettings(measured_every_s=PERIOD_S, starting_s=0, return_s=25)
    config = AgentConfig(
        node="n",
        mode=mode,
        period_ms=PERIOD_S * 1000,
        policies=PolicySettings(gpu_lending=settings),
        writable=("pods",),
        cluster=ClusterAccess(node_metric=False, node_topology=False),
    )
    made = World(config, sources={"cluster": AwaySource((SERVER,))}, more={"client": client})
    made.gpus = (card(use("server", 30, 20)),)
    return made


def lent(client: OneObject) -> tuple[int, int]:
    found = read_devices(msgspec.convert(client.obj, DeviceObject))
    return found.devices[0].total.get(LENT_GPU), found.returns_s()


@pytest.mark.parametrize("mode", [AgentMode.ACT, AgentMode.OBSERVE])
def test_what_a_holder_leaves_is_offered_and_comes_back(mode: AgentMode) -> None:
    client = OneObject()
    machine = world(mode, client)

    async def run() -> None:
        process = machine.process()
        assert process.writers.devices is not None
        await process.discover()
        await machine.tick(process, 40)
        await process.writers.devices.write()
        if mode is AgentMode.OBSERVE:  # nobody would take it back
            assert lent(client) == (0, 0)
            return
        assert lent(client) == (60, 25)
        machine.sources["cluster"].answer = (SERVER, TRAIN, replace(OTHER, grace_s=300))
        await process.discover()
        machine.gpus = (card(use("server", 30, 20), use("train", 20, 50), use("other", 20, 10)),)
        await machine.tick(process)
        assert [(pod.key, pod.grace_s) for pod in machine.evictions.pods] == []
        machine.gpus = (card(use("server", 60, 20), use("train", 20, 50), use("other", 20, 10)),)
        await machine.tick(process)
        await asyncio.sleep(0)  # evictions run beside the ticks, in one step here
        assert {(pod.key, pod.grace_s) for pod in machine.evictions.pods} == {
            ("ml/other", 25)
        }  # came with it: one is enough
        await process.writers.devices.write()
        assert lent(client)[0] <= 40
        await process.end()

    asyncio.run(run())
