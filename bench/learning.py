"""The cost of learned interference: CPU time of one report of a node in the scheduler, and its share of a run of the
lab.

    python -m bench.learning [--pods 20] [--nodes 249] [--run] [--json]

Reports are what 249 nodes with 20 pods each send (a third of them services with a p99), taken as the scheduler process
takes them: noted one by one, learned from together once a minute. `us per report` is CPU time of both divided by the
number of reports; its goal is 20. `--run` repeats one run of the co-located world with `--nodes` nodes and the clock
around learning from windows and writing what was learned for the scores: their share of the run's CPU time, goal 5 %.
Medians of repetitions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.state.learned_profiles import LearnedProfiles
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, PodSignals, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant_lab.bridge import Bridge
from cotenant_lab.workloads.colocation import generate
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.offer import without_profiles
from cotenant_lab.world.world import World

_APPLICATIONS = 500
_MINUTES = 7


def reports(nodes: int, pods: int) -> float:
    """Microseconds of CPU time a report: what `cotenant-learned` costs beyond a profile that only measures use."""
    cost = {}
    for name in ("cotenant-learned", "cotenant"):
        engine = Cluster(profile(name), np.random.default_rng(0), EngineSettings())
        metrics = _cluster(engine, nodes, pods)
        spent = []
        for minute in range(_MINUTES):
            now_s = 60.0 * minute
            start = process_time()
            for metric in metrics:
                engine.metric_seen(metric, now_s)
            engine.decide(now_s)
            spent.append(process_time() - start)
        cost[name] = median(spent[2:]) / nodes * 1e6
    return cost["cotenant-learned"] - cost["cotenant"]


def _cluster(engine: Cluster, nodes: int, pods: int) -> list[NodeMetric]:
    metrics = []
    for n in range(nodes):
        engine.node_seen(Node(f"n{n}", Amounts.of({"cpu": 96_000, "memory": 1 << 39, "pods": 200})))
        measured = {}
        for i in range(pods):
            service = i % 3 == 0
            pod = Pod(
                f"p{n}-{i}",
                requests=Amounts.of({"cpu": 2000, "memory": 1 << 30}),
                tenant=f"t{(n * pods + i) % _APPLICATIONS}",
                objective_p99_ms=10.0 if service else None,
            )
            engine.pod_seen(ObservedPod(pod, pod.name, "cotenant", 0.0, node=f"n{n}"), 0.0)
            signals = PodSignals(latency_p99_ms=5.0 + i / 10.0) if service else PodSignals(wait_per_cpu=0.1)
            measured[pod.key] = MeasuredPod(Use(1000 + 10 * i, 1 << 29), signals=signals)
        metrics.append(NodeMetric(f"n{n}", 5.0, use=Use(20_000, 1 << 34), pods=measured))
    return metrics


class _Spent:
    """CPU time spent in learning from windows and in writing what was learned into the parameters of shapes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._clock_s = _clock_s()

    def timed(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """A method that also adds its CPU time."""

        def method(*arguments: Any) -> Any:
            start = process_time()
            try:
                return plain(*arguments)
            finally:
                self.seconds += process_time() - start - self._clock_s

        return method


def _clock_s() -> float:
    """CPU time of reading the clock: a system call, which some sandboxes make expensive."""
    start = process_time()
    for _ in range(1000):
        process_time()
    return (process_time() - start) / 1001


def share_of_a_run(nodes: int) -> float:
    """Share of the CPU time of one run that learning takes; the first run compiles and is not counted."""
    config = WorldConfig(nodes=nodes, pods=round(20_000 * nodes / 249))
    truth, offer = generate(config, 0, 0.85)
    shares = []
    spent = _Spent()
    plain = {name: getattr(LearnedProfiles, name) for name in ("observe", "write")}
    for name, method in plain.items():
        setattr(LearnedProfiles, name, spent.timed(method))
    try:
        for _ in range(2):
            world, seen = World(truth, config, 0), without_profiles(offer)
            run = Bridge(world, seen, config, profile("cotenant-learned"), np.random.default_rng(0))
            before, start = spent.seconds, process_time()
            run.run()
            shares.append((spent.seconds - before) / (process_time() - start))
    finally:
        for name, method in plain.items():
            setattr(LearnedProfiles, name, method)
    return shares[-1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=249)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = {"us_per_report": round(reports(asked.nodes, asked.pods), 1)}
    if asked.run:
        found["share_of_run_percent"] = round(100.0 * share_of_a_run(asked.nodes), 2)
    if asked.json:
        print(json.dumps(found))
        return
    print(f"{found['us_per_report']} us a report of {asked.pods} pods (goal 20)")
    if asked.run:
        print(f"{found['share_of_run_percent']} % of a run's CPU time (goal 5)")


if __name__ == "__main__":
    main()
