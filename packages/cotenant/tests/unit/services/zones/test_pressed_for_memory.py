"""The loop of a zone whose service waits for memory: protected, then batch is reclaimed, and all of it is shown and
given back.
"""

from __future__ import annotations

import asyncio

from tests.unit.services.zones.test_runner import Clock, MemoryKeeper

from cotenant.cli.zone.showing import inspected
from cotenant.engine.zones.zone import Zone, ZoneLimits
from cotenant.model.errors import Transient
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.zones.setting import Backend, ZoneSetting
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import GroupResources
from cotenant.policy.zone.deciding import ZoneConfig
from cotenant.services.zones.backends import WeightsBackend
from cotenant.services.zones.protection import NOT_PROTECTED, Protection
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.state_file import state_of

MIB = 1 << 20
ROWS = {"pods/web": ZoneRow(ZoneClass.SERVICE), "pods/batch": ZoneRow(ZoneClass.BATCH)}


class World:
    """A zone, a keeper in memory, and a service that waits until batch has given up 100 MiB."""

    def __init__(self) -> None:
        self.keeper, self.clock, self.log = MemoryKeeper(), Clock(), list[str]()
        limits = ZoneLimits(canary_s=3.0, dwell_s=2.0)
        zone = Zone("shop", ROWS, (ZoneSetting(Backend.WEIGHTS),), config=ZoneConfig(calm_s=4.0), limits=limits)
        backends = {Backend.WEIGHTS: WeightsBackend(self.keeper)}
        self.runner = ZoneRunner(zone, backends, dict, clock=self.clock, log=self.log.append)
        protection = Protection(self.keeper, self.log.append)
        self.runner.resources, self.runner.protect = self.resources, protection.protect
        self.runner.reclaim = protection.reclaim

    def taken(self) -> int:
        return sum(int(wish.value) for wish in self.keeper.fake.once)

    def resources(self) -> dict[str, GroupResources]:
        waits = 0.4 if self.taken() < 100 * MIB else 0.0
        return {
            "pods/web": GroupResources(waits, 0.0, 300 * MIB),
            "pods/batch": GroupResources(0.0, 0.0, 800 * MIB - self.taken()),
        }

    async def steps(self, number: int) -> None:
        for _ in range(number):
            self.clock.now_s += 1
            await self.runner.step()

    def shown(self) -> list[str]:
        now_s = self.clock()
        return inspected({**state_of(self.runner.zone, now_s, now_s, self.runner.last), "running": True})


def test_a_service_that_waits_is_protected_then_batch_is_reclaimed_and_all_is_given_back() -> None:
    async def main() -> None:
        world = World()
        await world.runner.start()
        await world.steps(4)
        assert world.keeper.fake.held[KnobTarget("pods/web", Knob.MEMORY_LOW)] == str(300 * MIB)
        assert not world.keeper.fake.once
        await world.steps(6)
        assert {wish.target for wish in world.keeper.fake.once} == {KnobTarget("pods/batch", Knob.MEMORY_RECLAIM)}
        assert world.taken() == 100 * MIB
        lines = world.shown()
        assert any("reclaimed to 400 MiB" in line for line in lines)
        assert "  pods/batch: 100 MiB asked for by reclaim until now" in lines
        await world.steps(10)
        assert {target.knob for target in world.keeper.fake.held} == {Knob.CPU_IDLE}
        assert world.taken() == 100 * MIB
        assert not any("reclaim" in line for line in world.shown())
        await world.runner.stop()
        assert not world.keeper.fake.held
        assert any(line.startswith("rows of pods/batch: pods/web waits for memory, protected") for line in world.log)

    asyncio.run(main())


def test_a_host_that_protects_nobody_is_shown_so() -> None:
    world = World()
    state = {**state_of(world.runner.zone, 1.0, 1.0, None), "running": True}
    assert f"  {NOT_PROTECTED}" in inspected({**state, "unprotected": NOT_PROTECTED})
    assert not any("protected" in line for line in inspected(state))


def test_a_keeper_that_does_not_answer_ends_no_zone() -> None:
    async def main() -> None:
        world = World()
        await world.runner.start()

        async def lost(steps: tuple[tuple[str, int], ...]) -> None:
            raise Transient("the keeper does not answer")

        world.runner.reclaim = lost
        await world.steps(12)
        change = world.runner.zone.history[-1]
        assert (change.reason.rule, change.kept) == ("zone-reclaim", False)  # it did not help
        await world.runner.stop()

    asyncio.run(main())
