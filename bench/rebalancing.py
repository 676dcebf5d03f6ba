"""One round of the rebalancer: choose moves by measured use, and place each in simulation. Goal: 5,000 nodes and 50,000
pods within 1 s of CPU.

`plan_s` is the median CPU time of several rounds on one engine that knows the cluster, as in a process that follows it,
each until the engine is as before; `moves` are its moves, each a simulated placement on the scheduling engine over all
nodes. `hot` is the share of nodes above the threshold. Building the engine from the objects is not part of it
(`bench.rebuild`).

Cases: `plain`; `acting`: each overloaded node has a reservation elsewhere, as of moves under way, every tenth pod is in
one of the gangs of ten, and gangs wait that fit nowhere; `rules`: every pod has a spread constraint and an
anti-affinity term, which hold, and pods that violate such would move; `emptying`: HighNodeUtilization empties one of
the 1 % of nodes that are underused.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from bench.machine import median_seconds, show
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.settings import MoveKinds, Packing, PodScope, RebalancerSettings
from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint
from cotenant.model.cluster.demands import NO_DEMANDS, Demands
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.groups.gang import GangNotes
from cotenant.model.groups.reservation import ControllerOwner, Reservation, ReservationOwner, ReservationPhase
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.policy.rebalance.loads.pools import NodePool
from cotenant.policy.rebalance.loads.thresholds import Percentages
from cotenant.policy.rebalance.violations.contract import ViolationRule

CASES = ("plain", "acting", "rules", "emptying")
NOW = 1000.0
PODS_A_NODE = 10
GIB = 1 << 30
READY = EvictionNotes(is_ready=True)
SHAPES = 40
REPLICAS = 50


GANG = 10
WAITING_GANGS = 5
EMPTY = 0.01  # share of underused nodes in `emptying`
_KINDS = {
    "rules": MoveKinds({ViolationRule.ANTI_AFFINITY: PodScope(), ViolationRule.SPREAD: PodScope()}),
    "emptying": MoveKinds(packing=Packing({"cpu": 20, "memory": 20})),
}


def a_pod(number: int, workload: int, case: str) -> ObservedPod:
    """Pod `number`, not placed yet."""
    owner = OwnedBy("apps/v1", "ReplicaSet", f"w{workload}", f"w{workload}", True)
    requests = Amounts.of({"cpu": 1000 + 50 * (number % SHAPES), "memory": 4 * GIB})
    made = Pod(f"p{number}", requests=requests, qos=QoSClass.LS, priority_class=PriorityClass.PROD)
    demands = NO_DEMANDS
    if case == "rules":
        own = LabelSelector.of({"app": f"w{workload}"})
        made = replace(
            made,
            labels=Labels.of({"app": f"w{workload}"}),
            anti_affinity=(PodTerm(HOSTNAME, own),),
            spread=(SpreadConstraint(ZONE, own, 2),),
        )
    elif case == "acting" and number // GANG % GANG == 0:
        demands = Demands(gang=GangNotes(f"g{number // GANG}", GANG))
    return ObservedPod(made, f"u{number}", "cotenant", 0.0, owned_by=(owner,), demands=demands)


def a_planner(nodes: int, hot: float, name: str, case: str) -> Planner:
    """A planner that has seen the whole cluster: nodes of 32 cores with ten pods each, of which the first `hot`
    share uses 80 percent of its CPU, the others 20 to 40. The pods of a workload are on nodes of their own.
    """
    rng = np.random.default_rng(1)
    cluster = Cluster(profile(name), rng, EngineSettings(schedulers=("cotenant",)))
    pool = NodePool("p", Percentages({"cpu": 45}, {"cpu": 65}), anomaly=None)
    planner = Planner(cluster, RebalancerSettings((pool,), kinds=_KINDS.get(case, MoveKinds())), lambda key: READY)
    size = Amounts.of({"cpu": 32_000, "memory": 128 * GIB, "pods": 110})
    for i in range(nodes):
        cluster.node_seen(Node(f"n{i}", size, Labels.of({HOSTNAME: f"n{i}", ZONE: f"z{i % 3}"})))
        busy = 0.8 if i < hot * nodes else 0.2 + 0.2 * rng.random()
        pods = {}
        for k in range(2 if case == "emptying" and i >= (1.0 - EMPTY) * nodes else PODS_A_NODE):
            workload = i // REPLICAS * PODS_A_NODE + k
            seen = replace(a_pod(i * PODS_A_NODE + k, workload, case), node=f"n{i}", phase=PodPhase.RUNNING)
            cluster.pod_seen(seen, NOW)
            pods[seen.pod.key] = MeasuredPod(Use(int(32_000 * busy / PODS_A_NODE), 4 * GIB), PriorityClass.PROD)
            planner.workload_seen(f"w{workload}", REPLICAS)
        total = Use(int(32_000 * busy), 40 * GIB)
        planner.metric_seen(NodeMetric(f"n{i}", 5.0, use=total, pods=pods, system=Use(0, 0)), NOW)
    if case == "acting":
        reserve_and_wait(cluster, nodes, max(1, int(hot * nodes)))
    cluster.decide(NOW)
    return planner


def reserve_and_wait(cluster: Cluster, nodes: int, moves: int) -> None:
    """Reservations of moves under way, on the last nodes, and gangs that wait."""
    requests = Amounts.of({"cpu": 2000, "memory": 4 * GIB})
    for i in range(moves):
        owner = ReservationOwner(controller=ControllerOwner(uid=f"w{i}", kind="ReplicaSet", name=f"w{i}"))
        made = Reservation(f"r{i}", f"r{i}", Pod(f"r{i}", requests=requests), (owner,))
        made = replace(made, phase=ReservationPhase.AVAILABLE, node=f"n{nodes - 1 - i}", allocatable=requests)
        cluster.plugins.reservations.seen(made, NOW)
    for i in range(WAITING_GANGS):
        notes = GangNotes(f"waits{i}", GANG)
        for k in range(GANG):
            large = Pod(f"waits{i}-{k}", requests=Amounts.of({"cpu": 64_000}))
            cluster.pod_seen(ObservedPod(large, f"waits{i}-{k}", "cotenant", 0.0, demands=Demands(gang=notes)), NOW)


def a_row(nodes: int, hot: float, name: str, case: str, repeats: int) -> dict[str, Any]:
    planned: list[int] = []
    a_planner(min(nodes, 200), 0.1, name, case).plan_beside(NOW)  # compiles

    planner = a_planner(nodes, hot, name, case)
    seconds = median_seconds(lambda: planner, lambda one: planned.append(len(one.plan_beside(NOW).moves)), repeats)
    return {
        "nodes": nodes,
        "pods": nodes * PODS_A_NODE,
        "hot": hot,
        "profile": name,
        "case": case,
        "moves": planned[-1],
        "plan_s": round(seconds, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rebalancing", description=__doc__)
    parser.add_argument("--nodes", type=int, action="append")
    parser.add_argument("--hot", type=float, action="append", help="share of nodes above the threshold")
    parser.add_argument("--profile", default="cotenant")
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = [
        a_row(nodes, hot, given.profile, case, given.repeats)
        for case in given.case or CASES
        for nodes in given.nodes or (5_000,)
        for hot in given.hot or (0.0, 0.01, 0.05)
    ]
    show(rows, given.json)


if __name__ == "__main__":
    main()
