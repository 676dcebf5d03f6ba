"""A service that misses its objective presses its zone though none of its tasks is dispatched late: zones of this host,
whose pods' spans or reports are the agent's, and zones in a machine, whose pods' spans are.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.unit.services.zones.test_runner import Clock, MemoryBackend
from tests.unit.services.zones.test_vm import linked

from cotenant.engine.zones.zone import Zone, ZoneLimits
from cotenant.model.zones.setting import Backend, ZoneMode, ZoneSetting
from cotenant.model.zones.state import ZoneState
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.services.zones.agent_view import ZoneAgentView
from cotenant.services.zones.backends import ZoneBackend
from cotenant.services.zones.definition import ZoneDefinition
from cotenant.services.zones.groups import GroupClass, ZoneGroup
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.state_file import state_of
from cotenant.services.zones.vm_backend import GuestBackend, GuestState

START, RELIEF = (ZoneSetting(Backend.ROOT, mode) for mode in (ZoneMode.THROUGHPUT, ZoneMode.LATENCY))
ROWS = {"web": ZoneRow(ZoneClass.SERVICE), "batch": ZoneRow(ZoneClass.BATCH)}
DEFINITION = ZoneDefinition("box", (ZoneGroup("web", GroupClass.SERVICE), ZoneGroup("batch", GroupClass.BATCH)))
LATE, WELL = 30, 1  # of 1000 requests, of which 10 may be bad


class PlayedAgent:
    """An agent whose pods miss their objective until the zone serves them first."""

    def __init__(self, page: Any) -> None:
        self.page, self.bad = page, LATE

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/v1/state"
        found: dict[str, Any] = self.page(self.bad)
        return found


def view(page: Any) -> tuple[ZoneAgentView, PlayedAgent]:
    found, agent = ZoneAgentView("127.0.0.1:1", DEFINITION, lambda group: True), PlayedAgent(page)
    found._client = agent  # type: ignore[assignment]
    return found, agent


def signals(bad: int) -> list[dict[str, int]]:
    return [{"requests": 1000, "bad": bad, "budget_ppm": 10_000, "age_us": 0}]


def runner_of(backend: ZoneBackend, clock: Clock) -> ZoneRunner:
    zone = Zone("box", ROWS, (START,), limits=ZoneLimits(2, 3, 100))
    return ZoneRunner(zone, {Backend.ROOT: backend}, lambda: {"web": 0, "batch": 0}, clock=clock)


async def pressed_and_relieved(runner: ZoneRunner, clock: Clock, agent: PlayedAgent) -> None:
    """Run until the change that the objective asked for is judged."""
    await runner.start()
    for _ in range(12):
        clock.now_s += 1
        await runner.step()
        agent.bad = WELL if runner.zone.setting == RELIEF else LATE
    assert (runner.zone.setting, runner.zone.state) == (RELIEF, ZoneState.ACTIVE)
    change = runner.zone.history[-1]
    assert (change.kept, change.reason.rule) == (True, "zone-switch")
    assert "burn rate 3.00 before, 0.10 after" in change.outcome
    assert runner.last is not None
    assert runner.last.late_per_s == 0  # nothing was dispatched late
    shown = state_of(runner.zone, clock(), 0.0, runner.last)
    assert shown["history"][-1]["event"] == "web: burn rate 3.00"
    assert shown["reading"]["burn"] == 0.1


def test_a_zone_of_this_host_by_spans() -> None:
    seen, agent = view(lambda bad: {"pods": [{"pod": "shop/web", "group": "web/pod", "signals": signals(bad)}]})
    clock = Clock()
    runner = runner_of(MemoryBackend(), clock)
    runner.burns = seen.burns
    asyncio.run(pressed_and_relieved(runner, clock, agent))


def test_a_zone_of_this_host_by_a_services_own_reports() -> None:
    def page(bad: int) -> dict[str, Any]:
        health = {"requests": 1000, "over_objective": bad, "age_us": 0, "objective": ""}
        return {"pods": [{"pod": "shop/web", "group": "web", "objective_p99_us": 5000, "health": health}]}

    seen, agent = view(page)
    clock = Clock()
    runner = runner_of(MemoryBackend(), clock)
    runner.burns = seen.burns
    asyncio.run(pressed_and_relieved(runner, clock, agent))


def test_a_zone_in_a_machine_by_spans_of_its_pods(tmp_path: Path) -> None:
    seen, agent = view(lambda bad: {"zone_pods": [{"zone": "box", "pod": "web", "signals": signals(bad)}]})
    clock, runs = Clock(), [""]

    def guest(request: dict[str, Any]) -> dict[str, Any] | None:
        if request["do"] == "detach":
            return None
        runs[0] = request.get("mode", runs[0])
        return {"cpuUs": {"web": 0, "batch": 0}, "runs": runs[0], "late": {}, "exit": None}

    async def main() -> None:
        async with linked(tmp_path / "agent.sock", guest) as (link, _):
            modes = (ZoneMode.LATENCY, ZoneMode.THROUGHPUT)
            runner = runner_of(GuestBackend(GuestState(link), Backend.ROOT, modes), clock)
            runner.burns = seen.pod_burns
            await pressed_and_relieved(runner, clock, agent)
            assert runs == ["latency"]  # in the guest

    asyncio.run(main())
