"""What of a machine is measured: pods' networks by their first process, run delay of the services alone."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.engine.node.mode import AgentMode
from cotenant.model.errors import Permanent, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.services.agent import measuring
from cotenant.services.agent.measuring import ServicesDelays, cpu_times, networks, stalls

MISSING = Gap("blame", "no probe")


def config(**changed: Any) -> Any:
    probe = SimpleNamespace(enabled=True, stalls=True)
    return SimpleNamespace(
        **{"bursts": SimpleNamespace(enabled=True), "mode": AgentMode.ACT, "probe": probe, **changed}
    )


@pytest.mark.parametrize(
    ("pids", "asked", "network"),
    [
        ({"c1": (7, 8)}, ["c1"], 7),
        ({"c1": (), "c2": (9,)}, ["c1", "c2"], 9),
        ({"c1": Permanent("gone"), "c2": (9,)}, ["c1", "c2"], 9),
        ({"c1": (), "c2": (), "pod": (3, 4)}, ["c1", "c2", "pod"], 3),
        ({"c1": (), "c2": Permanent("gone"), "pod": ()}, ["c1", "c2", "pod"], None),
    ],
)
def test_a_pods_network_is_that_of_its_first_process(
    monkeypatch: pytest.MonkeyPatch, pids: dict[str, Any], asked: list[str], network: int | None
) -> None:
    seen: list[str] = []

    def of(group: str) -> tuple[int, ...]:
        seen.append(group)
        found = pids[group]
        if isinstance(found, Exception):
            raise found
        return cast(tuple[int, ...], found)

    monkeypatch.setattr(measuring, "container_network", lambda pid: (pid, 2 * pid))
    containers = (NodeContainer("a", "c1"), NodeContainer("unknown", ""), NodeContainer("b", "c2"))
    found = networks(cast(Any, SimpleNamespace(pids=of)))(NodePod("u", "ns", "p", "pod", containers=containers))
    assert found == (None if network is None else (network, 2 * network))
    assert seen == asked


def test_run_delay_is_read_of_the_services_alone() -> None:
    asked: list[tuple[list[str], int]] = []

    def read(groups: list[str], now_us: int) -> dict[str, int]:
        asked.append((groups, now_us))
        return dict.fromkeys(groups, 5)

    reader = SimpleNamespace(read=read, gaps=lambda: (Gap("run delay", "old kernel"),))
    delays = ServicesDelays(cast(Any, reader), MISSING)
    assert delays.read(["web", "job"], 1) == {}
    delays.watch(["web", "db"], ["job"])
    assert delays.read(["web", "job", "db"], 2) == {"web": 5, "db": 5}
    delays.watch(["job"], [])
    assert delays.read(["web", "job"], 3) == {"job": 5}
    assert asked == [([], 1), (["web", "db"], 2), (["job"], 3)]
    assert delays.gaps() == (Gap("run delay", "old kernel"), MISSING)


def test_looks_between_ticks_are_made_where_they_are_wanted_and_something_may_be_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[object] = []
    reader = SimpleNamespace(read="reads", close=lambda: opened.append("closed"))

    def opens(layout: object) -> object:
        opened.append(layout)
        return reader

    def cannot(layout: object) -> object:
        raise Unsupported("looks", "cgroups")

    layout = cast(CgroupLayout, "layout")
    stack = cast(AsyncExitStack, SimpleNamespace(enter_context=lambda context: context.thing))
    monkeypatch.setattr(measuring, "CpuTimes", opens)
    assert cpu_times(config(), layout, stack) == "reads"
    assert opened == ["layout"]
    assert cpu_times(config(bursts=SimpleNamespace(enabled=False)), layout, stack) is None
    assert cpu_times(config(mode=AgentMode.OBSERVE), layout, stack) is None
    assert opened == ["layout"]
    monkeypatch.setattr(measuring, "CpuTimes", cannot)
    assert cpu_times(config(), layout, stack) is None


def test_waits_besides_a_cpu_are_measured_only_where_that_is_asked_for() -> None:
    tree = SimpleNamespace(path=os.sep, version=2)
    layout = cast(Any, SimpleNamespace(by_controller={"cpu": tree}, unified=tree))
    stack = cast(AsyncExitStack, None)  # nothing is entered
    assert stalls(config(probe=SimpleNamespace(stalls=False)), layout, stack) is None
    none = cast(Any, SimpleNamespace(by_controller={}, unified=None))
    assert stalls(config(), none, stack) is None
