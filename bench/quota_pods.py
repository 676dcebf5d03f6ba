"""The cost of elastic quotas per pod in a cluster's engine, compared with plain pods in the same run, in microseconds
of one core's time.

The same pods are added to the engine, placed, bound and deleted three times: `none` without quotas, `outside` where
there is a tree and the pods belong to no quota of it, `leaves` where they belong to its leaves in turn. `seen` is
adding a pod, `decide` its judgement and placement (`engine/cluster.py`), `bound` the result of its bind, `gone` its
deletion. `admit` is the quotas' own part of `decide`: Python around the compiled loop; `kernel` is that loop alone,
which checks a leaf and accounts for it at every level. Medians of the repeats.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from time import process_time
from typing import Any

import numpy as np

from bench.machine import show
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.plugin import PodRefused
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.quotas.accounts import TreeAccounts
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.quota import NAME, ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.policy.quota.headroom_arrays import admit_in_order

PARENTS = 32
SORTS = ("none", "outside", "leaves")


def amounts(cores: int) -> Amounts:
    return Amounts.of({"cpu": cores * 1000, "memory": cores << 32})


class Watched(Quotas):
    """Quotas that measure the time of their part in decisions."""

    admit_s = 0.0

    def pre_filter(self, pods: Sequence[PodInfo], now_s: float) -> Mapping[int, PodRefused]:
        begin = process_time()
        found = super().pre_filter(pods, now_s)
        self.admit_s += process_time() - begin
        return found


def a_cluster(nodes: int, leaves: int, sort: str) -> tuple[Cluster, Watched]:
    quotas = Watched(QuotaSettings(status_every_s=3600.0))
    cluster = Cluster(profile("cotenant-requests"), np.random.default_rng(1), plugins=PluginRegistry(quotas=quotas))
    for i in range(nodes):
        cluster.node_seen(Node(f"n{i}", amounts(64), Labels.of({HOSTNAME: f"n{i}"})))
    if sort != "none":
        for i in range(PARENTS):
            above = Quota(f"p{i}", amounts(64 * nodes), is_parent=True)
            quotas.quota_seen(QuotaObject(f"q/{above.name}", "", above), 0.0)
        for i in range(leaves):
            leaf = Quota(
                f"q{i}", amounts(64 * nodes), amounts(1), f"p{i % PARENTS}" if leaves > PARENTS else ROOT_QUOTA
            )
            quotas.quota_seen(QuotaObject(f"q/{leaf.name}", "", leaf), 0.0)
    cluster.decide(0.0)
    return cluster, quotas


def timed(count: int, work: Callable[[], object]) -> float:
    begin = process_time()
    work()
    return (process_time() - begin) / count * 1e6


def once(nodes: int, leaves: int, pods: int, sort: str) -> dict[str, float]:
    cluster, quotas = a_cluster(nodes, leaves, sort)
    seen = []
    for i in range(pods):
        labels = Labels.of({NAME: f"q{i % leaves}"} if sort == "leaves" else {"app": f"a{i % leaves}"})
        seen.append(ObservedPod(Pod(f"x{i}", requests=amounts(1), labels=labels), f"u{i}", "cotenant", float(i)))
    found: list[Bind] = []

    def decide() -> None:
        while cluster.next_s() <= 1.0:
            found.extend(instruction for instruction in cluster.decide(1.0) if isinstance(instruction, Bind))

    def bound() -> None:
        for instruction in found:
            cluster.sending(instruction.uid, 1.0)
            cluster.bound(instruction.uid, 1.0)

    def add() -> None:
        for observed_pod in seen:
            cluster.pod_seen(observed_pod, 0.0)

    def delete() -> None:
        for observed_pod in seen:
            cluster.pod_gone(observed_pod.uid, 2.0)

    row = {
        "seen": timed(pods, add),
        "decide": timed(pods, decide),
        "bound": timed(pods, bound),
    }
    if len(found) != pods:
        raise AssertionError(f"{pods - len(found)} pods found no node")
    row["admit"] = quotas.admit_s / pods * 1e6
    row["gone"] = timed(pods, delete)
    return row


def kernel_us(leaves: int, pods: int) -> float:
    """The compiled loop alone, on the engine's accounts."""
    cluster, quotas = a_cluster(pods // 32 + 1, leaves, "leaves")
    labels = [Labels.of({NAME: f"q{i}"}) for i in range(leaves)]
    for i in range(leaves):
        cluster.pod_seen(
            ObservedPod(Pod(f"x{i}", requests=amounts(1), labels=labels[i]), f"u{i}", "other", 0.0, node="n0"), 0.0
        )
    account: TreeAccounts = quotas._settled().trees[""]  # type: ignore[union-attr]
    for name in account.members:
        account.table.renew(account.tree, name)
    arrays = account.table.arrays
    arrays.limit[:] = 1 << 60
    rows = np.resize(np.array([account.table.row(f"q{i}") for i in range(leaves)]), pods)
    rng = np.random.default_rng(1)
    rng.shuffle(rows)
    of, preemptible, fits = (
        np.zeros(pods, dtype=np.int64),
        np.ones(pods, dtype=np.bool_),
        np.empty(pods, dtype=np.bool_),
    )
    admit_in_order(arrays, rows[:1], account._requests, of[:1], preemptible[:1], fits[:1])
    begin = process_time()
    admit_in_order(arrays, rows, account._requests, of, preemptible, fits)
    taken = process_time() - begin
    if not fits.all():
        raise AssertionError("a pod did not fit")
    return taken / pods * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.quota_pods", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--leaves", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    kernel = kernel_us(given.leaves, max(given.pods, 1000))
    once(10, 4, 20, "leaves")  # compile
    runs: dict[str, list[dict[str, float]]] = {sort: [] for sort in SORTS}
    for _ in range(given.repeats):
        for sort in SORTS:
            runs[sort].append(once(given.nodes, given.leaves, given.pods, sort))
    rows = []
    for sort, found in runs.items():
        row: dict[str, Any] = {"pods": given.pods, "leaves": given.leaves, "sort": sort}
        row |= {f"{name}_us": round(statistics.median(entry[name] for entry in found), 2) for name in found[0]}
        row["kernel_us"] = round(kernel, 4) if sort == "leaves" else 0.0
        rows.append(row)
    show(rows, given.json, ("CPU time of one core, a pod. Stages are Python with the compiled parts in them.",))


if __name__ == "__main__":
    main()
