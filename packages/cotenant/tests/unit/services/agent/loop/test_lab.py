"""The agent's loop and the lab's, each over its own plant, give byte-identical requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.machine.knob import GiveBack, Knob, KnobLease, LeaseAnswer, SetKnob
from cotenant.model.machine.node_decision import EvictPod
from cotenant.services.agent.loop.actor import Actor
from cotenant.services.agent.loop.ticker import Ticker
from cotenant_lab.plant.driving import Drive
from cotenant_lab.plant.keeping import PlantKeeper
from cotenant_lab.plant.loads import Hog, PlantService, SineLoad
from cotenant_lab.plant.machine import Plant
from cotenant_lab.plant.recording import EngineRecorder
from cotenant_lab.plant.scenarios import GUESTS, ROOT, SERVICE, hog_pods, policies, service_pod

SECOND = 1_000_000
HOGS = hog_pods(3)
POD = service_pod(8000)
SETTINGS = AgentSettings(policies=policies(80, idle=False), roots=(ROOT,), best_effort_group=GUESTS)


def plant() -> tuple[Plant, PlantService]:
    server = PlantService(SERVICE, 300.0, 1500, POD.objective_p99_us or 0, np.random.default_rng(2))
    hogs = [Hog(pod.group, from_us=4 * SECOND, until_us=25 * SECOND) for pod in HOGS]
    return Plant(2, [server, SineLoad(f"{ROOT}/wave"), *hogs], (ROOT, GUESTS)), server


class Waiting:
    """The plant's keeper, behind `await` as a process has it."""

    def __init__(self, keeper: PlantKeeper) -> None:
        self.keeper = keeper

    async def hold(self, wishes: Sequence[SetKnob]) -> tuple[LeaseAnswer, ...]:
        return self.keeper.hold(wishes)

    async def give_back(self, requests: Sequence[GiveBack]) -> tuple[LeaseAnswer, ...]:
        return self.keeper.give_back(requests)

    async def leases(self) -> tuple[KnobLease, ...]:
        return self.keeper.leases()


class Nobody:
    async def evict(self, pod: EvictPod) -> tuple[bool, str]:
        raise AssertionError(f"{pod.key} was to leave")


@pytest.mark.slow
def test_the_processs_loop_and_the_labs_give_the_same_requests() -> None:
    machine, server = plant()
    drive = Drive(machine, SETTINGS, (POD, *HOGS), {POD.key: server})
    drive.run(40 * SECOND)
    in_lab = [event.said for event in drive.engine.events if event.call == "sampled"]

    async def as_process() -> list[str]:
        machine, server = plant()
        keeper = PlantKeeper(machine.knobs, lambda: machine.now_us)
        agent = EngineRecorder(Agent(SETTINGS, "node"))
        actor = Actor(agent, Waiting(keeper), Nobody(), lambda: machine.now_us)  # type: ignore[arg-type]
        ticker = Ticker(agent, actor, machine, machine.knobs, monotonic=lambda: 0.0, cpus=machine.topology())  # type: ignore[arg-type]
        agent.machine_seen(frozenset(knob for knob in Knob if machine.knobs.supported(knob) is None))
        agent.pods_seen((POD, *HOGS), 0)
        for second in range(1, 41):
            machine.advance(second * SECOND)
            keeper.tick()
            health = server.health(machine.now_us, SECOND)
            if health is not None:
                agent.health_reported(POD.key, health, machine.now_us)
            await ticker.tick()
        return [event.said for event in agent.events if event.call == "sampled"]

    in_process = asyncio.run(as_process())
    assert sum("guard" in words for words in in_lab) >= 2, "the guard had nothing to do, so little was compared"
    assert [words.encode() for words in in_process] == [words.encode() for words in in_lab]
