"""Triggers follow the services' groups, each firing is processed once, and triggers of removed groups are closed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tests.fakes.waiting import soon

from cotenant.model.errors import CotenantError, Transient, Unsupported
from cotenant.model.machine.knob import Vanished
from cotenant.model.machine.run_queue import LateWait, NoCulprit
from cotenant.services.agent.loop.triggers import AgentTriggers, LateWakeups


class PipeTrigger:
    """A trigger that a test fires: its descriptor is one end of a pipe."""

    def __init__(self) -> None:
        self.stall_us, self.window_us = 100_000, 1_000_000
        self.read_end, self.write_end = os.pipe()
        self.gone = False
        self.closed = False

    def fire(self) -> None:
        os.write(self.write_end, b"x")

    def fileno(self) -> int:
        return self.read_end

    def take(self) -> str:
        os.read(self.read_end, 100)
        return "gone" if self.gone else "stalled"

    def close(self) -> None:
        self.closed = True
        os.close(self.read_end)
        os.close(self.write_end)


class Triggers:
    def __init__(self) -> None:
        self.made: dict[tuple[str, str], PipeTrigger] = {}
        self.fails: dict[str, CotenantError] = {}
        self.asked = 0

    async def open(self, group: str, resource: str) -> PipeTrigger:
        self.asked += 1
        if group in self.fails:
            raise self.fails[group]
        self.made[group, resource] = PipeTrigger()
        return self.made[group, resource]


Heard = list[tuple[str, str, int]]


def with_bell(scenario: Callable[[AgentTriggers, Triggers, Heard], Awaitable[None]], most: int = 100) -> Triggers:
    async def run() -> Triggers:
        triggers, heard = Triggers(), Heard()
        bell = AgentTriggers(triggers.open, ("cpu",), most)

        async def pressed(group: str, resource: str, stall_ppm: int) -> None:
            heard.append((group, resource, stall_ppm))

        running = asyncio.create_task(bell.run(pressed))
        try:
            await scenario(bell, triggers, heard)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return triggers

    triggers = asyncio.run(run())
    assert all(pipe_trigger.closed for pipe_trigger in triggers.made.values())
    return triggers


async def until(holds: Callable[[], bool]) -> None:
    await soon("it holds", holds)


def test_a_fired_trigger_is_one_call() -> None:
    async def scenario(bell: AgentTriggers, triggers: Triggers, heard: Heard) -> None:
        bell.watch(["a", "b"])
        await until(lambda: bell.triggers == 2)
        triggers.made["b", "cpu"].fire()
        await until(lambda: bool(heard))
        assert heard == [("b", "cpu", 100_000)]

    with_bell(scenario)


def test_triggers_follow_the_services() -> None:
    async def scenario(bell: AgentTriggers, triggers: Triggers, heard: Heard) -> None:
        bell.watch(["a", "b"])
        await until(lambda: bell.triggers == 2)
        bell.watch(["b", "c"])
        await until(lambda: ("c", "cpu") in triggers.made)
        assert triggers.made["a", "cpu"].closed
        assert triggers.asked == 3

    with_bell(scenario)


def test_a_trigger_of_a_removed_group_is_closed_and_opened_again() -> None:
    async def scenario(bell: AgentTriggers, triggers: Triggers, heard: Heard) -> None:
        bell.watch(["a"])
        await until(lambda: bell.triggers == 1)
        first = triggers.made["a", "cpu"]
        first.gone = True
        first.fire()
        await until(lambda: bell.triggers == 0)
        assert first.closed
        assert heard == []
        bell.watch(["a"])
        await until(lambda: bell.triggers == 1)

    with_bell(scenario)


def test_a_missing_group_does_not_affect_the_others() -> None:
    async def scenario(bell: AgentTriggers, triggers: Triggers, heard: Heard) -> None:
        triggers.fails["a"] = Vanished("no such group")
        bell.watch(["a", "b"])
        await until(lambda: bell.triggers == 1)

    with_bell(scenario)


def test_a_group_without_pressure_does_not_affect_the_others() -> None:
    async def scenario(bell: AgentTriggers, triggers: Triggers, heard: Heard) -> None:
        triggers.fails["a"] = Unsupported("pressure of /a", "cgroup.pressure")
        bell.watch(["a", "b"])
        await until(lambda: bell.triggers == 1)
        del triggers.fails["a"]
        bell.watch(["a", "b"])
        await until(lambda: bell.triggers == 2)

    with_bell(scenario)


def test_a_machine_without_pressure_is_retried_once_per_discovery() -> None:
    async def scenario(bell: AgentTriggers, triggers: Triggers, heard: Heard) -> None:
        triggers.fails |= {name: Unsupported("pressure", "psi=1") for name in "abc"}
        for count in (3, 4, 5):
            bell.watch(["a", "b", "c"])
            await until(lambda count=count: triggers.asked == count)  # type: ignore[misc]
        triggers.fails.clear()
        for count in (1, 3):
            bell.watch(["a", "b", "c"])
            await until(lambda count=count: bell.triggers == count)  # type: ignore[misc]

    with_bell(scenario)


def test_a_removed_group_without_pressure_does_not_block_other_retries() -> None:
    async def scenario(bell: AgentTriggers, triggers: Triggers, heard: Heard) -> None:
        triggers.fails |= {name: Unsupported("pressure", "psi=1") for name in "ab"}
        bell.watch(["a", "b"])
        await until(lambda: triggers.asked == 2)
        triggers.fails = {"a": Vanished("no such group")}
        for count in (3, 5):
            bell.watch(["a", "b"])
            await until(lambda count=count: triggers.asked == count)  # type: ignore[misc]
        assert bell.triggers == 1

    with_bell(scenario)


def test_an_unreachable_keeper_is_tried_once_per_discovery() -> None:
    async def scenario(bell: AgentTriggers, triggers: Triggers, heard: Heard) -> None:
        triggers.fails |= {name: Transient("nobody listens") for name in "abc"}
        for count in (1, 2):
            bell.watch(["a", "b", "c"])
            await until(lambda count=count: triggers.asked == count)  # type: ignore[misc]

    with_bell(scenario)


def test_there_are_never_more_than_allowed() -> None:
    async def scenario(bell: AgentTriggers, triggers: Triggers, heard: Heard) -> None:
        bell.watch([f"g{i}" for i in range(50)])
        await until(lambda: bell.triggers == 3)

    assert with_bell(scenario, most=3).asked == 3


def test_late_waits_fire_once_per_group_and_only_if_best_effort_work_ran() -> None:
    class Probe:
        def __init__(self) -> None:
            self.read_end, self.write_end = os.pipe()
            os.set_blocking(self.read_end, False)  # it may be asked once more than there is something, as a real one
            self.waits: tuple[LateWait, ...] = ()

        def fileno(self) -> int:
            return self.read_end

        def late(self) -> tuple[LateWait, ...]:
            with suppress(BlockingIOError):
                os.read(self.read_end, 100)
            told, self.waits = self.waits, ()
            return told

    async def run() -> Heard:
        probe, heard = Probe(), Heard()
        bell = LateWakeups(probe, 20_000)
        bell.watch(["a", "c"], ["batch"])
        assert (bell.late_us("a"), bell.late_us("b")) == (20_000, None)

        async def pressed(group: str, resource: str, stall_ppm: int) -> None:
            heard.append((group, resource, stall_ppm))

        running = asyncio.create_task(bell.run(pressed))
        await asyncio.sleep(0)
        told = (("a", "batch/one"), ("a", "batch"), ("b", "a"), ("b", NoCulprit.IDLE), ("b", "batches"), ("c", "batch"))
        probe.waits = tuple(LateWait(1, group, culprit, 25_000, 0, 0, 1) for group, culprit in told)
        os.write(probe.write_end, b"x")
        await until(lambda: len(heard) == 2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        os.close(probe.read_end)
        os.close(probe.write_end)
        return heard

    assert asyncio.run(run()) == [("a", "cpu", 25_000), ("c", "cpu", 25_000)]
