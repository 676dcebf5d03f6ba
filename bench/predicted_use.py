"""The cost of fitting batch and mid pods by predicted use: microseconds per pod compared with fitting by requests in
one process, and microseconds per metric.

A cluster of idle nodes with measured residents. `off` is the profile `cotenant-requests`, `asleep` the default profile
where no node offers lent resources, `awake` the same where nodes do. `services` request CPU and memory, `lent` batch
resources; `mixed` alternates eight sizes, so that runs of equal pods are short. The variants take turns, repeat by
repeat, so that a busy machine is the same for all. Medians in CPU time, binds included. `--kept SET` says instead how
often real use exceeds its prediction. `one metric`: counting one node's metric with its residents.
"""

from __future__ import annotations

import argparse
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from bench.lending import CAPACITY, SETS, is_reported, machines
from bench.machine import peak_memory_mib, show
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.use.rules import PredictedUse
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, Amounts
from cotenant.policy.overcommit.predicted_use import (
    UNMEASURED,
    PredictedUseSettings,
    predicted_use,
)
from cotenant.policy.placement.profiles import profile

GI = 1 << 30
WARM = 256  # pods placed before anything is timed
LEARNING = 12  # measurements of a machine before predictions are judged
VARIANTS: dict[str, tuple[bool, bool, bool, int]] = {  # rule on, nodes lend, pods are lent ones, sizes
    "services, off": (False, False, False, 1),
    "services, asleep": (True, False, False, 1),
    "services, awake": (True, True, False, 1),
    "services mixed, off": (False, False, False, 8),
    "services mixed, awake": (True, True, False, 8),
    "lent, off": (False, True, True, 1),
    "lent, awake": (True, True, True, 1),
    "lent mixed, off": (False, True, True, 8),
    "lent mixed, awake": (True, True, True, 8),
}


def metric(node: int, residents: int, rng: np.random.Generator) -> NodeMetric:
    pods = {f"default/r-{node}-{i}": MeasuredPod(Use(int(rng.integers(20, 90)), GI)) for i in range(residents)}
    return NodeMetric(f"n{node}", 0.0, 60, Use(500, 8 * GI), pods=pods)


class Side:
    """One variant's cluster."""

    def __init__(self, name: str, nodes: int, residents: int) -> None:
        is_on, lends, self.lent, self.sizes = VARIANTS[name]
        self.rule = PredictedUse(PredictedUseSettings() if is_on else None)
        self.cluster = Cluster(
            profile("cotenant-requests"),
            np.random.default_rng(1),
            EngineSettings(max_pods=128),
            PluginRegistry(predicted_use=self.rule),
        )
        self.born = 0
        self.seconds: list[float] = []
        lent = {BATCH_CPU: 24_000, BATCH_MEMORY: 100 * GI} if lends else {}
        rng = np.random.default_rng(1)
        for i in range(nodes):
            size = {"cpu": 32_000, "memory": 128 * GI, "pods": 1000} | lent
            self.cluster.node_seen(Node(f"n{i}", Amounts.of(size)))
            for j in range(residents):
                pod = Pod(f"r-{i}-{j}", requests=Amounts.of({"cpu": 100, "memory": GI}))
                self.cluster.pod_seen(ObservedPod(pod, pod.name, "other", 0.0, node=f"n{i}", started_s=-1000.0), 0.0)
        self.cluster.decide(0.5)
        for i in range(nodes):
            self.rule.metric_seen(metric(i, residents, rng), 0.5)
        self.place(WARM)
        self.seconds.clear()

    def place(self, pods: int) -> None:
        """Submit and place pods; the placing is timed."""
        names = (BATCH_CPU, BATCH_MEMORY) if self.lent else ("cpu", "memory")
        its = PriorityClass.BATCH if self.lent else PriorityClass.NONE
        for i in range(self.born, self.born + pods):
            requests = Amounts.of({names[0]: 100 + 10 * (i % self.sizes), names[1]: GI >> 2})
            seen = ObservedPod(Pod(f"p{i}", requests=requests, priority_class=its), f"p{i}", "cotenant", float(i))
            self.cluster.pod_seen(seen, 1.0)
        self.born += pods
        began, bound = process_time(), 0
        while bound < pods:
            given = sum(isinstance(instruction, Bind) for instruction in self.cluster.decide(1.0))
            assert given, f"{pods - bound} pods found no node"
            bound += given
        self.seconds.append(process_time() - began)


def rows_for(nodes: int, residents: int, pods: int, repeats: int) -> list[dict[str, Any]]:
    """One row per variant, and the cost of a metric."""
    sides = {name: Side(name, nodes, residents) for name in VARIANTS}
    for _ in range(repeats):
        for side in sides.values():
            side.place(pods)
    found = {name: 1e6 * median(side.seconds) / pods for name, side in sides.items()}
    rng, rule = np.random.default_rng(2), sides["lent, awake"].rule
    metrics = [metric(i % nodes, residents, rng) for i in range(min(1000, nodes))]
    began = process_time()
    for node_metric in metrics:
        rule.metric_seen(node_metric, 60.0)
    found["one metric"] = 1e6 * (process_time() - began) / len(metrics)
    common = {"nodes": nodes, "residents": residents * nodes}
    return [common | {"variant": name, "us_a_pod": round(value, 1)} for name, value in found.items()]


def kept_risk(which: str, risk: float, limit: int) -> dict[str, Any]:
    """How often the next measurement exceeds the prediction on real usage (`bench.lending`'s sets), pod by pod and
    in the sum over a machine, from the twelfth measurement on.
    """
    chosen = PredictedUseSettings(risk=risk)
    pods, sums, predicted, used = [0, 0], [0, 0], 0.0, 0.0
    for machine in machines(which, limit):
        if not is_reported(machine.name):
            continue
        requests = [Use(int(entry * CAPACITY), 0) for entry in machine.requests]
        histories = [UNMEASURED] * len(requests)
        for at in range(machine.use.shape[1]):
            use = [int(entry * CAPACITY) for entry in machine.use[:, at]]
            if at >= LEARNING:
                wanted = [
                    predicted_use(request, history, True, chosen).cpu_m
                    for request, history in zip(requests, histories, strict=True)
                ]
                pods[0] += sum(number > most for number, most in zip(use, wanted, strict=True))
                pods[1] += len(use)
                sums[0] += sum(use) > sum(wanted)
                sums[1] += 1
                predicted += sum(wanted) / CAPACITY
                used += sum(use) / CAPACITY
            histories = [
                history.measured(Use(number, 0), float(machine.times[at]), chosen)
                for history, number in zip(histories, use, strict=True)
            ]
    return {
        "set": which,
        "stated_pct": 100.0 * risk,
        "pods_above_pct": round(100.0 * pods[0] / pods[1], 2),
        "machines_above_pct": round(100.0 * sums[0] / sums[1], 2),
        "predicted_pct": round(100.0 * predicted / sums[1], 1),
        "used_pct": round(100.0 * used / sums[1], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.predicted_use", description=__doc__)
    parser.add_argument("--nodes", type=int, action="append", help="cluster size; may be given several times (2000)")
    parser.add_argument("--residents", type=int, default=10, help="pods on each node")
    parser.add_argument("--pods", type=int, default=1280, help="pods placed in a timed part")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument(
        "--kept", choices=SETS, help="instead: the risk that is kept on real usage; needs traces/ or COTENANT_TRACES"
    )
    parser.add_argument("--machines", type=int, default=60, help="with --kept: of each half of a set; 0 = all")
    given = parser.parse_args()
    if given.kept:
        show([kept_risk(given.kept, risk, given.machines) for risk in (0.01, 0.05)], given.json)
        return
    rows = [
        row for nodes in given.nodes or (2000,) for row in rows_for(nodes, given.residents, given.pods, given.repeats)
    ]
    show(rows, given.json, (f"CPU time of one core. Peak memory {peak_memory_mib():.0f} MiB.",))


if __name__ == "__main__":
    main()
