"""Exclusive CPUs over many nodes: the first judgement of a kind of pod, the next, and the choice.

    python -m bench.cpus
    python -m bench.cpus --nodes 10000 --json

Every node has 128 CPUs (2 sockets, 4 NUMA nodes, cores of two threads). `alike` = no CPU is held; `used` = up to six
pods on each node, different ones on each, so that no two nodes are in the same state. `first` judges all nodes for a
kind of pod that was not judged before, `next` after one placement, `choice` is selecting and holding CPUs on a row,
`place` is a pod by `Cluster.decide`, compared with a plain pod in the same cluster.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from bench.machine import cpu_seconds, median_seconds, peak_memory_mib, show
from cotenant.engine.cluster import Cluster
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.rules.cpus.rules import Cpus
from cotenant.model.cluster.demands import NO_DEMANDS, NO_HOLDINGS, Demands, Holdings
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.reported import NodeTopology
from cotenant.model.cpus.spec import BindPolicy, NumaTopologySpec, ResourceSpec, ResourceStatus, TopologyPolicy
from cotenant.model.cpus.topology import CpuTopology
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

GIB = 1 << 30
TOPOLOGY = CpuTopology.of(LogicalCpu(cpu, cpu % 64, cpu % 64 // 32, cpu % 64 // 16) for cpu in range(128))
KINDS = {
    "4 CPUs": Demands(),
    "whole cores required": Demands(cpus=ResourceSpec(required=BindPolicy.FULL_CORES)),
    "one NUMA node": Demands(numa=NumaTopologySpec(TopologyPolicy.SINGLE_NUMA_NODE)),
}


def node(number: int) -> Node:
    return Node(f"node-{number}", Amounts.of({"cpu": 128_000, "memory": 512 * GIB}))


def pod(name: str, qos: QoSClass = QoSClass.LSR) -> Pod:
    return Pod(name, requests=Amounts.of({"cpu": 4000, "memory": 8 * GIB}), qos=qos)


class World:
    """The CPU rule over `nodes` nodes."""

    def __init__(self, nodes: int, used: bool) -> None:
        self.encoder, self.rules = Encoder(64.0), Cpus()
        self.rules.attach(self.encoder)
        self.names = count()
        rng = np.random.default_rng(1)
        for number in range(nodes):
            self.encoder.add_node(node(number))
            self.rules.topology_seen(NodeTopology(f"node-{number}", TOPOLOGY), 0.0)
            for _ in range(int(rng.integers(1, 7)) if used else 0):
                first = int(rng.integers(0, 120))
                held = Holdings(ResourceStatus(tuple(range(first, first + int(rng.integers(1, 8))))))
                self.rules.assign(self.watch(NO_DEMANDS, held), self.encoder.node_rows[f"node-{number}"])

    def watch(self, demands: Demands, holds: Holdings = NO_HOLDINGS) -> int:
        made = pod(f"pod-{next(self.names)}")
        number, _ = self.encoder.add_pod(made)
        self.rules.add_pod(number, made, demands, holds)
        return number

    def judge(self, number: int) -> None:
        for rule in self.rules.rules(number):
            rule.left.any()


def measure(nodes: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for state in ("alike", "used"):
        for kind, demands in KINDS.items():
            world = World(nodes, state == "used")
            number = world.watch(demands)
            first_s = cpu_seconds(partial(world.judge, number))
            choices: list[float] = []
            nexts: list[float] = []
            for repeat in range(50):
                number = world.watch(demands)
                nexts.append(cpu_seconds(partial(world.judge, number)))
                open_rows = np.ones(nodes, dtype=np.bool_)
                for rule in world.rules.rules(number):
                    open_rows &= rule.left
                row = int(np.flatnonzero(open_rows)[repeat])
                choices.append(cpu_seconds(partial(world.rules.allocate, number, row)))
            found.append(
                {
                    "nodes": f"{nodes} {state}",
                    "asked": kind,
                    "first_ms": round(first_s * 1e3, 1),
                    "next_us": round(float(np.median(nexts)) * 1e6, 1),
                    "choice_us": round(float(np.median(choices)) * 1e6, 1),
                }
            )
    return found


def placed(nodes: int) -> list[str]:
    """Decisions on single pods through the whole engine."""
    cluster = Cluster(profile("least-allocated"), np.random.default_rng(1), EngineSettings())
    for number in range(nodes):
        cluster.node_seen(node(number))
        cluster.plugins.cpus.topology_seen(NodeTopology(f"node-{number}", TOPOLOGY), 0.0)
    names = count()

    def one(qos: QoSClass) -> None:
        made = pod(f"pod-{next(names)}", qos)
        cluster.pod_seen(ObservedPod(made, f"uid-{made.name}", "cotenant", 0.0), 0.0)
        cluster.decide(0.0)

    lines = []
    for qos in (QoSClass.LS, QoSClass.LSR):
        one(qos)
        taken_s = median_seconds(partial(QoSClass, qos), one, 100)
        lines.append(f"a pod of class {qos.value}, decided alone: {taken_s * 1e6:.0f} us")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    show(measure(given.nodes), given.json, [*placed(given.nodes), f"{peak_memory_mib():.0f} MiB"])


if __name__ == "__main__":
    main()
