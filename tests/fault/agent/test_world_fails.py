"""Unavailable, slow, broken or inconsistent components: the loop continues, and no knob stays set that should not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.fakes.node.agent_world import CONFIG, AwaySource, World, world

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import Permanent, Transient
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import ServiceHealth
from cotenant.services.agent.agent_process import AgentProcess

IDLE = KnobTarget("top/job", Knob.CPU_IDLE)
BUSY = {"top/web": 1500, "top/job": 2400}


def live(w: World, scenario: Callable[[AgentProcess], Awaitable[None]]) -> AgentProcess:
    """Run a scenario with the agent begun."""

    async def run() -> AgentProcess:
        process = w.process()
        await process.discover()
        await scenario(process)
        return process

    return asyncio.run(run())


# ---- the keeper


def test_an_unreachable_keeper_is_retried_with_backoff_and_used_again() -> None:
    w = world()
    w.use = dict(BUSY)

    async def scenario(process: AgentProcess) -> None:
        w.keeper.away = True
        await w.tick(process, 60)
        assert process.ticker.failures == 0
        assert process.agent.state() is not None
        assert process.actor.keeper_up is False
        asked = w.keeper.asked
        assert asked < 15  # 60 ticks
        w.keeper.away = False
        await w.tick(process, 12)
        assert process.actor.keeper_up is True
        assert w.knobs.snapshot()[IDLE] == "1"

    live(w, scenario)


def test_leases_of_a_lost_agent_expire_at_the_keeper() -> None:
    w = world()
    w.use = dict(BUSY)

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        assert w.knobs.snapshot()
        w.keeper.away = True  # the keeper lives, nobody can reach it
        await w.tick(process, CONFIG.lease_ttl_ms // CONFIG.period_ms + 1)
        assert w.knobs.snapshot() == {}
        w.keeper.away = False
        await w.tick(process, 12)
        assert w.knobs.snapshot()[IDLE] == "1"
        await process.end()

    live(w, scenario)
    assert w.knobs.snapshot() == {}


def test_a_hanging_keeper_costs_a_bounded_time() -> None:
    w = world()
    w.use = dict(BUSY)

    async def scenario(process: AgentProcess) -> None:
        process.actor._within_s = 0.01
        w.keeper.hangs = True
        await w.tick(process, 20)
        assert process.ticker.failures == 0
        assert 0 < w.keeper.asked < 12
        w.keeper.hangs = False
        await w.tick(process, 12)
        assert w.knobs.snapshot()[IDLE] == "1"

    live(w, scenario)


def test_stopping_without_a_keeper_succeeds() -> None:
    w = world()
    w.use = dict(BUSY)

    async def scenario(process: AgentProcess) -> None:
        process.actor._within_s = 0.01
        await w.tick(process, 3)
        w.keeper.hangs = True
        await process.end()

    live(w, scenario)
    w.pass_time(CONFIG.lease_ttl_ms / 1000 + 1)
    assert w.knobs.snapshot() == {}


def test_a_restarted_keeper_holds_again_within_a_renewal() -> None:
    w = world()
    w.use = dict(BUSY)

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        w.keeper.executor.give_all_back(w.keeper.executor.leases()[0].reason)
        assert w.knobs.snapshot() == {}
        await w.tick(process, CONFIG.lease_ttl_ms // CONFIG.period_ms // 3 + 1)
        assert w.knobs.snapshot()[IDLE] == "1"

    live(w, scenario)


# ---- the machine


def test_failed_ticks_are_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    w = world()
    w.use = dict(BUSY)

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        w.sensor_fails = OSError(24, "Too many open files")
        await w.tick(process, 7)
        assert (process.ticker.failures, process.ticker.failing) == (7, 7)
        w.sensor_fails = None
        await w.tick(process, 2)
        assert process.ticker.failing == 0
        assert w.knobs.snapshot()[IDLE] == "1"

    live(w, scenario)
    assert sum("a tick failed" in record.message for record in caplog.records) == 1


def test_a_permanently_failing_loop_releases_everything() -> None:
    w = world()
    w.use = dict(BUSY)

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        w.sensor_fails = Permanent("the sensor is broken")
        await w.tick(process, CONFIG.lease_ttl_ms // CONFIG.period_ms + 1)

    live(w, scenario)
    assert w.knobs.snapshot() == {}


def test_groups_that_vanish_during_a_tick_leave_nothing_behind() -> None:
    w = world()
    w.use = dict(BUSY)

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        w.vanish("top/job")
        await w.tick(process, 5)
        assert process.ticker.failures == 0
        w.vanish("top")
        await w.tick(process, 5)
        assert process.ticker.failures == 0
        await process.end()

    live(w, scenario)
    assert w.keeper.executor.leases() == ()


def test_a_wall_clock_change_affects_only_report_times() -> None:
    w = world()
    w.use = dict(BUSY)

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        held = w.knobs.snapshot()
        for jump_s in (86_400.0, -86_400.0 * 365, 0.0):
            w.wall_off_s = jump_s
            await w.tick(process, 3)
            assert w.knobs.snapshot() == held
            report = process.agent.report(w.wall_s())
            assert report is not None
            assert report.at_s == w.wall_s()
        assert process.ticker.failures == process.ticker.missed == 0

    live(w, scenario)


def test_a_monotonic_clock_that_goes_back_ends_nothing() -> None:
    w = world()
    w.use = dict(BUSY)

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        w.now_us -= 100_000_000
        await w.tick(process, 130)
        assert process.ticker.failures == 0
        assert w.knobs.snapshot()[IDLE] == "1"

    live(w, scenario)


# ---- who says what runs here


def test_pods_stay_protected_while_their_source_is_unavailable() -> None:
    w = world(groups=())
    for group in ("top", "top/pod", "top/be"):
        w.knobs.add(group)
    pods = (NodePod("u1", "a", "b", "top/pod", qos=QoSClass.LS), NodePod("u2", "a", "c", "top/be", qos=QoSClass.BE))
    w.sources["kubelet"] = AwaySource(pods)
    w.use = {"top/pod": 1500, "top/be": 2400}

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        w.sources["kubelet"].fails = Transient("connection refused")
        for _ in range(30):
            await process.discover()
            await w.tick(process, 10)
        assert w.knobs.snapshot()[KnobTarget("top/be", Knob.CPU_IDLE)] == "1"
        assert process.sources.sources[1].failures == 30
        w.sources["kubelet"].fails = None
        w.sources["kubelet"].answer = pods[:1]
        await process.discover()
        await w.tick(process, 2)
        assert w.knobs.snapshot() == {}

    live(w, scenario)


def test_a_source_that_breaks_does_not_end_the_agent() -> None:
    w = world()
    w.use = dict(BUSY)
    w.sources["kubelet"] = AwaySource(fails=Permanent("no such file"))

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        await process.discover()
        assert len(process.pods) == 2

    live(w, scenario)


# ---- the cluster


def test_without_the_cluster_the_node_stays_under_control() -> None:
    w = world(reports=replace(CONFIG.reports, urls=("http://scheduler.example/metrics/report",)))
    w.use = dict(BUSY)
    w.post_fails = Transient("no route to host")

    async def scenario(process: AgentProcess) -> None:
        for _ in range(100):
            await w.tick(process)
            process.report()
            await process.deliveries[0].deliver()
        outbox = process.deliveries[0]
        assert (outbox.delivered, outbox.failed, outbox.replaced) == (0, 99, 98)  # the newest is kept, one of them
        assert w.knobs.snapshot()[IDLE] == "1"
        w.post_fails = None
        await outbox.deliver()
        assert outbox.delivered == 1

    live(w, scenario)


# ---- services that lie


def test_latency_of_an_unknown_workload_is_refused() -> None:
    w = world()

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        health = ServiceHealth(1_000_000, 1000, 10**9, 1000, 0)
        assert not process.agent.health_reported("a/b", health, w.now_us)
        assert process.agent.health_reported("shop/web", health, w.now_us)
        await w.tick(process, 3)
        assert process.ticker.failures == 0

    live(w, scenario)
