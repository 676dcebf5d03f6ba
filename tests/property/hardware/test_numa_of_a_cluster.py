"""Pods with CPUs and GPUs come and go under NUMA policies: each is allocated within the agreed nodes, caches are
never stale, and everything is returned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.cpu_cluster import EIGHT, GIB, cpus, node, tells, zones
from tests.property.few import examples, first_cases

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.rules.cpus.rules import Cpus
from cotenant.engine.rules.devices.rules import DeviceRules
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.cluster.demands import NO_HOLDINGS, Demands, Holdings
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.cpus.reported import NodeTopology
from cotenant.model.cpus.spec import NumaTopologySpec, TopologyPolicy
from cotenant.model.cpus.topology import CpuTopology, mask_of, numbers_in
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, Amounts

NAMES = ("a", "b")
TOPOLOGIES = (EIGHT, CpuTopology.of(cpus(nodes=3, cores=2)), CpuTopology.of(cpus(without=(1,))))
WHOLE = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 1000})
LABELS = ("", "BestEffort", "Restricted", "SingleNUMANode")


@dataclass(frozen=True, slots=True)
class Kind:
    """The requests of a pod; `policy`: its own NUMA policy."""

    cpu: int
    gib: int
    gpus: dict[str, int] = field(hash=False)
    own: bool
    policy: TopologyPolicy

    def pod(self, number: int) -> tuple[Pod, Demands]:
        asked = {"cpu": self.cpu * 1000, "memory": self.gib * GIB} | self.gpus
        qos = QoSClass.LSR if self.own else QoSClass.LS
        made = Pod(f"p{number}", requests=Amounts.of(asked), qos=qos, priority=9500, priority_class=PriorityClass.NONE)
        return made, Demands(numa=NumaTopologySpec(self.policy))


KINDS = st.builds(
    Kind,
    cpu=st.integers(0, 6),
    gib=st.integers(0, 6),
    gpus=st.sampled_from([{}, {NVIDIA_GPU: 1}, {NVIDIA_GPU: 2}, {NVIDIA_GPU: 3}, {GPU: 50}]),
    own=st.booleans(),
    policy=st.sampled_from([TopologyPolicy.NONE, *TopologyPolicy]),
)
PROBES = tuple(
    Kind(size, 2, gpus, own, policy)
    for size in (1, 5)
    for gpus in ({}, {NVIDIA_GPU: 1}, {GPU: 50})
    for own in (True, False)
    for policy in TopologyPolicy
)


class World:
    """Two nodes, with the node rules of a cluster."""

    def __init__(
        self, labels: dict[str, str], topologies: dict[str, NodeTopology], devices: dict[str, NodeDevices]
    ) -> None:
        self.labels, self.topologies, self.devices = dict(labels), dict(topologies), dict(devices)
        self.encoder, self.cpus, self.gpus = Encoder(64.0), Cpus(), DeviceRules()
        self.narrowing = Narrowing(self.encoder, (self.cpus, self.gpus))
        self.kinds: dict[int, Kind] = {}
        self.names = count()
        for name in NAMES:
            self.encoder.add_node(node(name, 12, numa_topology_policy=labels[name]))
            self.cpus.topology_seen(topologies[name], 0.0)
            self.gpus.seen(devices[name])

    def watch(self, kind: Kind, holds: Holdings = NO_HOLDINGS) -> int:
        made, demands = kind.pod(next(self.names))
        number, shape = self.encoder.add_pod(made)
        self.narrowing.add_pod(number, made, shape, demands=demands, holds=holds)
        return number

    def forget(self, number: int) -> None:
        self.narrowing.remove_pod(number)

    def place(self, kind: Kind, row: int) -> int | None:
        """On this row, if it may be."""
        number = self.watch(kind)
        left = self.narrowing.allowed(number)
        if len(left) and not left[row]:
            self.forget(number)
            return None
        self.narrowing.place(number, row)
        self.kinds[number] = kind
        return number

    def label(self, name: str, policy: str) -> None:
        self.labels[name] = policy
        self.encoder.update_node(node(name, 12, numa_topology_policy=policy))

    def again(self) -> World:
        """A restart: the same facts, and the pods' holdings from their annotations."""
        fresh = World(self.labels, self.topologies, self.devices)
        for number, kind in self.kinds.items():
            row = self.narrowing.row_of(number)
            fresh.narrowing.assign(fresh.watch(kind, self.narrowing.holdings(number)), row)
        return fresh

    def answers(self, kind: Kind) -> object:
        """The answer of the node rules to such a pod now, and what it would be given on each row."""
        number = self.watch(kind)
        rules = [(rule.reason, rule.yields, rule.left.tolist()) for rule in self.narrowing.rules(number)]
        left = self.narrowing.allowed(number)
        rows = [row for row in range(len(NAMES)) if not len(left) or left[row]]
        wishes = [
            (part.name, part.values.tolist())
            for part in self.narrowing.preferences(number, np.array(rows, dtype=np.int64))
        ]
        got = []
        for row in rows:
            self.narrowing.place(number, row)
            got.append(self.narrowing.holdings(number))
            self.narrowing.unassign(number)
        self.forget(number)
        return sorted(rules, key=str), wishes, got


def device_object(name: str, places: tuple[int, ...], ill: int) -> NodeDevices:
    found = [
        Device(DeviceType.GPU, i, WHOLE, not ill >> i & 1, numa=numa, pcie=f"{numa}.{i}")
        for i, numa in enumerate(places)
    ]
    return NodeDevices(name, tuple(found))


def check_aligned(world: World, number: int) -> None:
    """The devices and CPUs just given are aligned as the policy demands."""
    kind, row = world.kinds[number], world.narrowing.row_of(number)
    name = NAMES[row]
    reported, holds = world.topologies[name], world.narrowing.holdings(number)
    policy = kind.policy or TopologyPolicy(world.labels[name])
    has_gpus = [world.devices[name].devices[device.minor].numa for device in holds.devices]
    own = mask_of(holds.cpus.cpus) if holds.cpus is not None else 0
    if kind.own and kind.cpu:
        assert own.bit_count() == kind.cpu
    if policy is TopologyPolicy.NONE or not ((kind.own and kind.cpu) or kind.gpus or kind.policy):
        return
    has_cpus = {cpu_group.id for cpu_group in reported.topology.numa if cpu_group.mask & own}
    amounts = holds.cpus.numa if holds.cpus is not None else ()
    every = has_cpus | set(has_gpus) | {amount.node for amount in amounts}
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        assert len(every) <= 1
    if policy is TopologyPolicy.RESTRICTED:
        widths = [len(has_cpus), len(set(has_gpus))]
        widths += [
            len({amount.node for amount in amounts if amount.cpu_m}),
            len({amount.node for amount in amounts if amount.memory_bytes}),
        ]
        assert len(every) == max(widths, default=0)  # the narrower ones lie within the widest


PLACES = st.lists(st.integers(0, 1), min_size=1, max_size=4).map(tuple)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("place"), KINDS, st.integers(0, 1)),
        st.tuples(st.just("place"), KINDS, st.integers(0, 1)),
        st.tuples(st.just("forget"), st.integers(0, 9)),
        st.tuples(st.just("move out"), st.integers(0, 9)),
        st.tuples(st.just("ill"), st.sampled_from(NAMES), st.integers(0, 15)),
        st.tuples(st.just("label"), st.sampled_from(NAMES), st.sampled_from(LABELS)),
        st.tuples(st.just("ask"), st.sampled_from(PROBES)),
    ),
    max_size=14,
)


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    STEPS,
    st.lists(st.sampled_from(TOPOLOGIES), min_size=2, max_size=2),
    st.lists(PLACES, min_size=2, max_size=2),
    st.booleans(),
    st.sampled_from(PROBES),
)
def test_allocations_are_aligned_and_caches_are_current(
    steps: list[tuple],  # type: ignore[type-arg]
    topologies: list[CpuTopology],
    places: list[tuple[int, ...]],
    memory: bool,
    probe: Kind,
) -> None:
    reported = {
        name: tells(name, cpu_topology, zones=zones(*[6] * len(cpu_topology.numa)) if memory else ())
        for name, cpu_topology in zip(NAMES, topologies, strict=True)
    }
    placed = dict(zip(NAMES, places, strict=True))
    world = World(
        dict.fromkeys(NAMES, ""), reported, {name: device_object(name, entry, 0) for name, entry in placed.items()}
    )
    idle = [world.answers(kind) for kind in PROBES]
    for kind, *rest in steps:
        seated = sorted(world.kinds)
        if kind == "place":
            number = world.place(rest[0], rest[1])
            if number is not None:
                check_aligned(world, number)
        elif kind == "forget" and seated:
            number = seated[rest[0] % len(seated)]
            world.forget(number)
            del world.kinds[number]
        elif kind == "move out" and seated:
            number = seated[rest[0] % len(seated)]
            with world.narrowing.without(number):
                world.answers(probe)
        elif kind == "ill":
            world.devices[rest[0]] = device_object(rest[0], placed[rest[0]], rest[1])
            world.gpus.seen(world.devices[rest[0]])
        elif kind == "label":
            world.label(rest[0], rest[1])
        elif kind == "ask":
            world.answers(rest[0])
        for keeper in (world.cpus, world.gpus):
            keeper.validate()
        assert world.answers(probe) == world.again().answers(probe)
    for number in list(world.kinds):
        world.forget(number)
    for name in NAMES:
        world.label(name, "")
        world.gpus.seen(device_object(name, placed[name], 0))
        found = world.cpus.describe(name)
        assert found is not None
        assert not found.holders
        assert mask_of(found.available) == reported[name].topology.mask
        assert numbers_in(reported[name].topology.mask) == found.available
    assert [world.answers(kind) for kind in PROBES] == idle


test_first_cases = first_cases(
    test_allocations_are_aligned_and_caches_are_current,
    most=3,
)
