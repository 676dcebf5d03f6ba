"""The device rule, with a whole cluster's engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt, Unschedulable
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.devices.requests import DeviceSettings
from cotenant.engine.rules.devices.rules import DeviceRules
from cotenant.model.cluster.demands import NO_DEMANDS, NO_HOLDINGS, Demands, Holdings
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.hints import JointAllocation
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, RDMA, Amounts
from cotenant.policy.placement.devices.strategy import DeviceStrategy, UsualPod
from cotenant.policy.placement.profiles import profile

BYTES = 80 << 30
WHOLE = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: BYTES})


def node(name: str) -> Node:
    return Node(name, Amounts.of({"cpu": 64000, "memory": 512 << 30}), Labels.of({HOSTNAME: name}))


def gpus(name: str, count: int = 4, ill: tuple[int, ...] = (), cards: int = 0) -> NodeDevices:
    found = [
        Device(DeviceType.GPU, i, WHOLE, i not in ill, numa=i // 4, pcie=str(i // 2), id=f"{name}-{i}")
        for i in range(count)
    ]
    found += [Device(DeviceType.RDMA, i, Amounts.of({RDMA: 100}), numa=0, pcie=str(i)) for i in range(cards)]
    return NodeDevices(name, tuple(found))


def pod(
    name: str,
    asks: dict[str, int],
    *,
    on: str = "",
    priority: int = 0,
    holds: Holdings = NO_HOLDINGS,
    demands: Demands = NO_DEMANDS,
    cpu: int = 100,
) -> ObservedPod:
    value = Pod(name, requests=Amounts.of({"cpu": cpu, "memory": 1 << 20, **asks}), priority=priority)
    return ObservedPod(value, f"uid-{name}", "cotenant", 0.0, node=on, holds=holds, demands=demands)


def part(minor: int, percent: int, id_: str = "") -> DeviceAllocation:
    amounts = {GPU_CORE: percent, GPU_MEMORY_RATIO: percent, GPU_MEMORY: BYTES * percent // 100}
    return DeviceAllocation(DeviceType.GPU, minor, Amounts.of(amounts), id=id_)


def cluster(*names: str, settings: DeviceSettings | None = None) -> Cluster:
    rules = DeviceRules(settings) if settings is not None else DeviceRules()
    made = Cluster(
        profile("least-allocated"), np.random.default_rng(1), EngineSettings(), PluginRegistry(devices=rules)
    )
    for name in names:
        made.node_seen(node(name))
    return made


def decided(c: Cluster, now_s: float) -> dict[str, Bind]:
    found = {}
    for instruction in c.decide(now_s):
        if isinstance(instruction, Bind):
            assert c.sending(instruction.uid, now_s)
            c.bound(instruction.uid, now_s)
            found[instruction.key.partition("/")[2]] = instruction
    c.validate()
    return found


def unschedulable(instructions: tuple[Instruction, ...]) -> dict[str, Unschedulable]:
    return {i.key.partition("/")[2]: i for i in instructions if isinstance(i, Unschedulable)}


def minors(bind: Bind) -> list[int]:
    return [device.minor for device in bind.holds.devices]


# ---- basic cases


def test_half_a_gpu_is_chosen_with_the_node_and_shared_parts_pack() -> None:
    c = cluster("a", "b")
    c.plugins.devices.seen(gpus("a"))
    c.plugins.devices.seen(gpus("b"))
    for name in ("x", "y", "z"):
        c.pod_seen(pod(name, {GPU: 50}), 0.0)
    got = decided(c, 0.0)
    assert len({bind.node for bind in got.values()}) == 1
    assert sorted(minor for bind in got.values() for minor in minors(bind)) == [0, 0, 1]
    first = got["x"].holds.devices[0]
    assert first.amounts == Amounts.of({GPU_CORE: 50, GPU_MEMORY_RATIO: 50, GPU_MEMORY: BYTES // 2})
    assert first.id == f"{got['x'].node}-0"


def test_only_nvidia_gpu_in_allocatable_and_a_device_object_serve_both_ways_of_asking() -> None:
    c = cluster()
    c.node_seen(_with(node("a"), {NVIDIA_GPU: 4}))
    c.plugins.devices.seen(gpus("a"))
    c.pod_seen(pod("share", {GPU: 50}), 0.0)
    c.pod_seen(pod("whole", {NVIDIA_GPU: 3}), 0.0)
    got = decided(c, 0.0)
    assert minors(got["whole"]) in ([1, 2, 3], [0, 1, 2])
    assert set(minors(got["share"])).isdisjoint(minors(got["whole"]))
    c.pod_seen(pod("more", {NVIDIA_GPU: 1}), 1.0)
    waits = unschedulable(c.decide(1.0))["more"]
    assert waits.message.startswith("0/1 nodes are available: 1 not enough gpu devices.")
    assert "0 of 1 devices have room" in waits.record.nearest


def _with(known: Node, more: dict[str, int]) -> Node:
    return replace(known, allocatable=known.allocatable + Amounts.of(more))


def test_resources_that_allocatable_names_are_summed_too() -> None:
    c = cluster()
    c.node_seen(_with(node("a"), {GPU_CORE: 100, GPU_MEMORY_RATIO: 100}))  # the kubelet counts less than the object has
    c.plugins.devices.seen(gpus("a"))
    c.pod_seen(pod("one", {GPU_CORE: 60, GPU_MEMORY_RATIO: 60}), 0.0)
    c.pod_seen(pod("two", {GPU_CORE: 60, GPU_MEMORY_RATIO: 60}), 0.0)
    got = c.decide(0.0)
    assert sum(isinstance(instruction, Bind) for instruction in got) == 1
    (waits,) = unschedulable(got).values()
    assert "Insufficient koordinator.sh/gpu-core" in waits.message


def test_without_a_device_object_whole_cards_are_counted_and_parts_are_refused() -> None:
    c = cluster()
    c.node_seen(_with(node("a"), {NVIDIA_GPU: 1}))
    c.pod_seen(pod("whole", {NVIDIA_GPU: 1}), 0.0)
    c.pod_seen(pod("second", {NVIDIA_GPU: 1}, cpu=200), 0.0)
    c.pod_seen(pod("share", {GPU: 50}), 0.0)
    got = c.decide(0.0)
    (bind,) = [instruction for instruction in got if isinstance(instruction, Bind)]
    assert bind.holds.devices == ()
    assert c.sending(bind.uid, 0.0)
    c.bound(bind.uid, 0.0)
    waits = unschedulable(got)
    assert "1 Insufficient nvidia.com/gpu" in waits["second"].message
    assert "1 Insufficient koordinator.sh/gpu" in waits["share"].message
    c.validate()
    # the object arrives, and pods on the node are assumed to hold one
    c.plugins.devices.seen(gpus("a", 2))
    got2 = decided(c, 400.0)
    assert minors(got2["share"]) == [1]
    seen = c.plugins.devices.describe("a")
    assert seen is not None
    assert [holder.is_guess for holder in seen.devices[0].holders] == [True]


def test_a_pod_without_devices_is_not_watched() -> None:
    rules = DeviceRules()
    assert not rules.add_pod(0, Pod("x", requests=Amounts.of({"cpu": 1})), NO_DEMANDS, NO_HOLDINGS)


def test_contradictions_are_a_message_on_the_pod() -> None:
    c = cluster("a")
    c.plugins.devices.seen(gpus("a"))
    c.pod_seen(pod("both", {GPU: 50, GPU_CORE: 20}), 0.0)
    c.pod_seen(pod("odd", {GPU: 150}), 0.0)
    waits = unschedulable(c.decide(0.0))
    assert waits["both"].message.startswith("DeviceShare: device request: ")
    assert "whole devices" in waits["odd"].message
    c.validate()


def test_unhealthy_devices_are_cordoned_one_by_one_and_come_back() -> None:
    c = cluster("a")
    c.plugins.devices.seen(gpus("a", 2, ill=(0,)))
    c.pod_seen(pod("x", {NVIDIA_GPU: 1}), 0.0)
    assert minors(decided(c, 0.0)["x"]) == [1]
    c.pod_seen(pod("y", {NVIDIA_GPU: 1}), 1.0)
    waits = unschedulable(c.decide(1.0))["y"]
    assert "unhealthy: 0" in waits.record.nearest
    c.plugins.devices.seen(gpus("a", 2))
    assert c.next_s() <= 1.0 or c.next_s() < 400.0
    assert minors(decided(c, 400.0)["y"]) == [0]


def test_gpus_and_cards_go_together() -> None:
    c = cluster("a")
    c.plugins.devices.seen(gpus("a", 4, cards=2))
    wish = Demands(joint_devices=JointAllocation((DeviceType.GPU, DeviceType.RDMA), same_pcie=True))
    c.pod_seen(pod("x", {NVIDIA_GPU: 2, RDMA: 100}, demands=wish), 0.0)
    got = decided(c, 0.0)["x"].holds.devices
    assert [(allocation.type, allocation.minor) for allocation in got] == [
        (DeviceType.GPU, 0),
        (DeviceType.GPU, 1),
        (DeviceType.RDMA, 0),
    ]


# ---- facts that change under the pods


def test_a_device_vanishes_while_a_pod_holds_it() -> None:
    c = cluster("a")
    c.plugins.devices.seen(gpus("a", 2))
    c.pod_seen(pod("x", {NVIDIA_GPU: 2}), 0.0)
    assert minors(decided(c, 0.0)["x"]) == [0, 1]
    c.plugins.devices.seen(gpus("a", 1))
    c.validate()
    seen = c.plugins.devices.describe("a")
    assert seen is not None
    assert [(device.minor, device.is_known) for device in seen.devices] == [(0, True), (1, False)]
    c.pod_gone("uid-x", 1.0)
    c.pod_seen(pod("y", {NVIDIA_GPU: 2}), 1.0)
    c.pod_seen(pod("z", {NVIDIA_GPU: 1}), 1.0)
    got = c.decide(1.0)
    assert [instruction.key for instruction in got if isinstance(instruction, Bind)] == ["default/z"]
    assert "not enough gpu devices" in unschedulable(got)["y"].message
    c.validate()


def test_the_object_goes_and_comes_back_and_holders_stay() -> None:
    c = cluster("a")
    c.plugins.devices.seen(gpus("a", 2))
    c.pod_seen(pod("x", {GPU: 50}), 0.0)
    decided(c, 0.0)
    c.plugins.devices.gone("a")
    c.validate()
    c.pod_seen(pod("y", {GPU: 50}), 1.0)
    assert "y" in unschedulable(c.decide(1.0))
    c.plugins.devices.seen(gpus("a", 2))
    assert minors(decided(c, 400.0)["y"]) == [0]
    seen = c.plugins.devices.describe("a")
    assert seen is not None
    assert [holder.pod for holder in seen.devices[0].holders] == ["default/x", "default/y"]


def test_a_restart_restores_holdings_from_annotations() -> None:
    c = cluster("a", "b")
    for name in ("a", "b"):
        c.plugins.devices.seen(gpus(name))
    asked = {"x": {GPU: 50}, "y": {NVIDIA_GPU: 2}, "z": {GPU: 30}}
    for name, asks in asked.items():
        c.pod_seen(pod(name, asks), 0.0)
    got = decided(c, 0.0)
    again = cluster("a", "b")
    for name, bind in got.items():
        again.pod_seen(pod(name, asked[name], on=bind.node, holds=bind.holds), 9.0)
    for name in ("a", "b"):
        again.plugins.devices.seen(gpus(name))
    again.decide(9.0)
    again.validate()
    for name in ("a", "b"):
        before, after = c.plugins.devices.describe(name), again.plugins.devices.describe(name)
        assert before is not None
        assert after is not None
        assert [(d.minor, d.used, d.free) for d in before.devices] == [(d.minor, d.used, d.free) for d in after.devices]
    c.rebuild(10.0)
    c.validate()
    rebuilt = c.plugins.devices.describe("a")
    assert rebuilt is not None
    assert rebuilt.devices == (again.plugins.devices.describe("a") or rebuilt).devices


def test_overlapping_holdings_are_counted_and_described() -> None:
    c = cluster("a")
    c.plugins.devices.seen(gpus("a", 1))
    for name in ("x", "y"):
        c.pod_seen(pod(name, {GPU: 70}, on="a", holds=Holdings(devices=(part(0, 70),))), 0.0)
    c.decide(0.0)
    c.validate()
    assert c.counts["a device that is held twice"] == 3  # core, memory and its ratio
    seen = c.plugins.devices.describe("a")
    assert seen is not None
    assert "gpu 0: 140 of 100 koordinator.sh/gpu-core are held" in seen.overlaps
    c.pod_gone("uid-x", 1.0)
    c.decide(1.0)
    assert (c.plugins.devices.describe("a") or seen).overlaps == ()


def test_a_failed_bind_gives_the_devices_back() -> None:
    c = cluster("a")
    c.plugins.devices.seen(gpus("a", 1))
    c.pod_seen(pod("x", {NVIDIA_GPU: 1}), 0.0)
    (bind,) = c.decide(0.0)
    assert isinstance(bind, Bind)
    assert c.sending("uid-x", 0.0)
    c.bind_failed("uid-x", "conflict", 0.0)
    c.validate()
    c.pod_seen(pod("y", {NVIDIA_GPU: 1}, priority=1), 0.0)
    assert list(decided(c, 0.5)) == ["y"]


# ---- between nodes


def test_spread_takes_the_emptiest_node_and_binpack_the_fullest() -> None:
    for strategy, expected in ((DeviceStrategy.BINPACK, "a"), (DeviceStrategy.SPREAD, "b")):
        c = cluster("a", "b", settings=DeviceSettings(shared=strategy))
        for name in ("a", "b"):
            c.plugins.devices.seen(gpus(name))
        c.pod_seen(pod("there", {GPU: 40}, on="a", holds=Holdings(devices=(part(0, 40),))), 0.0)
        c.pod_seen(pod("x", {GPU: 40}), 0.0)
        assert decided(c, 0.0)["x"].node == expected


def test_the_fragmentation_gradient_keeps_room_for_typical_pods() -> None:
    usual = (UsualPod(100, 1, 1), UsualPod(30, 1, 1))
    c = cluster("a", "b", settings=DeviceSettings(shared=DeviceStrategy.FRAGMENTATION, usual=usual))
    for name in ("a", "b"):
        c.plugins.devices.seen(gpus(name, 1))
    c.pod_seen(pod("there", {GPU: 40}, on="b", holds=Holdings(devices=(part(0, 40),))), 0.0)
    c.pod_seen(pod("x", {GPU: 60}), 0.0)
    assert decided(c, 0.0)["x"].node == "b"


# ---- preemption


def test_whole_gpus_are_freed_by_evicting_less_important_pods() -> None:
    c = cluster("a", "b")
    for name in ("a", "b"):
        c.plugins.devices.seen(gpus(name, 2))
    residents = {
        "a1": ("a", part(0, 50), 0),
        "a2": ("a", part(0, 50), 0),
        "a3": ("a", part(1, 100), 9),
        "b1": ("b", part(0, 100), 9),
        "b2": ("b", part(1, 50), 1),
    }
    for name, (where, held, priority) in residents.items():
        asks = {GPU: held.amounts.get(GPU_CORE)}
        c.pod_seen(pod(name, asks, on=where, priority=priority, holds=Holdings(devices=(held,))), 0.0)
    c.pod_seen(pod("x", {NVIDIA_GPU: 1}, priority=5), 0.0)
    (preempt,) = [instruction for instruction in c.decide(0.0) if isinstance(instruction, Preempt)]
    assert (preempt.node, {victim.key for victim in preempt.victims}) == ("a", {"default/a1", "default/a2"})
    for uid in ("uid-a1", "uid-a2"):
        c.pod_gone(uid, 1.0)
    got = decided(c, 1.0)
    assert (got["x"].node, minors(got["x"])) == ("a", [0])


def test_a_part_is_freed_without_more_victims_than_needed() -> None:
    c = cluster("a")
    c.plugins.devices.seen(gpus("a", 1))
    for i in range(4):
        c.pod_seen(pod(f"p{i}", {GPU: 25}, on="a", priority=i, holds=Holdings(devices=(part(0, 25),))), 0.0)
    c.pod_seen(pod("x", {GPU: 25}, priority=5), 0.0)
    (preempt,) = [instruction for instruction in c.decide(0.0) if isinstance(instruction, Preempt)]
    assert [victim.key for victim in preempt.victims] == ["default/p0"]


def test_preemption_is_not_tried_where_devices_could_never_suffice() -> None:
    c = cluster("a")
    c.plugins.devices.seen(gpus("a", 1))
    c.pod_seen(pod("there", {NVIDIA_GPU: 1}, on="a", holds=Holdings(devices=(part(0, 100),))), 0.0)
    c.pod_seen(pod("x", {NVIDIA_GPU: 2}, priority=5), 0.0)
    got = c.decide(0.0)
    assert not [instruction for instruction in got if isinstance(instruction, Preempt)]
    assert "Preemption is not helpful" in unschedulable(got)["x"].message


def test_devices_of_a_nominated_pod_are_not_given_to_another() -> None:
    c = cluster("a")
    c.plugins.devices.seen(gpus("a", 1))
    c.pod_seen(pod("there", {NVIDIA_GPU: 1}, on="a", holds=Holdings(devices=(part(0, 100),))), 0.0)
    c.pod_seen(pod("x", {NVIDIA_GPU: 1}, priority=5), 0.0)
    assert [instruction for instruction in c.decide(0.0) if isinstance(instruction, Preempt)]
    c.pod_gone("uid-there", 1.0)
    c.pod_seen(pod("y", {NVIDIA_GPU: 1}, priority=5, cpu=200), 0.5)
    assert list(decided(c, 1.0)) == ["x"]


@pytest.mark.parametrize("count", [1, 2])
def test_a_node_that_goes_and_returns_under_another_row_keeps_its_devices(count: int) -> None:
    c = cluster("a", "b")
    c.plugins.devices.seen(gpus("b", 2))
    c.node_gone("a", 0.0)
    c.node_gone("b", 0.0)
    c.node_seen(node("b"))
    c.node_seen(node("a"))
    c.pod_seen(pod("x", {NVIDIA_GPU: count}), 1.0)
    assert decided(c, 1.0)["x"].node == "b"
