"""What a node's history says of random ticks, compared with the definitions over all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from tests.fakes.node.fake_node import pod

from cotenant.engine.node.history import NodeHistory, of_cards
from cotenant.engine.node.report import NodeUsage, PodAverage, TenantUse
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.report import NodeReport
from cotenant.model.machine.counters import GpuCounters, GpuPodUse
from cotenant.model.machine.node_metric import PodSignals
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse, ServiceHealth

SECOND = 1_000_000
POINTS = 24


def ticks(random: Random, count: int) -> list[NodeState]:
    """Ticks of two pods and an application that have and lack any figure."""

    def figure(most: int) -> int | None:
        return random.choice((None, random.randrange(most), random.randrange(most)))

    made = []
    pods = (pod("web", "a"), pod("hog", "b"), pod("app", "c", host_application=True))
    for second in range(1, count + 1):
        used = tuple(
            PodUse(
                known,
                GroupUse(
                    known.group,
                    cpu_m=figure(2000),
                    run_delay_ppm=figure(900_000),
                    memory_bytes=figure(500),
                    working_set_bytes=figure(400),
                    cpi_milli=random.choice((None, 0, 1500)),
                    memory_stall_ppm=figure(1_000_000),
                    io_stall_ppm=figure(1_000_000),
                    io_read_bps=figure(3_000),
                    io_written_bps=figure(3_000),
                ),
                health=random.choice((None, *(ServiceHealth(1, asked, 1500, 0, 0) for asked in (0, 1)))),
            )
            for known in pods
            if random.random() < 0.9
        )
        host = HostUse(
            4,
            figure(4000),
            1000,
            random.randrange(1000),
            disk_bps=random.choice((None, 0, 9_000)),
            disk_busy_ppm=figure(1_000_000),
        )
        made.append(NodeState(second * SECOND, SECOND, host, used))
    return made


def mean(values: list[int]) -> int | None:
    return sum(values) // len(values) if values else None


def memory(use: GroupUse) -> int | None:
    return use.memory_bytes if use.working_set_bytes is None else use.working_set_bytes


def told(past: list[NodeState], window_us: int) -> NodeUsage:
    """The averages by their definitions. A group's ring has a sixth of the points of the node's."""
    now = past[-1]
    kept = [state for state in past[-POINTS:] if state.at_us > now.at_us - window_us]

    def of(group: str, figure: str) -> int | None:
        uses = [held.use for state in kept[-(POINTS // 6) :] for held in state.pods if held.use.group == group]
        values = [memory(use) if figure == "memory" else getattr(use, figure) for use in uses]
        return mean([value // 1000 if figure == "run_delay_ppm" else value for value in values if value is not None])

    def moved(use: GroupUse) -> int | None:
        known = [rate for rate in (use.io_read_bps, use.io_written_bps) if rate is not None]
        return sum(known) if known else None

    def part(use: GroupUse, host: HostUse) -> int | None:
        own, busy, disks = moved(use), host.disk_busy_ppm, host.disk_bps
        return None if own is None or busy is None or disks is None else busy * min(own, disks) // max(1, disks)

    def held_by(group: str, read: Callable[[GroupUse, HostUse], int | None]) -> int | None:
        uses = [
            (its.use, state.host) for state in kept[-(POINTS // 6) :] for its in state.pods if its.use.group == group
        ]
        return mean([value for use, host in uses if (value := read(use, host)) is not None])

    def share(value: int | None) -> float | None:
        return None if value is None else round(value / 1_000_000, 4)

    def signals(held: PodUse) -> PodSignals:
        wait, cpu = of(held.use.group, "run_delay_ppm"), of(held.use.group, "cpu_m")
        return PodSignals(
            1.5 if held.health is not None and held.health.requests else None,
            1.5 if held.use.cpi_milli else None,
            round(wait / cpu, 4) if wait is not None and cpu else None,
            share(held_by(held.use.group, lambda use, host: use.memory_stall_ppm)),
            share(held_by(held.use.group, lambda use, host: use.io_stall_ppm)),
            share(held_by(held.use.group, part)),
            disk_bps=held_by(held.use.group, lambda use, host: moved(use)),
        )

    pods = [
        PodAverage(held.pod, of(held.use.group, "cpu_m"), of(held.use.group, "memory"), signals(held))
        for held in now.pods
    ]
    known = [state for state in kept if state.host.cpu_m is not None]
    return NodeUsage(
        at_us=now.at_us,
        cpu_m=mean([state.host.cpu_m or 0 for state in known]),
        memory_bytes=mean([state.host.memory_used_bytes for state in kept]),
        system_cpu_m=mean(
            [max(0, (state.host.cpu_m or 0) - sum(held.use.cpu_m or 0 for held in state.pods)) for state in known]
        ),
        system_memory_bytes=mean(
            [max(0, state.host.memory_used_bytes - sum(memory(held.use) or 0 for held in state.pods)) for state in kept]
        ),
        node=(),
        system=(),
        pods=tuple(used for used in pods if not used.pod.host_application),
        applications=tuple(used for used in pods if used.pod.host_application),
    )


@pytest.mark.parametrize("window_s", [1, 3, 9, 100])
def test_usage_is_that_of_the_definitions(window_s: int) -> None:
    random = Random(window_s)
    history = NodeHistory(AgentSettings(series_points=POINTS), "n")
    assert history.usage([SECOND]) is None
    past = []
    for state in ticks(random, 3 * POINTS):
        history.record(state)
        past.append(state)
        usage = history.usage([window_s * SECOND])
        assert usage is not None
        expected = told(past, window_s * SECOND)
        for field in ("at_us", "cpu_m", "memory_bytes", "system_cpu_m", "system_memory_bytes", "pods", "applications"):
            assert getattr(usage, field) == getattr(expected, field), field
        (of_node,), (of_system,) = usage.node, usage.system
        for summary, average in (
            (of_node.cpu_m, usage.cpu_m),
            (of_node.memory_bytes, usage.memory_bytes),
            (of_system.cpu_m, usage.system_cpu_m),
            (of_system.memory_bytes, usage.system_memory_bytes),
        ):
            assert (None if summary is None else summary.average) == average


def test_series_of_groups_that_are_gone_are_dropped_and_the_nodes_stay() -> None:
    history = NodeHistory(AgentSettings(series_points=POINTS), "n")
    for state in ticks(Random(1), 9):
        history.record(state)
    before = history.usage([9 * SECOND])
    history.keep(["a"])
    after = history.usage([9 * SECOND])
    assert before is not None
    assert after is not None
    assert (after.node, after.system) == (before.node, before.system)
    cpu = {used.pod.name: used.cpu_m for used in (*after.pods, *after.applications)}
    assert {name for name, used in cpu.items() if used is not None} <= {"web"}
    assert len(history.series) == 11  # seven of the group, four of the node and its system


def test_what_a_pod_takes_of_its_cards_is_told_where_the_driver_tells_it() -> None:
    def card(index: int, *uses: GpuPodUse) -> GpuCounters:
        return GpuCounters(index, f"GPU-{index}", "H100", True, 0, 80, 0, pods=uses)

    two = (card(0, GpuPodUse("a", 1, 80, 20), GpuPodUse("", 1, 5, 5)), card(1, GpuPodUse("a", 1, 40, 0)))
    assert of_cards(two) == {"a": (600_000, 100_000)}
    assert of_cards((*two, card(2, GpuPodUse("a", 1), GpuPodUse("b", 1)))) == {}
    assert of_cards(()) == {}


def test_cards_that_are_gone_are_held_by_nobody_also_where_their_use_was_never_known() -> None:
    history = NodeHistory(AgentSettings(series_points=POINTS), "n")
    (tick,) = ticks(Random(1), 1)
    card = GpuCounters(0, "GPU-0", "H100", True, None, 1 << 30, 1 << 20, pods=(GpuPodUse("uid-train", 1 << 20),))
    history.record(replace(tick, gpus=(card,)))
    assert (history.idle.now.allocated, history.idle.times) == (1, {})
    history.record(replace(tick, gpus=()))
    assert history.idle.now.allocated == 0


def test_what_pods_take_of_cards_is_averaged_over_the_window() -> None:
    history = NodeHistory(AgentSettings(series_points=POINTS), "n")
    web, app = pod("web", "a"), pod("app", "c", host_application=True)

    def tick(second: int, *uses: GpuPodUse) -> None:
        card = GpuCounters(0, "GPU-0", "H100", True, 0, 80, 0, pods=uses)
        used = tuple(PodUse(known, GroupUse(known.group)) for known in (web, app))
        history.record(NodeState(second * SECOND, SECOND, HostUse(4, 100, 1000, 0), used, gpus=(card,)))

    def told() -> list[tuple[float | None, float | None]]:
        usage = history.usage([2 * SECOND])
        assert usage is not None
        return [(one.signals.gpu_sm, one.signals.gpu_bandwidth) for one in (*usage.pods, *usage.applications)]

    tick(1, GpuPodUse(web.uid, 1, 90, 10), GpuPodUse("nobody", 1, 5, 5))
    assert told() == [(0.9, 0.1), (None, None)]
    tick(2, GpuPodUse(web.uid, 1, 50, 30), GpuPodUse(app.uid, 1, 40, 20))
    assert told() == [(0.7, 0.2), (0.4, 0.2)]
    tick(3, GpuPodUse(web.uid, 1, 10, 10))
    assert told() == [(0.3, 0.2), (0.4, 0.2)]  # the first is out of the window


def report(history: NodeHistory, at_s: float = 5.0) -> NodeReport:
    found = history.report(at_s)
    assert found is not None
    return found


def test_the_founding_report_is_of_the_window_and_of_what_is_not_reserved() -> None:
    settings = AgentSettings(
        series_points=POINTS, report_window_us=2 * SECOND, reserved_cpu_m=500, reserved_memory_bytes=200
    )
    history = NodeHistory(settings, "n")
    assert history.report(1.0) is None
    for second, cpu_m in ((1, 4000), (2, 1000), (3, 2000)):
        history.record(NodeState(second * SECOND, SECOND, HostUse(4, cpu_m, 1000, 100 * second), ()))
    found = report(history)
    assert (found.node, found.at_s) == ("n", 5.0)
    assert (found.cpu_allocatable, found.cpu_used) == (3.5, 1.5)
    assert (found.memory_allocatable, found.memory_used) == (800.0, 250.0)
    assert (found.latency_p99_ms, found.violation) == (0.0, 0.0)


@pytest.mark.parametrize(("cpu_m", "memory"), [(4000, 0), (4001, 0), (0, 1000), (0, 1001)])
def test_where_everything_is_reserved_there_is_no_report(cpu_m: int, memory: int) -> None:
    history = NodeHistory(AgentSettings(reserved_cpu_m=cpu_m, reserved_memory_bytes=memory), "n")
    history.record(NodeState(SECOND, SECOND, HostUse(4, 100, 1000, 0), ()))
    assert history.report(1.0) is None
    unknown = NodeHistory(AgentSettings(reserved_cpu_m=0, reserved_memory_bytes=0), "n")
    unknown.record(NodeState(SECOND, SECOND, HostUse(4, None, 1000, 0), ()))
    assert unknown.report(1.0) is None


def test_what_services_missed_is_summed_over_the_reports_of_the_window() -> None:
    history = NodeHistory(AgentSettings(series_points=POINTS, report_window_us=2 * SECOND), "n")
    history.record(NodeState(4 * SECOND, SECOND, HostUse(4, 100, 1000, 0), ()))
    history.health_reported(ServiceHealth(1, 1000, 9000, 900, 0), 2 * SECOND)  # at the edge, and outside
    history.health_reported(ServiceHealth(1, 100, 3000, 20, 0), 3 * SECOND)
    history.health_reported(ServiceHealth(1, 100, 5000, 250, 0), 4 * SECOND)  # more than were asked: all of them
    history.health_reported(ServiceHealth(1, 1000, 9000, 900, 2 * SECOND), 4 * SECOND)  # made before
    found = report(history)
    assert found.violation == pytest.approx((20 + 100) / 200)
    assert found.latency_p99_ms == pytest.approx(5.0)


def test_tenants_are_compared_by_all_their_pods_together() -> None:
    history = NodeHistory(AgentSettings(series_points=POINTS, reserved_cpu_m=0, reserved_memory_bytes=0), "n")
    pods = [replace(pod(f"p{i}", f"g{i}"), tenant=tenant) for i, tenant in enumerate(("y", "x", "x"))]
    used = tuple(
        PodUse(known, GroupUse(known.group, cpu_m=cpu_m, memory_bytes=10, run_delay_ppm=wait_m * 1000))
        for known, cpu_m, wait_m in zip(pods, (500, 300, 200), (7, 20, 30), strict=True)
    )
    state = NodeState(SECOND, SECOND, HostUse(4, 1000, 1000, 30), used)
    history.record(state)
    assert history._tenants(state, 0) == [TenantUse(500, 50, 20), TenantUse(500, 7, 10)]  # x, then y


def test_more_series_than_are_allowed_are_noticed() -> None:
    history = NodeHistory(AgentSettings(series_points=POINTS, max_series=4), "n")
    history.record(NodeState(SECOND, SECOND, HostUse(4, 1000, 1000, 30), ()))
    assert len(history.series) == 4
    history.validate()
