"""What a node's history says of random ticks, compared with the definitions over all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from tests.fakes.node.fake_node import pod

from cotenant.engine.node.history import NodeHistory, of_cards
from cotenant.engine.node.report import NodeUsage, PodAverage
from cotenant.engine.node.settings import AgentSettings
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
