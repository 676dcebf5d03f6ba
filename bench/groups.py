"""Gangs, quotas and GPUs in the cluster's engine compared with plain pods, all in one run: microseconds per pod, and
decisions per second.

One cluster of nodes with eight GPUs each, a quota tree of `leaves` leaves below 32 parents, and batches of pods that
arrive, are decided together and leave: `plain` pods; the same pods each in a quota; the same with a whole GPU or part
of one; gangs, with each member's cost compared with the plain pod's, accepted and rolled back. The cost of quotas alone
is measured by `bench.quota` (compiled: goal 0.3 us per pod), whole gangs of 3 and of 512 by `bench.gangs`, one
allocation of devices by `bench.devices` (goal 20 us); this bench measures what the engine as a whole adds. Medians of
CPU time of one core; demand is synthetic.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from bench.machine import peak_memory_mib, show
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.demands import NO_DEMANDS, Demands
from cotenant.model.cluster.labels import HOSTNAME, NO_LABELS, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.groups.gang import GangNotes
from cotenant.model.groups.quota import NAME as QUOTA
from cotenant.model.groups.quota import ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.resources import GPU_CORE, GPU_MEMORY_RATIO, Amounts
from cotenant.policy.placement.profiles import profile
from cotenant_lab.clusterworld.racks import gpus

PARENTS = 32
GPUS = 8
CORES = 64
GIB = 1 << 30

Make = Callable[[int], ObservedPod]


def cluster(nodes: int, leaves: int) -> Cluster:
    """Idle nodes with GPUs, and a quota tree in which every leaf may use the whole cluster."""
    made = Cluster(profile("cotenant-requests"), np.random.default_rng(1), EngineSettings(max_pods=8192))
    size = {"cpu": CORES * 1000, "memory": 512 * GIB, GPU_CORE: GPUS * 100, GPU_MEMORY_RATIO: GPUS * 100}
    for i in range(nodes):
        made.node_seen(Node(f"n{i}", Amounts.of(size), Labels.of({HOSTNAME: f"n{i}"})))
        made.plugins.devices.seen(NodeDevices(f"n{i}", gpus(GPUS)))
    every, owed = nodes * CORES * 1000, nodes * CORES * 1000 // max(1, leaves)
    parents = min(PARENTS, leaves)
    for i in range(parents):
        below = len(range(i, leaves, parents))
        _add_quota(
            made, Quota(f"p{i}", Amounts.of({"cpu": every}), Amounts.of({"cpu": owed * below}), ROOT_QUOTA, True)
        )
    for i in range(leaves):
        _add_quota(made, Quota(f"q{i}", Amounts.of({"cpu": every}), Amounts.of({"cpu": owed}), f"p{i % parents}"))
    return made


def _add_quota(made: Cluster, quota: Quota) -> None:
    made.plugins.quotas.quota_seen(QuotaObject(f"quotas/{quota.name}", f"uid-{quota.name}", quota), 0.0)


def a_pod(name: str, cores: int = 1, gpu: int = 0, quota: str = "", gang: GangNotes | None = None) -> ObservedPod:
    requests = {"cpu": cores * 1000, "memory": GIB} | ({GPU_CORE: gpu, GPU_MEMORY_RATIO: gpu} if gpu else {})
    labels = Labels.of({QUOTA: quota}) if quota else NO_LABELS
    demands = Demands(gang=gang) if gang is not None else NO_DEMANDS
    return ObservedPod(
        Pod(name, requests=Amounts.of(requests), labels=labels), f"uid-{name}", "cotenant", 0.0, demands=demands
    )


class Stopwatch:
    """Decisions over batches of pods that arrive and leave, on one cluster."""

    def __init__(self, made: Cluster) -> None:
        self._cluster = made
        self._now_s = 1e3
        self._batch = 0

    def seconds(self, name: str, count: int, make: Make, bound: int) -> float:
        """CPU seconds from the first arrival to the last instruction; the pods are removed afterwards."""
        made = self._cluster
        self._batch += 1
        self._now_s += 1000.0
        pods = [make(self._batch * count + i) for i in range(count)]
        begin = process_time()
        for pod in pods:
            made.pod_seen(pod, self._now_s)
        instructions = made.decide(self._now_s)
        taken = process_time() - begin
        binds = sum(isinstance(instruction, Bind) for instruction in instructions)
        if binds != bound:
            raise AssertionError(f"{name}: {binds} binds where {bound} were expected")
        for pod in pods:
            made.pod_gone(pod.uid, self._now_s)
        made.decide(self._now_s)
        return taken

    def row(self, name: str, count: int, make: Make, bound: int, repeats: int) -> dict[str, Any]:
        """One line of the table."""
        taken = median([self.seconds(name, count, make, bound) for _ in range(repeats + 1)][1:])
        return {"what": name, "pods": count, "us_a_pod": round(taken / count * 1e6, 1), "per_s": round(count / taken)}


def rows_for(nodes: int, leaves: int, pods: int, members: list[int], repeats: int) -> list[dict[str, Any]]:
    """Every kind of pod on one cluster, then the difference of each to a plain pod."""
    plain_cluster, full = Stopwatch(cluster(nodes, 0)), Stopwatch(cluster(nodes, leaves))
    plain = plain_cluster.row("plain, no objects", pods, lambda i: a_pod(f"p{i}"), pods, repeats)
    rows = [
        plain,
        full.row("plain, beside all objects", pods, lambda i: a_pod(f"p{i}"), pods, repeats),
        full.row("each in a quota", pods, lambda i: a_pod(f"q{i}", quota=f"q{i % leaves}"), pods, repeats),
        full.row("one GPU each", pods, lambda i: a_pod(f"g{i}", gpu=100), pods, repeats),
        full.row("half a GPU each", pods, lambda i: a_pod(f"h{i}", gpu=50), pods, repeats),
        full.row("quota and GPU", pods, lambda i: a_pod(f"b{i}", gpu=100, quota=f"q{i % leaves}"), pods, repeats),
    ]
    for size in members:
        beside = full.row(f"{size} plain pods", size, lambda i: a_pod(f"s{i}"), size, repeats)
        rows.append(beside)
        for cores, bound, name in ((1, size, "accepted"), (CORES + 1, 0, "refused")):

            def member(i: int, size: int = size, cores: int = cores) -> ObservedPod:
                own = CORES + 1 if i % size == size - 1 and cores > CORES else 1  # the last one fits nowhere
                return a_pod(f"m{size}-{cores}-{i}", own, gang=GangNotes(f"g{size}-{cores}-{i // size}", size, size))

            rows.append(full.row(f"gang of {size}, {name}", size, member, bound, repeats))
    for row in rows:
        base = plain["us_a_pod"]
        row["adds_us"] = round(row["us_a_pod"] - base, 1)
        row["all_ms"] = round(row["us_a_pod"] * row["pods"] / 1e3, 2)
    return [{"nodes": nodes, "leaves": leaves, **row} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__)
    parser.add_argument("--nodes", type=int, action="append", help="may be given several times (default 10000)")
    parser.add_argument("--leaves", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=1000, help="in a batch")
    parser.add_argument("--members", type=int, action="append", help="of a gang (default 8, 64, 512)")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = [
        row
        for nodes in given.nodes or (10_000,)
        for row in rows_for(nodes, given.leaves, given.pods, given.members or [8, 64, 512], given.repeats)
    ]
    notes = (
        "CPU time of one core, medians, from the first arrival to the last instruction.",
        "adds_us: difference to a plain pod without any objects.",
    )
    show(rows, given.json, (*notes, f"Peak memory {peak_memory_mib():.0f} MiB."))


if __name__ == "__main__":
    main()
