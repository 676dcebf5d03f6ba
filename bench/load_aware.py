"""The cost of load-aware placement: microseconds per pod compared with plain pods in one process, and microseconds per
metric.

A cluster of idle nodes with residents, all of which are in the node's metric. `plain` judges the same pods without
load-aware placement. `filter` narrows by load; equal pods are placed in runs. `filter, mixed` has pods of eight sizes
alternating, so that runs are short. `filter and score` also prefers nodes with the lowest use, so every pod is judged
alone. `one by one` is `filter` without runs. Medians of the repeats in CPU time, binds included. `metric`: processing
one metric, of a node with its residents.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from bench.machine import median_seconds, peak_memory_mib, show
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.load.rules import LoadAware
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings
from cotenant.policy.placement.profiles import profile

GI = 1 << 30
FILTER = LoadAwareSettings(score_weight=0.0)
VARIANTS: dict[str, tuple[LoadAwareSettings | None, int, bool]] = {
    "plain": (None, 1, True),
    "plain, mixed": (None, 8, True),
    "filter": (FILTER, 1, True),
    "filter, mixed": (FILTER, 8, True),
    "filter, one by one": (FILTER, 1, False),
    "filter and score": (LoadAwareSettings(score_weight=1.0), 1, True),
}


def metric(name: str, residents: int, rng: np.random.Generator) -> NodeMetric:
    pods = {f"default/r-{name}-{i}": MeasuredPod(Use(100, GI)) for i in range(residents)}
    return NodeMetric(name, 0.0, 60, Use(int(rng.integers(1000, 24_000)), 8 * GI), pods=pods)


def a_cluster(nodes: int, residents: int, settings: LoadAwareSettings | None) -> Cluster:
    rng = np.random.default_rng(1)
    made = Cluster(
        profile("cotenant-requests"), rng, EngineSettings(max_pods=128), PluginRegistry(load_aware=LoadAware(settings))
    )
    for i in range(nodes):
        name = f"n{i}"
        made.node_seen(Node(name, Amounts.of({"cpu": 32_000, "memory": 128 * GI, "pods": 1000})))
        for j in range(residents):
            pod = Pod(f"r-{name}-{j}", requests=Amounts.of({"cpu": 100, "memory": GI}))
            made.pod_seen(ObservedPod(pod, pod.name, "other", 0.0, node=name, started_s=-1000.0), 0.0)
        if settings is not None:
            made.plugins.load_aware.metric_seen(metric(name, residents, rng), 0.0)
    made.decide(0.5)
    return made


def submit(cluster: Cluster, pods: int, sizes: int, born: int) -> None:
    for i in range(born, born + pods):
        pod = Pod(f"p{i}", requests=Amounts.of({"cpu": 100 + 10 * (i % sizes), "memory": GI >> 2}))
        cluster.pod_seen(ObservedPod(pod, pod.name, "cotenant", float(i)), 1.0)


def judge(cluster: Cluster, pods: int) -> None:
    bound = 0
    while bound < pods:
        given = sum(isinstance(instruction, Bind) for instruction in cluster.decide(1.0))
        assert given, f"{pods - bound} pods found no node"
        bound += given


def rows_for(nodes: int, residents: int, pods: int, repeats: int) -> list[dict[str, Any]]:
    """One row per variant."""
    rows = []
    for name, (settings, sizes, runs) in VARIANTS.items():
        cluster = a_cluster(nodes, residents, settings)
        if not runs:
            cluster._components.assignments.narrowing._repeating.clear()
        born = 0
        submit(cluster, 256, sizes, born)
        judge(cluster, 256)  # compile and fill caches
        born += 256

        def prepare() -> None:
            nonlocal born
            submit(cluster, pods, sizes, born)  # noqa: B023
            born += pods

        seconds = median_seconds(prepare, lambda _: judge(cluster, pods), repeats)  # noqa: B023
        rows.append(
            {
                "nodes": nodes,
                "residents": residents * nodes,
                "variant": name,
                "us_a_pod": round(1e6 * seconds / pods, 1),
            }
        )
        if name == "filter":
            rng = np.random.default_rng(2)
            load = cluster.plugins.load_aware
            metrics = [metric(f"n{i % nodes}", residents, rng) for i in range(1000)]

            def take_in(_: object) -> None:
                for metric in metrics:  # noqa: B023
                    load.metric_seen(replace(metric, age_s=0.0), 2.0)  # noqa: B023

            seconds = median_seconds(lambda: None, take_in, repeats)
            rows.append(
                {
                    "nodes": nodes,
                    "residents": residents * nodes,
                    "variant": "one metric",
                    "us_a_pod": round(1e3 * seconds, 1),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load_aware", description=__doc__)
    parser.add_argument(
        "--nodes", type=int, action="append", help="cluster size; may be given several times (default 10000)"
    )
    parser.add_argument("--residents", type=int, default=5, help="pods on each node")
    parser.add_argument("--pods", type=int, default=1280, help="pods placed in a timed part")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = [
        row for nodes in given.nodes or (10_000,) for row in rows_for(nodes, given.residents, given.pods, given.repeats)
    ]
    show(rows, given.json, (f"CPU time of one core. Peak memory {peak_memory_mib():.0f} MiB.",))


if __name__ == "__main__":
    main()
