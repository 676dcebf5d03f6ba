"""Devices that vanish, fall ill and return while pods come, go, are bound and lost: never more given than there is,
and all of it restored.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Preempt
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.devices.requests import DeviceSettings
from cotenant.engine.rules.devices.rules import DeviceRules
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED, NVIDIA_GPU, RDMA, Amounts
from cotenant.policy.placement.devices.strategy import DeviceStrategy, UsualPod
from cotenant.policy.placement.profiles import profile

NAMES = ("a", "b", "c")
ASKS: tuple[dict[str, int], ...] = (
    {GPU: 50},
    {GPU: 30},
    {NVIDIA_GPU: 1},
    {NVIDIA_GPU: 2},
    {GPU_SHARED: 2, GPU_MEMORY_RATIO: 80},
    {GPU_MEMORY: 500},
    {GPU_CORE: 20, GPU_MEMORY: 300},
    {NVIDIA_GPU: 1, RDMA: 50},
    {GPU: 130},  # contradicts itself
    {},
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.integers(0, len(ASKS) - 1), st.integers(0, 2)),
        st.tuples(st.just("delete"), st.integers(0, 30)),
        st.tuples(st.just("devices"), st.sampled_from(NAMES), st.integers(0, 4), st.integers(0, 15)),
        st.tuples(st.just("no devices"), st.sampled_from(NAMES)),
        st.tuples(st.just("node"), st.sampled_from(NAMES), st.booleans()),
        st.tuples(st.just("decide"), st.sampled_from(["good", "lost", "refused", "unsent"])),
        st.tuples(st.just("rebuild")),
        st.tuples(st.just("restart")),
    ),
    max_size=40,
)


def facts(name: str, count: int, ill: int) -> NodeDevices:
    total = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 1000})
    gpus = [Device(DeviceType.GPU, i, total, not ill >> i & 1, i // 2, str(i), id=f"{name}{i}") for i in range(count)]
    return NodeDevices(name, (*gpus, Device(DeviceType.RDMA, 0, Amounts.of({RDMA: 100}))))


class World:
    """What the API server holds; the cluster is told at once."""

    def __init__(self, strategy: DeviceStrategy) -> None:
        self.strategy = strategy
        self.pods: dict[str, ObservedPod] = {}
        self.nodes: dict[str, Node] = {}
        self.devices: dict[str, NodeDevices] = {}
        self.binds: dict[str, int] = {}
        self.born = 0
        self.cluster = self.fresh()

    def fresh(self) -> Cluster:
        rules = DeviceRules(DeviceSettings(shared=self.strategy, usual=(UsualPod(50, 1, 1), UsualPod(100, 2, 1))))
        made = Cluster(
            profile("first-fit"), np.random.default_rng(0), EngineSettings(max_pods=4), PluginRegistry(devices=rules)
        )
        for node in self.nodes.values():
            made.node_seen(node)
        for pod in self.pods.values():
            made.pod_seen(pod, 0.0)
        for device in self.devices.values():
            rules.seen(device)
        return made

    def tell(self, pod: ObservedPod, now_s: float) -> None:
        self.pods[pod.uid] = pod
        self.cluster.pod_seen(pod, now_s)

    def create(self, ask: int, priority: int, now_s: float) -> None:
        self.born += 1
        requests = Amounts.of({"cpu": 100, "memory": 1 << 20, **ASKS[ask]})
        pod = Pod(f"p{self.born}", requests=requests, priority=priority)
        self.tell(ObservedPod(pod, f"u{self.born}", "cotenant", float(self.born)), now_s)

    def delete(self, uid: str, now_s: float) -> None:
        if self.pods.pop(uid, None):
            self.cluster.pod_gone(uid, now_s)

    def decide(self, how: str, now_s: float) -> None:
        for instruction in self.cluster.decide(now_s):
            if isinstance(instruction, Preempt):
                for victim in instruction.victims:
                    self.delete(victim.uid, now_s)
            if not isinstance(instruction, Bind) or how == "unsent" or not self.cluster.sending(instruction.uid, now_s):
                continue
            if how == "refused":
                self.cluster.bind_failed(instruction.uid, "conflict", now_s)
                continue
            self.binds[instruction.uid] = self.binds.get(instruction.uid, 0) + 1
            if how == "lost":
                self.cluster.bind_failed(instruction.uid, "the connection broke", now_s)
            self.tell(replace(self.pods[instruction.uid], node=instruction.node, holds=instruction.holds), now_s)


def check_devices(world: World) -> None:
    """No healthy device has more taken than it has, by what the pods' annotations say; all of it stands in the
    summaries.
    """
    used: dict[tuple[str, str, int, str], int] = {}
    for pod in world.pods.values():
        for device in pod.holds.devices if pod.node else ():
            for name, amount in device.amounts:
                key = (pod.node, device.type.value, device.minor, name)
                used[key] = used.get(key, 0) + amount
    for (_, _, _, name), amount in used.items():
        assert amount <= (1000 if name == GPU_MEMORY else 100)


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.sampled_from(DeviceStrategy))
def test_whatever_happens_devices_are_given_once(steps: list[tuple[object, ...]], strategy: DeviceStrategy) -> None:
    world = World(strategy)
    now_s = 0.0
    for name in NAMES[:2]:
        world.nodes[name] = Node(name, Amounts.of({"cpu": 64000, "memory": 1 << 40}), Labels.of({HOSTNAME: name}))
        world.devices[name] = facts(name, 3, 0)
    world.cluster = world.fresh()
    for step in steps:
        now_s += 12.0
        match step:
            case ("create", int(ask), int(priority)):
                world.create(ask, priority, now_s)
            case ("delete", int(i)) if world.pods:
                world.delete(sorted(world.pods)[i % len(world.pods)], now_s)
            case ("devices", str(name), int(count), int(ill)):
                world.devices[name] = facts(name, count, ill)
                world.cluster.plugins.devices.seen(world.devices[name])
            case ("no devices", str(name)):
                world.devices.pop(name, None)
                world.cluster.plugins.devices.gone(name)
            case ("node", str(name), bool(there)):
                if there:
                    size = Amounts.of({"cpu": 64000, "memory": 1 << 40})
                    world.nodes[name] = Node(name, size, Labels.of({HOSTNAME: name}))
                    world.cluster.node_seen(world.nodes[name])
                elif world.nodes.pop(name, None):
                    world.cluster.node_gone(name, now_s)
            case ("decide", str(how)):
                world.decide(how, now_s)
            case ("rebuild",):
                world.cluster.rebuild(now_s)
            case ("restart",):
                world.cluster = world.fresh()
            case _:
                pass
        world.cluster.validate()
        check_devices(world)
    assert all(times == 1 for times in world.binds.values())
    again = world.fresh()
    again.decide(now_s)
    again.validate()
    for uid in list(world.pods):
        world.delete(uid, now_s)
    world.cluster.decide(now_s + 1000.0)
    world.cluster.validate()
    for summary in world.cluster.plugins.devices.summaries():
        assert all(not holder for device in summary.devices for holder in device.holders)
        assert all(device.free == device.total for device in summary.devices if device.is_healthy)
