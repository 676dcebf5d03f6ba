"""One round of the rebalancer: choose moves by measured use, and place each in simulation. Goal: 5,000 nodes and 50,000 pods within 1 s of CPU.

`plan_s` is the median CPU time of a round on an engine that already knows the cluster, as in a process that follows it, until the engine is as before; `moves` are its moves, each a simulated placement on the scheduling
engine over all nodes. `hot` is the share of nodes above the threshold. Building the engine from the objects is not part of it (`bench.rebuild`).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from bench.machine import median_seconds, show
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import Settings
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy, Phase
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.policy.rebalance.loads.pools import NodePool
from cotenant.policy.rebalance.loads.thresholds import Percentages

NOW = 1000.0
PODS_A_NODE = 10
GIB = 1 << 30
READY = EvictionNotes(is_ready=True)
SHAPES = 40
REPLICAS = 50


def a_planner(nodes: int, hot: float, name: str) -> Planner:
    """A planner that has seen the whole cluster: nodes of 32 cores with ten pods each, of which the first `hot` share uses 80 percent of its CPU, the others 20 to 40."""
    rng = np.random.default_rng(1)
    cluster = Cluster(profile(name), rng, Settings(schedulers=("cotenant",)))
    settings = RebalancerSettings((NodePool("p", Percentages({"cpu": 45}, {"cpu": 65}), anomaly=None),))
    planner = Planner(cluster, settings, lambda key: READY)
    size = Amounts.of({"cpu": 32_000, "memory": 128 * GIB, "pods": 110})
    for i in range(nodes):
        cluster.node_seen(Node(f"n{i}", size))
        busy = 0.8 if i < hot * nodes else 0.2 + 0.2 * rng.random()
        pods = {}
        for k in range(PODS_A_NODE):
            number = i * PODS_A_NODE + k
            owner = OwnedBy("apps/v1", "ReplicaSet", f"w{number // REPLICAS}", f"w{number // REPLICAS}", True)
            requests = Amounts.of({"cpu": 1000 + 50 * (number % SHAPES), "memory": 4 * GIB})
            pod = Pod(f"p{number}", requests=requests, qos=QoSClass.LS, priority_class=PriorityClass.PROD)
            cluster.pod_seen(
                ObservedPod(pod, f"u{number}", "cotenant", 0.0, f"n{i}", Phase.RUNNING, owned_by=(owner,)), NOW
            )
            pods[pod.key] = MeasuredPod(Use(int(32_000 * busy / PODS_A_NODE), 4 * GIB), PriorityClass.PROD)
            planner.workload_seen(owner.uid, REPLICAS)
        total = Use(int(32_000 * busy), 40 * GIB)
        planner.metric_seen(NodeMetric(f"n{i}", 5.0, use=total, pods=pods, system=Use(0, 0)), NOW)
    cluster.decide(NOW)
    return planner


def a_row(nodes: int, hot: float, name: str, repeats: int) -> dict[str, Any]:
    planned: list[int] = []
    a_planner(min(nodes, 50), 0.1, name).plan_beside(NOW)  # compiles

    def measured(planner: Planner) -> None:
        planned.append(len(planner.plan_beside(NOW).moves))

    seconds = median_seconds(lambda: a_planner(nodes, hot, name), measured, repeats)
    return {
        "nodes": nodes,
        "pods": nodes * PODS_A_NODE,
        "hot": hot,
        "profile": name,
        "moves": planned[-1],
        "plan_s": round(seconds, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rebalancing", description=__doc__)
    parser.add_argument("--nodes", type=int, action="append")
    parser.add_argument("--hot", type=float, action="append", help="share of nodes above the threshold")
    parser.add_argument("--profile", default="cotenant")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = [
        a_row(nodes, hot, given.profile, given.repeats)
        for nodes in given.nodes or (5_000,)
        for hot in given.hot or (0.0, 0.01, 0.05)
    ]
    show(rows, given.json)


if __name__ == "__main__":
    main()
