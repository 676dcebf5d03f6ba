"""One quota whose pods are of many workloads, with several schedulers that all act: how long its pods wait, and what
part of it is used. Real engines and the real protocol in one process and in simulated time; nobody dies here.

Nodes of 8 cores. A quota may use `share` of all cores; pods of 1 or 2 cores arrive so that its pods ask for `load`
times what it may use, after a first lot that asks for half of it at once, and end after `minutes` on average. A
scheduler decides for `batch` pods in a round of half a second. `lends`: whether room of the quota is lent.

`wait_s`, `p95_s`: seconds from arrival to the bind of pods that arrived in the second half or waited then, those that
still wait at the end counted up to there. `used`: percent of the quota, mean over the second half. `asked`: percent of
the quota that pods on nodes and waiting ones ask for, at most 100: what could be used. `over`: rounds in which more was
bound than the quota has (must be 0).
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.machine import show
from bench.shards import CORES, GIB, One, OneOf, Server, Table
from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, OwnedBy
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.quota import NAME, Quota, QuotaObject
from cotenant.model.resources import Amounts
from cotenant.policy.sharding.borrowing import LoanLimits

ROUND_S = 0.5
WORKLOADS = 40


@dataclass(frozen=True)
class Arrival:
    """A pod, when it comes, and how long it runs."""

    pod: ObservedPod
    at_s: float
    runs_s: float

    @property
    def cores(self) -> int:
        """What it requests."""
        return self.pod.pod.requests.get("cpu") // 1000


def arrivals(most: int, load: float, minutes: float, seconds: float, seed: int) -> list[Arrival]:
    """Pods of a quota of so many cores."""
    rng = np.random.default_rng(seed)
    found: list[Arrival] = []
    asked = 0
    while asked < most // 2:
        found.append(_arrival(len(found), rng, 0.0, minutes))
        asked += found[-1].cores
    gap_s = 1.5 * minutes * 60.0 / (load * most)  # 1.5 cores each, by Little's law
    at_s = float(rng.exponential(gap_s))
    while at_s < seconds:
        found.append(_arrival(len(found), rng, at_s, minutes))
        at_s += float(rng.exponential(gap_s))
    return found


def _arrival(number: int, rng: np.random.Generator, at_s: float, minutes: float) -> Arrival:
    cores, workload = int(rng.integers(1, 3)), f"workload-{int(rng.integers(WORKLOADS))}"
    requests = Amounts.of({"cpu": cores * 1000, "memory": GIB})
    pod = Pod(f"p{number}", requests=requests, labels=Labels.of({NAME: "team"}))
    owner = OwnedBy("apps/v1", "ReplicaSet", workload, workload, controller=True)
    seen = ObservedPod(pod, f"uid-{number}", "cotenant", at_s, owned_by=(owner,))
    return Arrival(seen, at_s, float(rng.exponential(60.0 * minutes)))


class Run:
    """One cluster with so many schedulers."""

    def __init__(self, nodes: int, shards: int, lends: bool, most: int, batch: int) -> None:
        table, limits = Table(), LoanLimits() if lends else LoanLimits(max_rooms=0)
        by = "cotenant-requests"
        self.all = [One(by)] if shards == 1 else [OneOf(by, slot, table, limits) for slot in range(shards)]
        self.server = Server({f"n{i}": CORES * 1000 for i in range(nodes)})
        self.most = most
        amounts = Amounts.of({"cpu": most * 1000})
        size = Amounts.of({"cpu": CORES * 1000, "memory": 32 * GIB, "pods": 110})
        for one in self.all:
            one.cluster.settings = replace(one.cluster.settings, max_pods=batch)
            one.cluster.plugins.quotas.quota_seen(QuotaObject("default/team", "q", Quota("team", amounts)), 0.0)
            if one.shard is not None:
                one.shard.begin(one.slot)  # type: ignore[attr-defined]
            for i in range(nodes):
                one._node(Node(f"n{i}", size, Labels.of({HOSTNAME: f"n{i}"})))
            one.now_s = 0.0

    async def rounds(self, given: list[Arrival], seconds: float) -> dict[str, Any]:
        """All rounds."""
        for _ in range(6 * len(self.all)):
            await self._turn()
        begun_s = self.all[0].now_s
        by_uid, waiting = {one.pod.uid: one for one in given}, list(given)
        ends: list[tuple[float, str]] = []
        since: dict[str, float] = {}
        waits: list[float] = []
        used, could, over, now_s = list[float](), list[float](), 0, 0.0
        while now_s < seconds:
            now_s = self.all[0].now_s - begun_s
            while waiting and waiting[0].at_s <= now_s:
                arrival = waiting.pop(0)
                since[arrival.pod.uid] = arrival.at_s
                for one in self.all:
                    one.seen(arrival.pod)
            for end in [end for end in ends if end[0] <= now_s]:
                ends.remove(end)
                self._end(by_uid[end[1]])
            for uid in await self._turn(by_uid):
                ends.append((now_s + by_uid[uid].runs_s, uid))
                waited_s = now_s - since.pop(uid)
                if now_s >= seconds / 2:
                    waits.append(waited_s)
            running = sum(by_uid[uid].cores for _, uid in ends)
            over += running > self.most
            if now_s >= seconds / 2:
                used.append(running)
                could.append(min(self.most, running + sum(by_uid[uid].cores for uid in since)))
        waits += [now_s - at_s for at_s in since.values()]
        return {
            "wait_s": round(float(np.mean(waits)), 2),
            "p95_s": round(float(np.quantile(waits, 0.95)), 1),
            "used": round(100 * float(np.mean(used)) / self.most, 1),
            "asked": round(100 * float(np.mean(could)) / self.most, 1),
            "over": over,
            "refused": self.server.refused,
        }

    async def _turn(self, by_uid: dict[str, Arrival] | None = None) -> list[str]:
        bound: list[str] = []
        told: list[ObservedPod] = []
        for one in self.all:
            one.now_s += ROUND_S
            await one.turn()
            binds = [bind for bind in one.cluster.decide(one.now_s) if isinstance(bind, Bind)]
            for bind in binds if by_uid is not None else ():
                assert by_uid is not None
                one.cluster.sending(bind.uid, one.now_s)
                if not self.server.bind(bind, by_uid[bind.uid].pod):
                    one.cluster.bind_failed(bind.uid, "Conflict", one.now_s)
                    continue
                one.cluster.bound(bind.uid, one.now_s)
                bound.append(bind.uid)
                told.append(replace(by_uid[bind.uid].pod, node=bind.node))
        for pod in told:
            for one in self.all:
                one.seen(pod)
        return bound

    def _end(self, arrival: Arrival) -> None:
        uid = arrival.pod.uid
        self.server.free[self.server.bound.pop(uid)] += arrival.cores * 1000
        for one in self.all:
            if isinstance(one, OneOf):
                one.pods.pod_gone(uid, one.now_s)
            else:
                one.cluster.pod_gone(uid, one.now_s)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--share", type=float, default=0.9, help="of all cores that the quota may use")
    parser.add_argument("--load", type=float, default=1.1, help="what its pods ask for, of what it may use")
    parser.add_argument("--minutes", type=float, default=1.0, help="that a pod runs on average")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--batch", type=int, default=128, help="pods that a scheduler decides in a round")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    most, rows = int(given.share * given.nodes * CORES), []
    for seed in given.seeds:
        for shards, lends in ((1, False), (given.shards, False), (given.shards, True)):
            made = arrivals(most, given.load, given.minutes, given.seconds, seed)
            run = Run(given.nodes, shards, lends, most, given.batch)
            found = asyncio.run(run.rounds(made, given.seconds))
            rows.append({"seed": seed, "shards": shards, "lends": lends, "pods": len(made), **found})
    show(rows, given.json, (f"a quota of {most} of {given.nodes * CORES} cores",))


if __name__ == "__main__":
    main()
