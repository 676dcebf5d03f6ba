"""The cost of a question to the scheduler's loop, and of none: milliseconds of one core's time on a whole cluster's
engine.

A cluster of nodes with residents on each. `waits`: a pod that fits nowhere, with everything that would help, including
a higher priority; `what if`: the same with other requests; both are the first step, which stops the loop, and `whole`
is the complete answer, most of which the scheduler computes in a thread; `placed`: a pod on its node, with all scores
recomputed; `node`: the scheduler's view of a node. Then the time of a decision, of pods that all fit: without
recording, and with the top ten scores or the failing filters of every pod recorded. Medians of the repeats in CPU time.
Demand is synthetic.
"""

from __future__ import annotations

import argparse
from time import process_time
from typing import Any

import numpy as np

from bench.machine import median_seconds, peak_memory_mib, show
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.decisions.answers import NO_WHAT_IF, WhatIf
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.services.scheduler.pages.debugging import Debugging

DECIDED = 512


def a_cluster(nodes: int, residents: int) -> Cluster:
    """Nodes that are 90 % full, residents of seven priorities."""
    cluster = Cluster(profile("cotenant-requests"), np.random.default_rng(1))
    for i in range(nodes):
        size = Amounts.of({"cpu": 1100 * residents, "memory": residents << 31, "pods": 500})
        cluster.node_seen(Node(f"n{i}", size, Labels.of({HOSTNAME: f"n{i}"})))
    for i in range(nodes * residents):
        pod = Pod(f"p{i}", requests=Amounts.of({"cpu": 1000, "memory": 1 << 30}), priority=i % 7)
        cluster.pod_seen(ObservedPod(pod, f"u{i}", "cotenant", 0.0, node=f"n{i // residents}"), 0.0)
    large = Pod("large", requests=Amounts.of({"cpu": 1100 * residents, "memory": 1 << 30}))
    cluster.pod_seen(ObservedPod(large, "large", "cotenant", 0.0), 0.0)
    cluster.decide(0.0)
    return cluster


def questions(cluster: Cluster, repeats: int) -> dict[str, float]:
    """Milliseconds per question."""

    def milliseconds(key: str, supposed: WhatIf = NO_WHAT_IF) -> float:
        cluster.why.ask(key, 1.0, supposed)
        return 1e3 * median_seconds(lambda: None, lambda _: cluster.why.ask(key, 1.0, supposed), repeats)

    def whole(key: str, supposed: WhatIf = NO_WHAT_IF) -> float:
        cluster.why.pod(key, 1.0, supposed)
        return median_seconds(lambda: None, lambda _: cluster.why.pod(key, 1.0, supposed), 3)

    cluster.why.node("n0", 1.0)
    return {
        "waits_ms": milliseconds("default/large"),
        "what_if_ms": milliseconds("default/large", WhatIf.parse(("cpu=500m",))),
        "waits_whole_s": whole("default/large"),
        "what_if_whole_s": whole("default/large", WhatIf.parse(("cpu=500m",))),
        "placed_ms": milliseconds("default/p0"),
        "node_ms": 1e3 * median_seconds(lambda: None, lambda _: cluster.why.node("n0", 1.0), repeats),
    }


def a_decision(cluster: Cluster, name: str) -> float:
    """Microseconds per pod of one decision, with pods that all fit; they are removed afterwards."""
    for i in range(DECIDED):
        pod = Pod(f"{name}{i}", requests=Amounts.of({"cpu": 10, "memory": 1 << 20}))
        cluster.pod_seen(ObservedPod(pod, f"{name}{i}", "cotenant", 2.0), 2.0)
    begun, bound = process_time(), 0
    while cluster.next_s() <= 2.0 and bound < DECIDED:
        bound += sum(isinstance(instruction, Bind) for instruction in cluster.decide(2.0))
    took_s = process_time() - begun
    for i in range(DECIDED):
        cluster.pod_gone(f"{name}{i}", 3.0)
    cluster.decide(3.0)
    return 1e6 * took_s / bound


def row(nodes: int, residents: int, repeats: int) -> dict[str, Any]:
    """The figures of one cluster."""
    cluster = a_cluster(nodes, residents)
    debugging = Debugging(cluster.observe)
    decisions: dict[str, float] = {}
    for name, scores, filters in (("plain", "0", "false"), ("top_10", "10", "false"), ("filters", "0", "true")):
        debugging.set_scores(scores)
        debugging.set_filters(filters)
        times = [a_decision(cluster, f"{name}-{i}-") for i in range(max(3, repeats // 3))]
        decisions[f"{name}_us"] = float(np.median(times))
    debugging.set_filters("false")
    return {"nodes": nodes, "residents": nodes * residents, **questions(cluster, repeats), **decisions}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.why", description=__doc__)
    parser.add_argument(
        "--nodes", type=int, action="append", help="cluster size; may be repeated (default 1000, 10000)"
    )
    parser.add_argument("--residents", type=int, default=5, help="pods on each node")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = [row(nodes, given.residents, given.repeats) for nodes in given.nodes or (1000, 10000)]
    show(rows, given.json, (f"CPU time of one core. Peak memory {peak_memory_mib():.0f} MiB.",))


if __name__ == "__main__":
    main()
