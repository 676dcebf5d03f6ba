"""Gangs in a cluster's engine, compared with plain pods: the cost of a whole decision, and the part of the transaction.

For each number of members: `plain_us` a pod decided alone, in one decision over as many pods; `accepted_ms` and
`refused_ms` a decision over one gang that fits, and over one that lacks room for its last member (with a reason
reported for every member); of those, `place_ms` the one run that places all members, and `undo_ms` its rollback.
`--beside`: so many gangs of two run on further nodes meanwhile. Medians of CPU time of one core; nodes are large
enough, demand is synthetic.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from bench.machine import show
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.gang import GangNotes
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

SCHEDULER = "cotenant"


def cluster(nodes: int, open_nodes: int) -> Cluster:
    """`open_nodes` have room for one pod, the others for none."""
    made = Cluster(profile("cotenant-requests"), np.random.default_rng(1), EngineSettings(max_pods=4096))
    for i in range(nodes):
        size = Amounts.of({"cpu": 1000 if i < open_nodes else 10, "memory": 64 << 30})
        made.node_seen(Node(f"n{i}", size, Labels.of({HOSTNAME: f"n{i}"})))
    return made


def pods(name: str, count: int, notes: GangNotes | None) -> list[ObservedPod]:
    size = Amounts.of({"cpu": 1000, "memory": 1 << 30})
    return [
        ObservedPod(Pod(f"{name}-{i}", requests=size), f"{name}-{i}", SCHEDULER, 0.0, demands=Demands(gang=notes))
        for i in range(count)
    ]


def run_beside(c: Cluster, gangs: int) -> None:
    """So many gangs of two, each on a node of its own, which they fill."""
    for i in range(gangs):
        c.node_seen(Node(f"b{i}", Amounts.of({"cpu": 2000, "memory": 64 << 30}), Labels.of({HOSTNAME: f"b{i}"})))
        for pod in pods(f"b{i}", 2, GangNotes(name=f"b{i}", min_available=2)):
            c.pod_seen(replace(pod, node=f"b{i}", phase=PodPhase.RUNNING), 0.0)


def decision_s(c: Cluster, given: list[ObservedPod], now_s: float, bound: int) -> float:
    """CPU seconds of the decision over newly arrived pods, which are removed afterwards."""
    for observed_pod in given:
        c.pod_seen(observed_pod, now_s)
    begin = process_time()
    out = c.decide(now_s)
    taken = process_time() - begin
    if sum(isinstance(instruction, Bind) for instruction in out) != bound:
        raise AssertionError(f"{bound} binds expected")
    for observed_pod in given:
        c.pod_gone(observed_pod.uid, now_s)
    c.decide(now_s)
    return taken


def transaction_s(c: Cluster, given: list[ObservedPod]) -> tuple[float, float]:
    """CPU seconds of placing all of them in one run, and of the rollback."""
    for observed_pod in given:
        c.pod_seen(observed_pod, 0.0)
    c._components.assignments.write()
    entries = [c._pods.by_uid[observed_pod.uid] for observed_pod in given]
    placing = c._components.placing
    mark = placing.mark()
    begin = process_time()
    judged = placing.place(entries, 0.0)
    middle = process_time()
    placing.undo([entry for entry, judgement in zip(entries, judged, strict=True) if judgement.row >= 0], mark)
    end = process_time()
    for observed_pod in given:
        c.pod_gone(observed_pod.uid, 0.0)
    c.decide(0.0)
    return middle - begin, end - middle


def a_row(nodes: int, members: int, beside: int, repeats: int) -> dict[str, Any]:
    notes = GangNotes(name="g", min_available=members)
    fits, lacks = cluster(nodes, members), cluster(nodes, members - 1)
    for entry in (fits, lacks):
        run_beside(entry, beside)
    now = iter(range(0, 10**9, 1000))
    plain, accepted, refused, place, undo = [], [], [], [], []
    for i in range(repeats + 2):
        plain.append(decision_s(fits, pods(f"p{i}", members, None), next(now), members))
        accepted.append(decision_s(fits, pods(f"a{i}", members, notes), next(now), members))
        refused.append(decision_s(lacks, pods(f"r{i}", members, notes), next(now), 0))
        placed_s, undone_s = transaction_s(fits, pods(f"t{i}", members, notes))
        place.append(placed_s)
        undo.append(undone_s)
    return {
        "nodes": nodes,
        "members": members,
        "beside": beside,
        "plain_us": round(1e6 * median(plain[2:]) / members, 1),
        "gang_us": round(1e6 * median(accepted[2:]) / members, 1),
        "accepted_ms": round(1e3 * median(accepted[2:]), 2),
        "refused_ms": round(1e3 * median(refused[2:]), 2),
        "place_ms": round(1e3 * median(place[2:]), 2),
        "undo_ms": round(1e3 * median(undo[2:]), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gangs", description=__doc__)
    parser.add_argument("--nodes", type=int, action="append", help="may be given several times (default 1000, 10000)")
    parser.add_argument("--members", type=int, action="append", help="may be given several times (default 8, 64, 512)")
    parser.add_argument("--beside", type=int, default=0, help="gangs that run meanwhile (default 0)")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = [
        a_row(nodes, members, given.beside, given.repeats)
        for nodes in given.nodes or (1000, 10_000)
        for members in given.members or (8, 64, 512)
    ]
    show(rows, given.json, ("CPU time of one core, medians.",))


if __name__ == "__main__":
    main()
