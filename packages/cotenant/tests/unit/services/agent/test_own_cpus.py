"""Own CPUs from a pod's annotation to the knobs, and back, over an in-memory machine."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.fakes.node.agent_world import CONFIG, AwaySource, World

from cotenant.drivers.kubelet.declared import DeclaredPod, join
from cotenant.model.cluster.labels import QOS_CLASS, Labels
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodeContainer, NodePod


def found(name: str, cpuset: str) -> NodePod:
    """A pod's group as the tree has it, with what the API server says of the pod."""
    container = NodeContainer("main", f"top/{name}/main")
    bare = NodePod(f"uid-{name}", "", "", f"top/{name}", QoSClass.LS, containers=(container,))
    notes = Labels.of({"scheduling.koordinator.sh/resource-status": f'{{"cpuset":"{cpuset}"}}'} if cpuset else {})
    labels = Labels.of({QOS_CLASS: "LSR" if cpuset else "LS"})
    requested_m = 1000 * len(parse_cpus(cpuset)) if cpuset else 2000
    said = DeclaredPod(f"uid-{name}", "shop", name, labels, notes, cpu_request_m=requested_m)
    return join([bare], [said])[0]


def cpusets(w: World) -> dict[str, str]:
    return {target.group: value for target, value in w.knobs.snapshot().items() if target.knob is Knob.CPUSET_CPUS}


def test_a_pods_cpus_are_set_on_its_groups_and_restored_when_it_leaves() -> None:
    w = World(replace(CONFIG, groups=()))
    source = AwaySource((found("cart", "2-3"), found("web", "")))
    w.sources["cluster"] = source
    for name in ("cart", "web"):
        w.appear("top")
        w.appear(f"top/{name}")
        w.appear(f"top/{name}/main")
    seen: list[dict[str, str]] = []

    async def scenario() -> None:
        process = w.process()
        await process.discover()
        await w.tick(process, 3)
        seen.append(cpusets(w))
        source.answer = (found("cart", "1"), found("web", ""))
        await process.discover()
        await w.tick(process, 3)
        seen.append(cpusets(w))
        story = process.agent.explain("shop/cart")
        assert story is not None
        assert any("shop/cart has own CPUs 1" in line for line in story.text)
        source.answer = (found("web", ""),)
        await process.discover()
        await w.tick(process, 3)
        seen.append(cpusets(w))
        await process.end()

    asyncio.run(scenario())
    first = {"top/cart": "2-3", "top/cart/main": "2-3", "top/web": "0-1", "top/web/main": "0-1"}
    second = {"top/cart": "1", "top/cart/main": "1", "top/web": "0,2-3", "top/web/main": "0,2-3"}
    assert seen == [first, second, {}]


def test_an_agent_restarted_after_a_kill_recognizes_its_own_lists() -> None:
    w = World(replace(CONFIG, groups=()))
    source = AwaySource((found("cart", "2-3"), found("web", "")))
    w.sources["cluster"] = source
    for group in ("top", "top/cart", "top/cart/main", "top/web", "top/web/main"):
        w.appear(group)

    async def scenario() -> None:
        process = w.process()
        await process.discover()
        await w.tick(process, 3)
        source.answer = (found("cart", "3"), found("web", ""))  # said while nobody was there
        again = w.process()  # the keeper still holds what the first one asked for
        await again.discover()
        await w.tick(again, 40)
        assert cpusets(w) == {"top/cart": "3", "top/cart/main": "3", "top/web": "0-2", "top/web/main": "0-2"}
        await again.end()

    asyncio.run(scenario())
    assert KnobTarget("top/web", Knob.CPUSET_CPUS) not in w.knobs.snapshot()


def test_an_operators_list_is_never_widened_also_after_the_agent_was_killed() -> None:
    w = World(CONFIG, cpus=8)
    job = KnobTarget("top/job", Knob.CPUSET_CPUS)
    w.knobs.write(job, "4-6")
    w.use = {"top/web": 6000, "top/job": 100}
    seen: list[set[int]] = []

    def now() -> set[int]:
        return set(parse_cpus(w.knobs.read(job)))

    async def scenario() -> None:
        process = w.process()
        await process.discover()
        await w.tick(process, 4)
        seen.append(now())
        again = w.process()
        await again.discover()
        w.use = {"top/web": 0, "top/job": 100}
        await w.tick(again, 30)
        seen.append(now())
        await again.end()
        seen.append(now())

    asyncio.run(scenario())
    assert len(seen[0]) == 2
    assert seen[0] < {4, 5, 6}
    assert seen[1:] == [{4, 5, 6}, {4, 5, 6}]
