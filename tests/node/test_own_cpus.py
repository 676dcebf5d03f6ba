"""Own CPUs on real cpusets: the engine, the keeper's leases and the kernel."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.node.agent_world import CONFIG, AwayKeeper, AwaySource, World
from tests.node.burning import burning

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.proc.topology import read_topology
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.cpulist import format_cpus, parse_cpus
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.services.knobs.executor import Clock


def pod(name: str, group: str, own: tuple[int, ...] = ()) -> NodePod:
    qos = QoSClass.LSR if own else QoSClass.LS
    container = NodeContainer("main", f"{group}/main")
    return NodePod(f"uid-{name}", "shop", name, group, qos, containers=(container,), own_cpus=own)


def may_run_on(pid: int) -> tuple[int, ...]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return parse_cpus(next(line for line in lines if line.startswith("Cpus_allowed_list:")).split()[1])


class RealWorld(World):
    """The world in memory with this machine's cpusets."""

    def __init__(self, top: str, layout: CgroupLayout) -> None:
        super().__init__(replace(CONFIG, groups=(), writable=(top,)))
        self.real = CgroupKnobs(layout)
        self.knobs = self.real  # type: ignore[assignment]
        self.keeper = AwayKeeper(self.real, Clock(lambda: self.now_us, self.wall_s), (top,))  # type: ignore[arg-type]


def test_a_pods_processes_run_on_its_cpus_and_others_on_the_rest(
    groups: Groups, group: str, layout: CgroupLayout
) -> None:
    cpus = read_topology()
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    top = group.rpartition("/")[0]
    for name in ("own", "own/main", "web", "web/main"):
        groups.make(f"{top}/{name}")
    every = tuple(cpu.cpu for cpu in cpus)
    own, others = every[-1:], every[:-1]
    w = RealWorld(top, layout)
    if w.real.supported(Knob.CPUSET_CPUS) is not None:
        pytest.skip("no cpuset controller")
    w.cpus = len(every)
    source = AwaySource((pod("cart", f"{top}/own", own), pod("web", f"{top}/web")))
    w.sources["cluster"] = source

    def listed(name: str) -> str:
        return w.real.read(KnobTarget(f"{top}/{name}", Knob.CPUSET_CPUS))

    before = {name: listed(name) for name in ("own", "own/main", "web", "web/main")}

    async def scenario(check: Callable[[], None]) -> None:
        process = w.process()
        await process.discover()
        await w.tick(process, 4)
        check()
        source.answer = (pod("web", f"{top}/web"),)
        await process.discover()
        await w.tick(process, 4)
        await process.end()

    with burning(groups, f"{top}/own/main", cpu=0) as (mine,), burning(groups, f"{top}/web/main", cpu=0) as (theirs,):
        for pid in (mine, theirs):
            os.sched_setaffinity(pid, every)

        def check() -> None:
            assert listed("own/main") == format_cpus(own)
            assert listed("web/main") == format_cpus(others)
            assert may_run_on(mine) == own
            assert may_run_on(theirs) == others

        asyncio.run(scenario(check))
        assert may_run_on(mine) == may_run_on(theirs) == every
    after = {name: listed(name) for name in before}
    w.real.close()
    assert all(after[name] in (before[name], format_cpus(every)) for name in before)
