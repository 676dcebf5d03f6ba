"""A cluster whose nodes tell their CPUs, and pods that want some of their own, for tests of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt, Unschedulable
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.cpus.reported import NodeTopology, NumaZone, ReservedCpus
from cotenant.model.cpus.spec import NumaTopologySpec, ResourceSpec, ResourceStatus
from cotenant.model.cpus.topology import CpuTopology, mask_of
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

GIB = 1 << 30


def cpus(
    sockets: int = 1, nodes: int = 2, cores: int = 2, threads: int = 2, without: Sequence[int] = ()
) -> tuple[LogicalCpu, ...]:
    """So many NUMA nodes a socket and cores a NUMA node; threads of a core are neighbours."""
    return tuple(
        LogicalCpu(core * threads + thread, core, core // (nodes * cores), core // cores)
        for core in range(sockets * nodes * cores)
        for thread in range(threads)
        if core * threads + thread not in without
    )


EIGHT = CpuTopology.of(cpus())  # two NUMA nodes of two cores of two threads: 0-3 and 4-7


def tells(name: str, topology: CpuTopology = EIGHT, kept: Sequence[int] = (), **more: object) -> NodeTopology:
    reserved = (ReservedCpus("kubelet", mask_of(kept)),) if kept else ()
    return NodeTopology(name, topology, reserved, **more)  # type: ignore[arg-type]


def zones(*gib: int) -> tuple[NumaZone, ...]:
    return tuple(NumaZone(node, 4000, number * GIB) for node, number in enumerate(gib))


def node(name: str, cpu: int = 8, **labels: str) -> Node:
    words = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
    pairs = {HOSTNAME: name} | {f"node.koordinator.sh/{key}": value for key, value in words.items()}
    return Node(name, Amounts.of({"cpu": cpu * 1000, "memory": 64 * GIB}), Labels.of(pairs))


def pod(
    name: str,
    cpu: int = 2,
    *,
    cpu_m: int = 0,
    qos: QoSClass = QoSClass.LSR,
    spec: ResourceSpec | None = None,
    numa: NumaTopologySpec | None = None,
    on: str = "",
    has: str = "",
    gib: int = 1,
    priority: int = 9500,
    created_s: float = 0.0,
    uid: str = "",
) -> ObservedPod:
    """`has`: the CPUs that its annotation says."""
    value = Pod(
        name,
        requests=Amounts.of({"cpu": cpu_m or cpu * 1000, "memory": gib * GIB}),
        qos=qos,
        priority=priority,
        priority_class=PriorityClass.NONE,
    )
    holds = Holdings(ResourceStatus.parse(f'{{"cpuset":"{has}"}}')) if has else Holdings()
    return ObservedPod(
        value, uid or f"uid-{name}", "cotenant", created_s, node=on, demands=Demands(cpus=spec, numa=numa), holds=holds
    )


def cluster(*nodes: Node, told: Sequence[NodeTopology] | None = None) -> Cluster:
    """Each node tells eight CPUs, unless said otherwise."""
    made = Cluster(profile("least-allocated"), np.random.default_rng(1), EngineSettings())
    for node in nodes:
        made.node_seen(node)
    for topology in [tells(node.name) for node in nodes] if told is None else told:
        made.plugins.cpus.topology_seen(topology, 0.0)
    return made


class Api:
    """What an API server would hold, and the engine beside it."""

    def __init__(self, *nodes: Node, told: Sequence[NodeTopology] | None = None) -> None:
        self.nodes = list(nodes)
        self.told = [tells(node.name) for node in nodes] if told is None else list(told)
        self.pods: dict[str, ObservedPod] = {}
        self.now_s = 0.0
        self.waits: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self.victims: list[str] = []
        self.restart()

    def restart(self) -> None:
        """The scheduler begins anew from what the API server holds."""
        self.cluster = cluster(*self.nodes, told=self.told)
        for pod in self.pods.values():
            self.cluster.pod_seen(pod, self.now_s)

    def create(self, *pods: ObservedPod) -> None:
        for pod in pods:
            self.pods[pod.uid] = pod
            self.cluster.pod_seen(pod, self.now_s)

    def delete(self, name: str) -> None:
        uid = f"uid-{name}"
        del self.pods[uid]
        self.cluster.pod_gone(uid, self.now_s)

    def tell(self, told: NodeTopology) -> None:
        self.told = [node_topology for node_topology in self.told if node_topology.name != told.name] + [told]
        self.cluster.plugins.cpus.topology_seen(told, self.now_s)

    def forget(self, name: str) -> None:
        self.told = [node_topology for node_topology in self.told if node_topology.name != name]
        self.cluster.plugins.cpus.topology_gone(name, self.now_s)

    def turn(self, after_s: float = 30.0) -> tuple[Instruction, ...]:
        """One judgement, carried out."""
        self.now_s += after_s
        given = self.cluster.decide(self.now_s)
        for instruction in given:
            if isinstance(instruction, Bind):
                assert self.cluster.sending(instruction.uid, self.now_s)
                bound = replace(self.pods[instruction.uid], node=instruction.node, holds=instruction.holds)
                self.pods[instruction.uid] = bound
                self.cluster.bound(instruction.uid, self.now_s)
                self.cluster.pod_seen(bound, self.now_s)
            elif isinstance(instruction, Unschedulable):
                self.waits[instruction.key.partition("/")[2]] = instruction.message
                self.missing[instruction.key.partition("/")[2]] = instruction.record.nearest
            elif isinstance(instruction, Preempt):
                self.victims += [victim.key.partition("/")[2] for victim in instruction.victims]
        self.cluster.validate()
        return given

    def where(self, name: str) -> str:
        return self.pods[f"uid-{name}"].node

    def has(self, name: str) -> tuple[int, ...]:
        status = self.pods[f"uid-{name}"].holds.cpus
        return status.cpus if status is not None else ()

    def available(self, name: str) -> tuple[int, ...]:
        found = self.cluster.plugins.cpus.describe(name)
        assert found is not None
        return found.available
