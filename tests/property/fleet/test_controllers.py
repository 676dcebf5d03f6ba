"""Two controllers, an agent and operators, over a bus and a store that are late, lose answers and are cut off, with
clocks that differ by minutes and processes that are killed.

Whatever happens, nothing runs twice and an answer is true when it is given; and when all is quiet again every group is
where it was last brought, and every controller brings it where it is asked to.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.fakes.cluster.restless_fleet import MAX_SKEW_S, RestlessFleet
from tests.fakes.servers.unsteady import UnsteadyBus
from tests.fakes.virtual_time import run_virtually

from cotenant.model.errors import CotenantError
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.group import GroupGoal, GroupOutcome, GroupRecord
from cotenant.model.fleet.requests import Down, Restart, SetConfiguration, Spread, Up
from cotenant.model.fleet.states import AgentState
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate
from cotenant.services.fleet.operator import ANEW_S, ask
from cotenant.services.fleet.rpc import decode

PAIR = (ContainerTemplate("store", "image"), ContainerTemplate("web", "image", after=("store",)))
QUIET_S = 120.0
ACTS = ("up", "up", "down", "down", "restart")
FAULTS = ("cut", "cut", "kill", "kill", "configure", "clock", "nothing")


class Scene:
    """One seed."""

    def __init__(self, folder: Path, seed: int, operators: int) -> None:
        self.random = Random(seed)
        self.world = RestlessFleet(folder, Random(self.random.random()))
        self.operators = operators
        self.faults: list[str] = []
        self.log: list[str] = []
        self.configured = 0.0

    async def play(self) -> None:
        world, groups = self.world, ("shop", "farm")
        await asyncio.sleep(5)
        asking = [self._operates(group, k) for group in groups for k in range(self.operators)]
        breaking = asyncio.create_task(self._breaks())
        await asyncio.gather(*asking)
        breaking.cancel()
        await asyncio.gather(breaking, return_exceptions=True)
        for name in world.controllers + world.agents:
            if name in world.processes:
                world.processes[name].bus.heal()
            world.start(name)
        await self._until("every group is where it is to be", lambda: all(map(self._is_settled, groups)))
        await self._until("all agree", self._agree)
        for group in groups:
            await self._finally(group)
        await world.end()
        self._check(not world.violations, "; ".join(world.violations))
        twice = [guid for guid, starts in world.starts.items() if starts > world.creations[guid]]
        self._check(not twice, f"started twice: {twice}")

    async def _operates(self, group: str, number: int) -> None:
        bus = UnsteadyBus(self.world.hub, self.world.line())
        for _ in range(self.random.randint(3, 6)):
            await asyncio.sleep(self.random.choice((0.0, 0.5, 5.0)))
            await self._asks(bus, group, self.random.choice(ACTS), f"{group} {number}")

    async def _asks(self, bus: UnsteadyBus, group: str, act: str, who: str) -> GroupOutcome | CotenantError:
        request: object = {"up": Up(GroupTemplate(group, PAIR)), "down": Down(group), "restart": Restart(group)}[act]
        now = asyncio.get_running_loop().time
        before = dict(self.world.creations)
        self.log.append(f"{now():.2f} {who}: {act}")
        try:
            outcome = await ask(bus, "local", act, request, GroupOutcome, 300.0, now, ANEW_S)
        except CotenantError as error:
            self.log.append(f"{now():.2f} {who}: {act}: {type(error).__name__} {error}")
            if self.operators == 1:  # so that the next answer can be judged
                await self._until(f"{group} is settled after {error}", lambda: self._is_settled(group))
            return error
        self.log.append(f"{now():.2f} {who}: {act}: {outcome.guids} {outcome.reason} {outcome.left}")
        if self.operators == 1:
            self._judge(group, act, outcome, before)
        return outcome

    def _judge(self, group: str, act: str, outcome: GroupOutcome, before: dict[str, int]) -> None:
        """Nobody else asks for this group, so the answer is what is there."""
        there = self.world.of_group(group)
        running = {name for name, container in there.items() if container.status == "running"}
        if outcome.guids:
            self._check(act != "down", f"{act} of {group} was answered as up")
            self._check(set(outcome.guids.values()) == set(there) == running, f"{act} {group}: {outcome}; {there}")
            if act == "restart":
                made = self.world.creations
                self._check(all(made[guid] > before.get(guid, 0) for guid in running), f"{group} was not made anew")
        elif not outcome.left:
            self._check(not there, f"{act} {group}: {outcome}, and there are {there}")

    async def _breaks(self) -> None:
        world = self.world
        while True:
            await asyncio.sleep(self.random.choice((0.3, 2.0, 10.0)) * self.random.random())
            name = self.random.choice(world.controllers + world.agents)
            fault, lasts_s = self.random.choice(FAULTS), self.random.choice((0.2, 4.0, 15.0)) * self.random.random()
            if fault == "configure":
                await self._configures()
                continue
            if fault == "nothing" or name not in world.processes:
                continue
            self.log.append(f"{asyncio.get_running_loop().time():.2f} {fault} {name} for {lasts_s:.2f}")
            if fault == "cut":
                world.processes[name].bus.cut()
                await asyncio.sleep(lasts_s)
                world.processes[name].bus.heal()
                continue
            await world.kill(name)
            if fault == "clock":
                world.skews_s[name] = self.random.choice((-MAX_SKEW_S, 0.0, MAX_SKEW_S))
            await asyncio.sleep(lasts_s)
            world.start(name)

    async def _configures(self) -> None:
        now = asyncio.get_running_loop().time
        self.configured += 1
        wanted = SetConfiguration("edge", "docker", AgentConfiguration(environment={"TURN": str(self.configured)}))
        bus = UnsteadyBus(self.world.hub, self.world.line())
        try:
            await ask(bus, "local", "configure", wanted, Spread, 20.0, now)
        except (CotenantError, TimeoutError) as error:
            self.log.append(f"configure: {error}")

    def _record(self, group: str) -> GroupRecord | None:
        found = self.world.shared.values.get(f"group.{group}")
        return None if found is None else decode(GroupRecord, found.value, group)

    def _is_settled(self, group: str) -> bool:
        record, there = self._record(group), self.world.of_group(group)
        if record is None or (record.done and record.goal is GroupGoal.GONE):
            return not there
        running = {name for name, container in there.items() if container.status == "running"}
        return record.done and running == set(there) == {container.guid for container in record.containers}

    def _agree(self) -> bool:
        """Controllers know every agent, and agents have the configuration that is stored."""
        stored = self.world.shared.values.get("configuration.edge.docker")
        for name in self.world.controllers:
            controller = self.world.processes[name].controller
            assert controller is not None
            hosts = list(controller.registry.hosts())
            if len(hosts) != len(self.world.agents):
                return False
            for host in hosts:
                if host.state is not AgentState.ALIVE or host.beat is None:
                    return False
                if stored is not None and host.beat.revision != stored.revision:
                    return False
                if any(function.is_starting for function in host.beat.functions):
                    return False
        return True

    async def _finally(self, group: str) -> None:
        """An operator who asks now gets what is asked for, from either controller."""
        bus = UnsteadyBus(self.world.hub, self.world.line())
        self.operators = 1
        for act in ("up", "down", "up", "restart", "down"):
            outcome = await self._asks(bus, group, act, "at last")
            if act == "down" and not self.world.of_group(group):
                continue
            self._check(isinstance(outcome, GroupOutcome) and bool(outcome.guids), f"{act} {group}: {outcome}")

    async def _until(self, what: str, found: Callable[[], bool]) -> None:
        for _ in range(int(QUIET_S / 0.5)):
            if found():
                return
            await asyncio.sleep(0.5)
        records = {group: self._record(group) for group in ("shop", "farm")}
        self._check(False, f"not within {QUIET_S:g} s: {what}; {records}")

    def _check(self, holds: bool, what: str) -> None:
        if not holds:
            raise AssertionError("\n".join([*self.log[-150:], what]))


def played(seed: int, operators: int) -> Scene:
    with tempfile.TemporaryDirectory() as folder:

        async def play() -> Scene:
            scene = Scene(Path(folder), seed, operators)
            await scene.play()
            return scene

        return run_virtually(play())


@pytest.mark.slow
@pytest.mark.parametrize("operators", [1, 3])
@pytest.mark.parametrize(
    "seed", [*range(3), 172]
)  # 172: a request that was let through before a later controller looked
def test_nothing_runs_twice_and_answers_are_true(seed: int, operators: int) -> None:
    played(seed, operators)


@pytest.mark.long
@pytest.mark.parametrize("operators", [1, 3])
@pytest.mark.parametrize("seed", range(3, 60))
def test_of_more_seeds(seed: int, operators: int) -> None:
    played(seed, operators)
