"""The way of a measurement: from a node's counters to the kernel setting that the keeper writes because of them.

A whole agent process and the real keeper run over a machine in memory (tests/fakes/node). Best-effort work that uses
more than a service leaves makes the first instruction; what discovery, the first ticks and reports do is not counted.
"""

from __future__ import annotations

from tests.fakes.node.agent_world import World, live, world

from cotenant.services.agent.agent_process import AgentProcess
from tools.walk.recorder import Walk, recording

_CALM = {"top/web": 200, "top/job": 400}
_TICKS = 5


def walk() -> Walk:
    """The shortest of some ticks that changed a setting."""
    return min((_way(world()) for _ in range(2)), key=lambda way: (len(way.files), way.changes))


def _way(machine: World) -> Walk:
    way = Walk()
    machine.use = dict(_CALM)

    async def scenario(process: AgentProcess) -> None:
        await machine.tick(process, _TICKS)
        before = machine.knobs.snapshot()
        machine.use = {"top/web": 1500, "top/job": 2400}
        machine.pass_time(process.config.period_ms / 1000)
        with recording(way):
            await process.ticker.try_tick()
        if machine.knobs.snapshot() == before:
            raise RuntimeError("the measurement changed no setting, so there is no way to show")
        await process.end()

    live(machine, scenario)
    return way
