"""Batch pods on real groups: the kernel takes weights, quotas and memory limits in the order of the engine, and has
the old ones afterwards.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.node.agent_world import AwaySource
from tests.node.test_own_cpus import RealWorld

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import ExtendedAmounts, NodeContainer, NodePod

MIB = 1 << 20
KNOBS = (Knob.CPU_WEIGHT, Knob.CPU_MAX, Knob.MEMORY_MAX)


def pod(group: str, cpu_m: int, memory: int) -> NodePod:
    container = NodeContainer("main", f"{group}/main", "", cpu_m, cpu_m, memory, memory, True, True)
    amounts = ExtendedAmounts(cpu_m, cpu_m, memory)
    return NodePod("u", "jobs", "sort", group, QoSClass.BE, containers=(container,), extended=amounts)


def test_a_batch_pod_is_limited_and_freed_again(groups: Groups, group: str, layout: CgroupLayout) -> None:
    top = group.rpartition("/")[0]
    for name in ("sort", "sort/main"):
        groups.make(f"{top}/{name}")
    w = RealWorld(top, layout)
    if any(w.real.supported(knob) is not None for knob in KNOBS):
        pytest.skip("needs the cpu and memory controllers")
    w.cpus = 2
    source = w.sources["cluster"] = AwaySource((pod(f"{top}/sort", 1500, 64 * MIB),))

    def standing() -> dict[str, tuple[str, ...]]:
        return {
            name: tuple(w.real.read(KnobTarget(f"{top}/{name}", knob)) for knob in KNOBS)
            for name in ("sort", "sort/main")
        }

    before = standing()

    async def scenario() -> None:
        process = w.process()
        await process.discover()
        await w.tick(process, 4)
        assert set(standing().values()) == {("150", "150000 100000", str(64 * MIB))}
        source.answer = (pod(f"{top}/sort", 400, 128 * MIB),)  # less CPU and more memory: each in the kernel's order
        await process.discover()
        await w.tick(process, 4)
        assert set(standing().values()) == {("40", "40000 100000", str(128 * MIB))}
        await process.end()

    asyncio.run(scenario())
    assert standing() == before
    w.real.close()
