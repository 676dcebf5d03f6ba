"""The victims for devices, exclusive CPUs, NUMA nodes and sums together are the cheapest of all sets of residents,
tried one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.cpu_cluster import cpus, node, tells, zones
from tests.property.few import examples, first_cases

from cotenant.engine.cycle.eviction.preemption import DisruptionBudgets, preempt
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.rules.cpus.rules import Cpus
from cotenant.engine.rules.devices.rules import DeviceRules
from cotenant.engine.state.ledger import Ledger
from cotenant.engine.state.narrowing import Narrowing
from cotenant.engine.state.pod_columns import NEVER_A_VICTIM
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.observed import DisruptionBudget
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.cpus.spec import BindPolicy, ExclusivePolicy, NumaTopologySpec, ResourceSpec, TopologyPolicy
from cotenant.model.cpus.topology import CpuTopology
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, RDMA, Amounts
from cotenant.policy.placement.compiled import plain_rejections
from cotenant.policy.placement.profiles import profile

FIT = profile("first-fit")
GIB = 1 << 30
CARD = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 16 * GIB})
TOPOLOGY = CpuTopology.of(cpus())  # 8 CPUs on 4 cores of 2 NUMA nodes
APPS = ("x", "y", "z")


class World:
    """Nodes with four GPUs, two RDMA cards and eight CPUs, and pods of random kinds on them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.encoder = Encoder(half_node_cores=4.0)
        cpus_, devices = Cpus(), DeviceRules()
        self.rules = (cpus_, devices)
        self.has_policies = bool(rng.random() < 0.6)
        for name in [f"n{i}" for i in range(int(rng.integers(1, 4)))]:
            policy = str(rng.choice(["", "BestEffort", "Restricted", "SingleNUMANode"])) if self.has_policies else ""
            self.encoder.add_node(node(name, 8, **({"numa_topology_policy": policy} if policy else {})))
            cpus_.topology_seen(tells(name, TOPOLOGY, zones=zones(4, 4)), 0.0)
            cards = [Device(DeviceType.GPU, i, CARD, numa=i // 2, pcie=str(i // 2)) for i in range(4)]
            cards += [Device(DeviceType.RDMA, i, Amounts.of({RDMA: 100}), numa=i, pcie=str(i)) for i in range(2)]
            devices.seen(NodeDevices(name, tuple(cards)))
        self.narrowing = Narrowing(self.encoder, self.rules)
        self.ledger = Ledger(self.encoder.nodes(), self.encoder.shapes(), 0, 0)
        self.pods: list[Pod] = []
        self.started_s: list[float] = []
        self.fixed: set[int] = set()  # not preemptible

    def pod(self, priority: int) -> tuple[Pod, Demands]:
        """GPUs in parts or whole, cards, CPUs of its own or shared, and memory."""
        rng, kind = self.rng, self.rng.choice(["gpu", "part", "card", "both", "cpu", "shared"])
        asks: dict[str, int] = {"memory": int(rng.choice([0, 1, 2])) * GIB}
        qos, demands = QoSClass.LS, Demands()
        if kind in ("gpu", "both"):
            asks[NVIDIA_GPU] = int(rng.integers(1, 4))
        if kind == "part":
            asks[GPU] = int(rng.choice([25, 50, 75]))
        if kind in ("card", "both"):
            asks[RDMA] = int(rng.choice([50, 100]))
        if kind == "cpu":
            qos = QoSClass.LSR
            # cores required on the first NUMA node that could serve: there more victims can be worse
            # (policy/placement/reprieve.py)
            bind = None if self.has_policies else rng.choice([None, BindPolicy.FULL_CORES, BindPolicy.SPREAD])
            spec = ResourceSpec(required=bind, exclusive=ExclusivePolicy(rng.choice(list(ExclusivePolicy))))
            is_aligned = self.has_policies and rng.random() < 0.3
            numa = NumaTopologySpec(TopologyPolicy.SINGLE_NUMA_NODE) if is_aligned else None
            demands = Demands(cpus=spec, numa=numa)
        asks["cpu"] = 1000 * int(rng.choice([1, 1, 2, 4] if kind == "cpu" else [0, 0, 1, 2]))
        labels = Labels.of({"app": str(rng.choice(APPS))})
        made = Pod(
            f"p{len(self.pods)}",
            requests=Amounts.of(asks),
            priority=priority,
            sub_priority=int(rng.choice([0, 0, 0, 2])),
            qos=qos,
            priority_class=PriorityClass.PROD,
            labels=labels,
        )
        return made, demands

    def add(self, pod: Pod, demands: Demands, started_s: float) -> int:
        number, shape = self.encoder.add_pod(pod)
        self.ledger.adopt(self.encoder.nodes(), self.encoder.shapes(), self.encoder.tenant_rows)
        self.narrowing.add_pod(number, pod, shape, demands=demands)
        assert number == len(self.pods)
        self.pods.append(pod)
        self.started_s.append(started_s)
        return number

    def fits(self, number: int, row: int) -> bool:
        shape = self.encoder.shape_of(number)
        knobs = FIT.knobs.array()
        if plain_rejections(self.ledger.nodes, self.ledger.shapes, shape, int(FIT.fit), knobs)[row]:
            return False
        allowed = self.narrowing.allowed(number)
        return not len(allowed) or bool(allowed[row])

    def place(self, number: int, row: int) -> None:
        self.ledger.place(np.array([number]), np.array([row]), np.array([self.encoder.shape_of(number)]))
        self.narrowing.place(number, row)

    def fill(self, most: int) -> None:
        for _ in range(most):
            pod, demands = self.pod(int(self.rng.choice([0, 0, 0, 1, 5])))
            number = self.add(pod, demands, float(self.rng.choice([1.0, 2.0, 3.0])))
            rows = [row for row in self.encoder.node_rows.values() if self.fits(number, row)]
            if rows:
                self.place(number, int(self.rng.choice(rows)))
                if self.rng.random() < 0.15:
                    self.fixed.add(number)

    def fits_without(self, number: int, row: int, gone: Sequence[int]) -> bool:
        """By removing the pods from the arrays and from the node rules."""
        for entry in gone:
            self.ledger.remove(np.array([entry]))
            self.narrowing.unassign(entry)
        try:
            return self.fits(number, row)
        finally:
            for entry in reversed(gone):
                self.ledger.place(np.array([entry]), np.array([row]), np.array([self.encoder.shape_of(entry)]))
                self.narrowing.assign(entry, row)

    def sizes(self, number: int, row: int) -> dict[int, int]:
        found: dict[int, int] = {}
        for rule in self.rules:
            if rule in self.narrowing.node_rules_of(number):
                vacate = rule.vacate(number, row)
                for pod, size in (vacate.sizes if vacate is not None else {}).items():
                    found[pod] = found.get(pod, 0) + size
        return found

    def is_exact(self, number: int) -> bool:
        """Whether node rules decide on every row; else kube-scheduler's procedure by sums is kept, which is not
        optimal.
        """
        rows = self.encoder.node_rows.values()
        return all(
            any(node_rules.vacate(number, row) for node_rules in self.narrowing.node_rules_of(number)) for row in rows
        )

    def violations(self, gone: Sequence[int], budgets: Sequence[DisruptionBudget]) -> int:
        used, broken = dict.fromkeys(range(len(budgets)), 0), set()
        for pod in sorted(
            gone, key=lambda number: (*(-rank for rank in self.rank(number)), self.started_s[number], number)
        ):
            for place, budget in enumerate(budgets):
                if budget.covers(self.pods[pod]):
                    used[place] += 1
                    if used[place] > budget.allowed:
                        broken.add(pod)
        return len(broken)

    def rank(self, number: int) -> tuple[int, int]:
        return self.pods[number].priority, self.pods[number].sub_priority

    def cost(
        self, number: int, row: int, gone: Sequence[int], budgets: Sequence[DisruptionBudget]
    ) -> tuple[object, ...]:
        highest = max((self.rank(entry) for entry in gone), default=(-(2**62), 0))
        first = min((self.started_s[entry] for entry in gone if self.rank(entry) == highest), default=np.inf)
        sizes = self.sizes(number, row)
        return (
            self.violations(gone, budgets),
            highest,
            sum(self.pods[entry].priority + 2**31 for entry in gone),
            sum(self.pods[entry].sub_priority for entry in gone),
            sum(sizes.get(entry, 0) for entry in gone),
            -first,
        )

    def preempt(self, number: int, priority: int, budgets: Sequence[DisruptionBudget]):  # type: ignore[no-untyped-def]
        priorities = np.array([NEVER_A_VICTIM if n in self.fixed else pod.priority for n, pod in enumerate(self.pods)])
        return preempt(
            self.encoder,
            self.ledger,
            self.narrowing,
            FIT,
            number,
            priority,
            priorities,
            np.array([pod.sub_priority for pod in self.pods]),
            np.array(self.started_s),
            DisruptionBudgets(budgets),
        )


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(150))
def test_victims_are_the_cheapest_set_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = World(rng)
    world.fill(int(rng.integers(6, 26)))
    budgets = [
        DisruptionBudget("default", f"b{i}", LabelSelector.of({"app": APPS[i]}), int(rng.integers(0, 3)))
        for i in range(int(rng.integers(0, 3)))
    ]
    pod, demands = world.pod(3)
    number = world.add(pod, demands, np.nan)
    if not world.is_exact(number) or any(world.fits(number, row) for row in world.encoder.node_rows.values()):
        return
    best: tuple[object, ...] | None = None
    for row in world.encoder.node_rows.values():
        lower = [
            resident
            for resident in world.ledger.residents(row).tolist()
            if world.pods[resident].priority < 3 and resident not in world.fixed
        ]
        for size in range(1, min(len(lower), 8) + 1):
            for gone in combinations(lower, size):
                cost = (*world.cost(number, row, gone, budgets), row)
                if (best is None or cost < best) and world.fits_without(number, row, gone):
                    best = cost
    found = world.preempt(number, 3, budgets)
    if best is None:
        assert found.row < 0
        assert sum(rejection.nodes for rejection in found.rejections) == len(world.encoder.node_rows)
        return
    assert found.row >= 0
    assert world.fits_without(number, found.row, found.victims)
    assert found.violations == world.violations(found.victims, budgets)
    assert (*world.cost(number, found.row, found.victims, budgets), found.row) == best


test_first_cases = first_cases(
    test_victims_are_the_cheapest_set_of_all,
    most=3,
)
