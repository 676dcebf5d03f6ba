"""Several schedulers that all act, compared with one: what a decision costs each of them, how often they meet, and how
good the placement is. Real engines and the real protocol, in one process and in simulated time.

Nodes of 8 cores, each with a service of 2 to 5 cores on it, of known sensitivity and pressure; then pods of 1 or 2
cores arrive, of workloads of ten, a fifth of them services. All shards hear of all pods; each is told of the others'
binds one round later. `us_a_pod`: CPU time of the busiest shard over all pods, with all events, its own and the others'
(`decide`, `events`, `protocol`: its parts; an event begins with the pod as a value: reading it from JSON comes on top
in each shard). `times` is that of one scheduler over it, `times_decide` that of decisions alone. It is the throughput
of so many machines as there are shards, each with a core: this bench runs them one after the other and measures the CPU
time of each, it does not show wall time; the first third of the pods is not timed.

`violating`: percent of the services whose slowdown, 1 + sensitivity x the pressure of the others over half a node (the
lab's linear law), is beyond what they tolerate, all services of the cluster counted. `foreign`: percent of pods on
borrowed nodes. `busiest`: percent of the pods placed by the shard that placed the most. `conflicts`: percent of binds
that the server refused, and of nodes asked for that were not lent.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from bench.machine import peak_memory_mib, show
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy
from cotenant.model.cluster.pod import Pod, PodEstimate
from cotenant.model.resources import Amounts
from cotenant.model.shards.table import ShardTable, SlotMember
from cotenant.policy.placement.profiles import profile
from cotenant.policy.sharding.borrowing import LoanLimits
from cotenant.services.scheduler.shards.pods_of_shard import PodsOfShard
from cotenant.services.scheduler.shards.shard import Shard

CORES, GIB = 8, 1 << 30
BATCH = 128
KINDS = 8  # of behaviour; with two sizes and services beside batch, 32 shapes arrive


@dataclass
class Table:
    """The register on which the shards agree, in this process."""

    table: ShardTable = field(default_factory=ShardTable)
    version: int = 0
    conflicts: int = 0

    async def read(self) -> tuple[ShardTable, int]:
        """See `Agreement`."""
        return self.table, self.version

    async def replace(self, table: ShardTable, version: int) -> tuple[ShardTable, int] | None:
        """See `Agreement`."""
        if version != self.version:
            self.conflicts += 1
            return None
        self.table, self.version = table, self.version + 1
        return self.table, self.version

    async def holder(self, member: SlotMember) -> str:
        """See `Agreement`: nobody dies here."""
        return member.identity


class NoFence:
    """Nobody is lost here."""

    changed = 0


@dataclass(frozen=True)
class World:
    """What is there before, and what arrives."""

    nodes: tuple[Node, ...]
    residents: tuple[ObservedPod, ...]
    arrivals: tuple[ObservedPod, ...]


def world(nodes: int, pods: int, seed: int, workloads: int = 0) -> World:
    """A cluster and its arrivals, of so many workloads; 0 = of ten pods each."""
    rng = np.random.default_rng(seed)
    size = Amounts.of({"cpu": CORES * 1000, "memory": 32 * GIB})
    made = tuple(Node(f"n{i}", size, Labels.of({HOSTNAME: f"n{i}"})) for i in range(nodes))
    kinds = rng.integers(0, KINDS, nodes)
    cores = rng.integers(2, 6, nodes)
    residents = tuple(
        _pod(f"r{i}", int(cores[i]), int(kinds[i]), True, f"resident-{i % 997}", made[i].name) for i in range(nodes)
    )
    service, kind, asked = rng.random(pods) < 0.2, rng.integers(0, KINDS, pods), rng.integers(1, 3, pods)
    arrivals = tuple(
        _pod(
            f"a{i}",
            int(asked[i]),
            int(kind[i]),
            bool(service[i]),
            f"workload-{i % workloads if workloads else i // 10}",
        )
        for i in range(pods)
    )
    return World(made, residents, arrivals)


def _pod(name: str, cores: int, kind: int, service: bool, workload: str, node: str = "") -> ObservedPod:
    estimate = PodEstimate(
        0.6 * cores,
        GIB,
        sensitivity=0.2 + 0.1 * kind if service else 0.1,
        pressure=0.2 + 0.15 * (kind % 6),
        allowance=0.1 + 0.05 * (kind % 4) if service else 2.0,
    )
    pod = Pod(name, requests=Amounts.of({"cpu": cores * 1000, "memory": GIB}), estimate=estimate)
    owner = OwnedBy("apps/v1", "ReplicaSet", workload, workload, controller=True)
    return ObservedPod(pod, f"uid-{name}", "cotenant", 0.0, node=node, owned_by=(owner,))


class Timer:
    """CPU seconds by part."""

    def __init__(self) -> None:
        self.parts = {"decide": 0.0, "events": 0.0, "protocol": 0.0}

    def run(self, part: str, work: Callable[[], Any]) -> Any:
        """The result; its CPU time counts to the part."""
        begun = process_time()
        try:
            return work()
        finally:
            self.parts[part] += process_time() - begun

    @property
    def total(self) -> float:
        """All parts."""
        return sum(self.parts.values())


class One:
    """One scheduler."""

    def __init__(self, by: str) -> None:
        self.cluster = Cluster(
            profile(by), np.random.default_rng(1), EngineSettings(max_pods=BATCH, detailed_records=True)
        )
        self.timer = Timer()
        self.shard: Shard | None = None
        self.now_s = 1e3

    def load(self, given: World) -> None:
        """What is there before."""
        for node in given.nodes:
            self._node(node)
        for pod in given.residents:
            self.seen(pod)
        self.cluster.decide(self.now_s)

    def _node(self, node: Node) -> None:
        self.cluster.node_seen(node)

    def seen(self, pod: ObservedPod) -> None:
        """A pod as the watch delivers it."""
        self.cluster.pod_seen(pod, self.now_s)

    def decide(self) -> list[Bind]:
        """One round."""
        return [bind for bind in self.cluster.decide(self.now_s) if isinstance(bind, Bind)]

    async def turn(self) -> None:
        """The protocol."""


class OneOf(One):
    """One of several."""

    def __init__(self, by: str, slot: int, table: Table, limits: LoanLimits | None = None) -> None:
        super().__init__(by)
        self.pods = PodsOfShard(self.cluster, ("cotenant",), lambda: self.now_s)
        self.shard = Shard(
            self.cluster,
            self.pods,
            table,  # type: ignore[arg-type]  # what it has of `Agreement` is used
            NoFence(),  # type: ignore[arg-type]
            f"replica-{slot}",
            lambda: 1 << 60,
            lambda: True,
            lambda: None,
            limits,
            now=lambda: self.now_s,
        )
        self.slot = slot

    def _node(self, node: Node) -> None:
        assert self.shard is not None
        self.shard.node_seen(node)

    def seen(self, pod: ObservedPod) -> None:
        """See `One`."""
        self.pods.pod_seen(pod, self.now_s)

    async def turn(self) -> None:
        """See `One`."""
        assert self.shard is not None
        await self.shard.turn()


@dataclass
class Server:
    """What is bound, and what a bind is refused for."""

    free: dict[str, int]
    bound: dict[str, str] = field(default_factory=dict)
    refused: int = 0

    def bind(self, bind: Bind, pod: ObservedPod) -> bool:
        """Bind a pod that is not bound yet; room is checked, as invariant."""
        if bind.uid in self.bound:
            self.refused += 1
            return False
        self.bound[bind.uid] = bind.node
        self.free[bind.node] -= pod.pod.requests.get("cpu")
        assert self.free[bind.node] >= 0, f"{bind.node} is over its capacity"
        return True


async def measure(given: World, shards: int, by: str, per_round: int) -> dict[str, Any]:
    """All arrivals through so many schedulers."""
    table = Table()
    all_of = [One(by)] if shards == 1 else [OneOf(by, slot, table) for slot in range(shards)]
    server = Server({node.name: CORES * 1000 for node in given.nodes})
    for one in all_of:
        if isinstance(one, OneOf) and one.shard is not None:
            one.shard.begin(one.slot)
        one.load(given)
    for pod in given.residents:
        server.free[pod.node] -= pod.pod.requests.get("cpu")
    for _ in range(6 * shards if shards > 1 else 0):
        for one in all_of:
            await one.turn()
    gc.collect()
    gc.freeze()
    for one in all_of:
        one.timer = Timer()
    by_uid = {pod.uid: pod for pod in given.arrivals}
    waiting, foreign, asked, quiet = list(given.arrivals), 0, set[tuple[str, int]](), 0
    told: list[ObservedPod] = []
    bound_by: Counter[int] = Counter()
    warm = len(given.arrivals) // 3
    timed = len(given.arrivals)
    while quiet < 12:
        if warm and len(server.bound) >= warm:  # from here on every shape has been judged before
            timed -= len(server.bound)
            warm = 0
            for one in all_of:
                one.timer = Timer()
        arriving, waiting = waiting[:per_round], waiting[per_round:]
        news, told = [*arriving, *told], []
        for number, one in enumerate(all_of):
            one.now_s += 0.5 if not arriving else 0.02
            for pod in news:
                one.timer.run("events", partial(one.seen, pod))
            if shards > 1:
                begun = process_time()
                await one.turn()
                one.timer.parts["protocol"] += process_time() - begun
            binds = one.timer.run("decide", one.decide)
            for bind in binds:
                pod = by_uid[bind.uid]
                one.cluster.sending(bind.uid, one.now_s)
                if not server.bind(bind, pod):
                    one.cluster.bind_failed(bind.uid, "Conflict", one.now_s)
                    continue
                one.timer.run("events", partial(one.cluster.bound, bind.uid, one.now_s))
                bound_by[number] += 1
                if one.shard is not None and bind.node in one.shard.territory.borrowed:
                    foreign += 1
                told.append(replace(pod, node=bind.node))
        asked |= {(node, loan.borrower) for node, loan in table.table.loans.items()}
        quiet = 0 if waiting or told else quiet + 1
    lent = sum(one.shard.loans for one in all_of if one.shard is not None)
    busiest = max((one.timer for one in all_of), key=lambda timer: timer.total)
    most = max(bound_by.values(), default=0)
    pods = len(given.arrivals)
    us = 1e6 / max(1, timed)
    tries = len(server.bound) + server.refused + len(asked)
    return {
        "nodes": len(given.nodes),
        "shards": shards,
        "pods": pods,
        "us_a_pod": round(busiest.total * us, 1),
        **{part: round(seconds * us, 1) for part, seconds in busiest.parts.items()},
        "placed": len(server.bound),
        "busiest": round(100 * most / max(1, len(server.bound)), 1),
        "foreign": round(100 * foreign / pods, 2),
        "conflicts": round(100 * (server.refused + max(0, len(asked) - lent)) / max(1, tries), 2),
        "violating": round(violating(given, server.bound), 3),
    }


def violating(given: World, bound: dict[str, str]) -> float:
    """Percent of all services whose slowdown is beyond what they tolerate."""
    there = [*given.residents, *(replace(pod, node=bound[pod.uid]) for pod in given.arrivals if pod.uid in bound)]
    number = {node.name: i for i, node in enumerate(given.nodes)}
    rows = np.array([number[pod.node] for pod in there])
    of = [pod.pod.estimate for pod in there]
    pressure = np.array([one.pressure * one.use_cpu_cores if one is not None else 0.0 for one in of])
    sensitivity = np.array([one.sensitivity if one is not None else 0.0 for one in of])
    allowance = np.array([one.allowance if one is not None else np.inf for one in of])
    total = np.bincount(rows, pressure, len(given.nodes))
    excess = sensitivity * (total[rows] - pressure) / (CORES / 2)
    service = allowance < 1.0
    return float(100.0 * (excess[service] > allowance[service]).mean())


def rows_for(given: World, shards: Sequence[int], by: str, per_round: int) -> list[dict[str, Any]]:
    """One cluster, with each number of schedulers."""
    rows: list[dict[str, Any]] = []
    for count in shards:
        row = asyncio.run(measure(given, count, by, per_round * count))
        gc.unfreeze()
        gc.collect()
        rows.append(row)
        row["times"] = round(rows[0]["us_a_pod"] / row["us_a_pod"], 2)
        row["times_decide"] = round(rows[0]["decide"] / (row["decide"] + row["protocol"]), 2)
    return rows


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument(
        "--per-round", type=int, default=BATCH, help="pods that arrive in one round, for each scheduler"
    )
    parser.add_argument(
        "--workloads", type=int, default=0, help="few of them load shards unevenly; 0: of ten pods each"
    )
    parser.add_argument("--profile", default="cotenant-requests")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = []
    for nodes in given.nodes:
        made = world(nodes, given.pods, given.seed, given.workloads)
        rows += rows_for(made, given.shards, given.profile, given.per_round)
    show(rows, given.json, (f"profile {given.profile}", f"peak memory {peak_memory_mib():.0f} MiB"))


if __name__ == "__main__":
    main()
